"""The colors of the program and what each of them means: the only place where a literal color stands.

Interaction: `accent` marks keys, titles and the focus; `selection` and `selection-cell` are the ground of the row and
of the cell under the cursor. Severity: `error` and `warning`, and nothing else is red or amber. Shares in tables:
`bar`. Parts of a whole in the order of their size: `group-0` to `group-7`. Kinds of work: `kind-*`, one color each,
the same in rows, bars, legends, the dashboard, iterations and the timeline. Kinds that stand side by side differ in
lightness too, for readers who cannot tell red from green.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from textual.theme import BUILTIN_THEMES, Theme

KINDS_DARK: Final = {
    "kind-tensor": "#2fd6b4",  # kernels that use tensor cores
    "kind-other": "#4f79e6",  # other kernels
    "kind-unknown": "#6b7b90",  # kernels of which that is not known, and CUDA graphs as a whole
    "kind-memory": "#d98fe8",  # memory copies
    "kind-memset": "#8a55a8",
    "kind-um": "#f6d3fa",  # unified memory
    "kind-communication": "#f5e663",  # collectives
    "kind-dataloader": "#e0457b",
    "kind-io": "#7c5a34",
    "kind-cpu": "#c9925f",  # the CPU at work outside CUDA
    "kind-launch": "#9fb4c6",  # CUDA calls
    "kind-sync": "#5f7a99",  # CUDA calls that wait
    "kind-range": "#a79be0",  # NVTX ranges and annotations
    "kind-idle": "#39414a",
    "kind-whole": "#a3abb3",  # time of which nothing else is known
    "group-0": "#d5e0ea",
    "group-1": "#a9bccd",
    "group-2": "#8199b0",
    "group-3": "#627d97",
    "group-4": "#4d667e",
    "group-5": "#3d5266",
    "group-6": "#304152",
    "group-7": "#263441",
    "bar": "#7d93a8",
}
"""On a dark ground."""

KINDS_LIGHT: Final = {
    "kind-tensor": "#009e8f",
    "kind-other": "#2f52c4",
    "kind-unknown": "#53637a",
    "kind-memory": "#a948bd",
    "kind-memset": "#5b2672",
    "kind-um": "#dc9ee8",
    "kind-communication": "#b39d00",
    "kind-dataloader": "#c2185b",
    "kind-io": "#5e3f1c",
    "kind-cpu": "#b5763c",
    "kind-launch": "#5d7a94",
    "kind-sync": "#36506b",
    "kind-range": "#6a5bb8",
    "kind-idle": "#d3d7db",
    "kind-whole": "#8f979e",
    "group-0": "#22384d",
    "group-1": "#36536e",
    "group-2": "#4d6d8a",
    "group-3": "#6886a1",
    "group-4": "#86a0b7",
    "group-5": "#a3b7c9",
    "group-6": "#bdccd9",
    "group-7": "#d3dde6",
    "bar": "#5f7488",
}
"""On a light ground."""

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
    # The row under the cursor is in reverse: no ground is sure to be told from the terminal's own.
    "selection": "ansi_default",
    "selection-cell": "ansi_default",
}
"""With sixteen colors, or none, patterns tell kinds apart that share a color."""

DARK: Final = Theme(
    name="proftui-dark",
    primary="#8fc93a",
    secondary="#4f79e6",
    accent="#a5d65a",
    foreground="#d6d9dc",
    background="#14171a",
    surface="#1a1e22",
    panel="#242a30",
    success="#8fc93a",
    warning="#e0a63a",
    error="#ef6a62",
    dark=True,
    variables={
        **KINDS_DARK,
        "selection": "#2d3a47",
        "selection-cell": "#44586b",
        # The built-in one is relative to the background, which text inside a widget does not know.
        "text-muted": "#8f979e",
        # What stands where nothing is typed yet, and lines that cannot be chosen: Textual's own can hardly be read.
        "text-disabled": "#8f979e",
        "footer-key-foreground": "#a5d65a",
        "block-cursor-background": "#2d3a47",
        "block-cursor-foreground": "#d6d9dc",
        "block-cursor-text-style": "bold",
        "input-selection-background": "#4f79e6 40%",
    },
)

LIGHT: Final = Theme(
    name="proftui-light",
    primary="#3f7300",
    secondary="#2f52c4",
    accent="#3f7300",
    foreground="#22262a",
    background="#f7f7f5",
    surface="#f0f0ee",
    panel="#e2e4e4",
    success="#3f7300",
    warning="#8a5a00",
    error="#b3261e",
    dark=False,
    variables={
        **KINDS_LIGHT,
        "selection": "#cdd8e3",
        "selection-cell": "#aabccd",
        "text-muted": "#5f666c",
        "text-disabled": "#5f666c",
        "footer-key-foreground": "#3f7300",
        "block-cursor-background": "#cdd8e3",
        "block-cursor-foreground": "#22262a",
        "block-cursor-text-style": "bold",
    },
)

SIXTEEN_DARK: Final = replace(
    BUILTIN_THEMES["ansi-dark"],
    primary="ansi_green",
    accent="ansi_bright_green",
    variables={
        **BUILTIN_THEMES["ansi-dark"].variables,
        **KINDS_SIXTEEN,
        "scrollbar": "ansi_green",
        "scrollbar-hover": "ansi_bright_green",
        "scrollbar-active": "ansi_bright_green",
        "footer-key-foreground": "ansi_bright_green",
    },
)
"""The terminal's own sixteen colors on a dark ground. Blue, which Textual takes, is hardly told from black there: a
row under the cursor is black on it, and scroll bars are not seen."""

SIXTEEN_LIGHT: Final = replace(
    BUILTIN_THEMES["ansi-light"], variables={**BUILTIN_THEMES["ansi-light"].variables, **KINDS_SIXTEEN}
)
"""The terminal's own sixteen colors on a light ground."""


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
"""Where no color is sent. In lists of Textual's own the line under the cursor is underlined: they forget reverse."""


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


def kind_defaults() -> dict[str, str]:
    """The variables of this program for themes that do not define them."""
    return {**KINDS_DARK, "selection": "#2d3a47", "selection-cell": "#44586b"}
