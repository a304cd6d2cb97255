"""The colors of kinds of work, severities and backgrounds, for screens and HTML pages.

Each kind of work has one color, the same in rows, bars, legends and charts. Adjacent kinds also differ in
lightness, for readers with color vision deficiency.
"""

from __future__ import annotations

from typing import Final

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

GROUND_DARK: Final = {
    "accent": "#a5d65a",
    "foreground": "#d6d9dc",
    "background": "#14171a",
    "surface": "#1a1e22",
    "panel": "#242a30",
    "muted": "#8f979e",
    "warning": "#e0a63a",
    "error": "#ef6a62",
}
"""Text, grounds and severities on a dark ground."""

GROUND_LIGHT: Final = {
    "accent": "#3f7300",
    "foreground": "#22262a",
    "background": "#f7f7f5",
    "surface": "#f0f0ee",
    "panel": "#e2e4e4",
    "muted": "#5f666c",
    "warning": "#8a5a00",
    "error": "#b3261e",
}
"""The same on a light ground."""
