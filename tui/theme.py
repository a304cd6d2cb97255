"""The themes and what each color means. Literal colors are only here and in `tui.colors`.

Interaction: `accent` marks keys, titles and the focus; `selection` and `selection-cell` are the backgrounds of the row
and of the cell under the cursor. Severity: `error` and `warning`, and nothing else is red or amber; a warning is
written in `warning-ink` on `warning-background`. Shares in tables: `bar`. Parts of a whole in the order of their size:
`group-0` to `group-7`. Kinds of work: `kind-*`, one color each, the same in rows, bars, legends, the dashboard,
iterations and the timeline. Adjacent kinds also differ in lightness, for readers with red-green color blindness.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from textual.theme import BUILTIN_THEMES, Theme

from tui.colors import BASE_DARK, BASE_LIGHT, KINDS_DARK, KINDS_LIGHT

KINDS_SIXTEEN: Final = {
    "kind-tensor": "ansi_green",
    "kind-other": "ansi_cyan",
    "kind-unknown": "ansi_default",
    "kind-memory": "ansi_magenta",
    "kind-memset": "ansi_magenta",
    "kind-um": "ansi_magenta",
    "kind-communication": "ansi_bright_yellow",
    "kind-dataloader": "ansi_bright_magenta",
    "kind-io": "ansi_default",
    "kind-cpu": "ansi_default",
    "kind-launch": "ansi_cyan",
    "kind-sync": "ansi_default",
    "kind-range": "ansi_magenta",
    "kind-idle": "ansi_bright_black",
    "kind-whole": "ansi_default",
    "group-0": "ansi_default",
    "group-1": "ansi_cyan",
    "group-2": "ansi_magenta",
    "group-3": "ansi_green",
    "group-4": "ansi_default",
    "group-5": "ansi_cyan",
    "group-6": "ansi_magenta",
    "group-7": "ansi_green",
    "bar": "ansi_default",
    # The row under the cursor is in reverse video, because the terminal's own background color is unknown.
    "selection": "ansi_default",
    "selection-cell": "ansi_default",
}
"""With sixteen colors or none, patterns distinguish kinds with the same color."""

DARK: Final = Theme(
    name="proftui-dark",
    primary="#8fc93a",
    secondary="#4f79e6",
    accent=BASE_DARK["accent"],
    foreground=BASE_DARK["foreground"],
    background=BASE_DARK["background"],
    surface=BASE_DARK["surface"],
    panel=BASE_DARK["panel"],
    success="#8fc93a",
    warning=BASE_DARK["warning"],
    error=BASE_DARK["error"],
    dark=True,
    variables={
        **KINDS_DARK,
        "selection": "#323a42",
        "selection-cell": "#4c5864",
        # The built-in one is relative to the background, which is unknown to text inside a widget.
        "text-muted": BASE_DARK["muted"],
        # Placeholders and disabled lines, which are hardly legible with Textual's defaults.
        "text-disabled": BASE_DARK["muted"],
        "warning-ink": BASE_DARK["warning"],
        "warning-background": "transparent",
        "scrollbar": "#4a525a",
        "scrollbar-hover": "#5c656e",
        "scrollbar-active": "#6e7882",
        "footer-key-foreground": "#a5d65a",
        "block-cursor-background": "#323a42",
        "block-cursor-foreground": "#d6d9dc",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": BASE_DARK["panel"],
        "block-cursor-blurred-foreground": BASE_DARK["foreground"],
        "input-selection-background": "#4f79e6 40%",
    },
)

LIGHT: Final = Theme(
    name="proftui-light",
    primary="#3f7300",
    secondary="#2f52c4",
    accent=BASE_LIGHT["accent"],
    foreground=BASE_LIGHT["foreground"],
    background=BASE_LIGHT["background"],
    surface=BASE_LIGHT["surface"],
    panel=BASE_LIGHT["panel"],
    success="#3f7300",
    warning=BASE_LIGHT["warning"],
    error=BASE_LIGHT["error"],
    dark=False,
    variables={
        **KINDS_LIGHT,
        "selection": "#ccd2d8",
        "selection-cell": "#abb5bf",
        "text-muted": BASE_LIGHT["muted"],
        "text-disabled": BASE_LIGHT["muted"],
        "warning-ink": BASE_LIGHT["warning"],
        "warning-background": "transparent",
        "scrollbar": "#b4babf",
        "scrollbar-hover": "#9aa1a7",
        "scrollbar-active": "#848c92",
        "footer-key-foreground": "#3f7300",
        "block-cursor-background": "#ccd2d8",
        "block-cursor-foreground": "#22262a",
        "block-cursor-text-style": "bold",
        "block-cursor-blurred-background": BASE_LIGHT["panel"],
        "block-cursor-blurred-foreground": BASE_LIGHT["foreground"],
    },
)

SIXTEEN_DARK: Final = replace(
    BUILTIN_THEMES["ansi-dark"],
    primary="ansi_green",
    accent="ansi_bright_green",
    variables={
        **BUILTIN_THEMES["ansi-dark"].variables,
        **KINDS_SIXTEEN,
        "warning-ink": "ansi_yellow",
        "warning-background": "transparent",
        "scrollbar": "ansi_white",
        "scrollbar-hover": "ansi_bright_white",
        "scrollbar-active": "ansi_bright_white",
        "footer-key-foreground": "ansi_bright_green",
    },
)
"""The terminal's own sixteen colors on a dark background. Textual's default, blue, is hardly distinguishable from black
there: the row under the cursor and the scroll bars would be invisible."""

SIXTEEN_LIGHT: Final = replace(
    BUILTIN_THEMES["ansi-light"],
    accent="ansi_blue",
    warning="ansi_yellow",
    variables={
        **BUILTIN_THEMES["ansi-light"].variables,
        **KINDS_SIXTEEN,
        "block-cursor-background": "ansi_black",
        "warning-ink": "ansi_black",
        "warning-background": "ansi_yellow",
        "scrollbar": "ansi_bright_black",
        "scrollbar-hover": "ansi_black",
        "scrollbar-active": "ansi_black",
        "footer-key-foreground": "ansi_blue",
    },
)
"""The terminal's own sixteen colors on a light background, where yellow text is hardly legible and is a background."""


PLAIN: Final = tuple(
    replace(
        theme,
        name=f"proftui-plain-{choice}",
        variables={
            **theme.variables,
            "block-cursor-foreground": "ansi_default",
            "block-cursor-background": "ansi_default",
            "block-cursor-text-style": "bold underline",
            "input-cursor-foreground": "ansi_default",
            "input-cursor-background": "ansi_default",
            "input-cursor-text-style": "reverse",
        },
    )
    for choice, theme in (("dark", SIXTEEN_DARK), ("light", SIXTEEN_LIGHT))
)
"""Themes without colors. In Textual's own lists the cursor is an underline, because they drop reverse video."""


def theme_name(choice: str, colors: str) -> str:
    """Return the theme for what the user chose and what the terminal can show.

    Args:
        choice: dark or light.
        colors: truecolor, 256, 16 or none.

    >>> theme_name("dark", "truecolor"), theme_name("light", "16")
    ('proftui-dark', 'ansi-light')
    """
    if colors == "none":
        return f"proftui-plain-{choice}"
    return f"ansi-{choice}" if colors == "16" else f"proftui-{choice}"


def theme_variables() -> dict[str, str]:
    """Return the variables of this program for themes that do not define them."""
    return {
        **KINDS_DARK,
        "selection": "#323a42",
        "selection-cell": "#4c5864",
        "warning-ink": BASE_DARK["warning"],
        "warning-background": "transparent",
    }
