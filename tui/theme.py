"""The colours of the program: the only place where a literal colour stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from textual.theme import BUILTIN_THEMES, Theme

DARK: Final = Theme(
    name="proftui-dark",
    primary="#76b900",
    secondary="#4fb3bf",
    accent="#8fd14f",
    foreground="#d6d9d2",
    background="#14171a",
    surface="#1a1e22",
    panel="#242a30",
    success="#76b900",
    warning="#e0a63a",
    error="#e5655e",
    dark=True,
    variables={
        # The built-in one is relative to the background, which text inside a widget does not know.
        "text-muted": "#8f978d",
        # What stands where nothing is typed yet, and lines that cannot be chosen: Textual's own can hardly be read.
        "text-disabled": "#8f978d",
        "footer-key-foreground": "#8fd14f",
        "block-cursor-background": "#76b900",
        "block-cursor-foreground": "#101214",
        "input-selection-background": "#4fb3bf 40%",
    },
)

LIGHT: Final = Theme(
    name="proftui-light",
    primary="#3f7300",
    secondary="#1d6f7a",
    accent="#3f7300",
    foreground="#22261f",
    background="#f7f7f4",
    surface="#f0f0ec",
    panel="#e2e4dd",
    success="#3f7300",
    warning="#8a5a00",
    error="#b3261e",
    dark=False,
    variables={
        "text-muted": "#646b60",
        "text-disabled": "#646b60",
        "footer-key-foreground": "#3f7300",
        "block-cursor-background": "#3f7300",
        "block-cursor-foreground": "#ffffff",
    },
)

SIXTEEN_DARK: Final = replace(
    BUILTIN_THEMES["ansi-dark"],
    primary="ansi_green",
    accent="ansi_bright_green",
    variables={
        **BUILTIN_THEMES["ansi-dark"].variables,
        "scrollbar": "ansi_green",
        "scrollbar-hover": "ansi_bright_green",
        "scrollbar-active": "ansi_bright_green",
        "footer-key-foreground": "ansi_bright_green",
    },
)
"""The terminal's own sixteen colours on a dark ground. Blue, which Textual takes, is hardly told from black there: a
row under the cursor is black on it, and scroll bars are not seen."""


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
    for choice, theme in (("dark", SIXTEEN_DARK), ("light", BUILTIN_THEMES["ansi-light"]))
)
"""Where no colour is sent. In lists of Textual's own the line under the cursor is underlined: they forget reverse."""


def theme_name(choice: str, colors: str) -> str:
    """The theme for what the user chose and what the terminal can show.

    Args:
        choice: dark or light.
        colors: truecolor, 256, 16 or none.

    >>> theme_name("dark", "truecolor"), theme_name("light", "16")
    ('proftui-dark', 'ansi-light')
    """
    if colors == "none":
        return f"proftui-plain-{choice}"
    return f"ansi-{choice}" if colors == "16" else f"proftui-{choice}"
