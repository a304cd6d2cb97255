"""The colors of kinds of work, severities and backgrounds, for screens and HTML pages.

Each kind of work has one color, the same in rows, bars, legends and charts. Adjacent kinds also differ in
lightness, for readers with color vision deficiency. Grays have so little color that they stay gray where there are
256 colors.
"""

from __future__ import annotations

from typing import Final

KINDS_DARK: Final = {
    "kind-tensor": "#2fd6b4",  # kernels that use tensor cores
    "kind-other": "#4f79e6",  # other kernels
    "kind-unknown": "#6b7b90",  # kernels for which that is unknown, and CUDA graphs as a whole
    "kind-memory": "#d98fe8",  # memory copies
    "kind-memset": "#8a55a8",
    "kind-um": "#f6d3fa",  # unified memory
    "kind-communication": "#f5e663",  # collectives
    "kind-dataloader": "#e0457b",
    "kind-io": "#7c5a34",
    "kind-cpu": "#c9925f",  # the CPU at work outside API calls
    "kind-launch": "#9fb4c6",  # CUDA calls
    "kind-sync": "#5f7a99",  # CUDA calls that wait
    "kind-range": "#a79be0",  # NVTX ranges and annotations
    "kind-idle": "#39414a",
    "kind-whole": "#a3abb3",  # time of unknown use
    "group-0": "#d9dce0",
    "group-1": "#b0b8bf",
    "group-2": "#8b95a0",
    "group-3": "#6b7885",
    "group-4": "#556270",
    "group-5": "#424d58",
    "group-6": "#353d46",
    "group-7": "#292f36",
    "bar": "#8593a1",
}
"""The colors on a dark background."""

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
    "group-0": "#2a3138",
    "group-1": "#434d57",
    "group-2": "#5a6874",
    "group-3": "#74818d",
    "group-4": "#8f9aa5",
    "group-5": "#aab2ba",
    "group-6": "#c2c8cd",
    "group-7": "#d6dadd",
    "bar": "#667380",
}
"""The colors on a light background."""

BASE_DARK: Final = {
    "accent": "#a5d65a",
    "foreground": "#d6d9dc",
    "background": "#14171a",
    "surface": "#1a1e22",
    "panel": "#242a30",
    "muted": "#8f979e",
    "warning": "#e0a63a",
    "error": "#ef6a62",
}
"""Text, backgrounds and severities on a dark background."""

BASE_LIGHT: Final = {
    "accent": "#3f7300",
    "foreground": "#22262a",
    "background": "#f7f7f5",
    "surface": "#f0f0ee",
    "panel": "#e2e4e4",
    "muted": "#5f666c",
    "warning": "#8a5a00",
    "error": "#b3261e",
}
"""The same on a light background."""
