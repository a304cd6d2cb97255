"""Every view of the program: its name, title, key, group, and the screen that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

OVERVIEW: Final = "Overview"
OPS: Final = "Ops and kernels"
TIME: Final = "Time and hardware"
INPUT: Final = "This input"
GROUPS: Final = (OVERVIEW, OPS, TIME, INPUT)
"""The groups in the menu of views."""


@dataclass(frozen=True, slots=True)
class View:
    """A view."""

    name: str
    """Its name on the command line, as ``api-calls``."""
    title: str
    """Its name for people."""
    key: str
    """The key that opens it, as shown to users, or empty: a digit in DLProf's order, or a letter."""
    group: str
    """Its group in the menu of views."""
    screen: str
    """Module and class of its screen."""
    description: str
    """A short description."""
    help: str = ""
    """The first lines of its help, where its screen is `TableScreen` and has no text of its own."""
    keys: str = ""
    """All keys that open it, in Textual's names, if the user has rebound them."""

    @property
    def all_keys(self) -> str:
        """All keys that open it, separated by commas."""
        return self.keys or self.key


DEFAULT_VIEWS: Final = (
    View("dashboard", "Dashboard", "1", OVERVIEW, "tui.screens.dashboard:DashboardScreen", "where the time went"),
    View("op-types", "Op Type Summary", "2", OPS, "tui.screens.op_types:OpTypesScreen", "time by type of operation"),
    View(
        "group-ops", "Group Ops", "3", OPS, "tui.screens.group_ops:GroupOpsScreen", "tree of modules, ranges or layers"
    ),
    View("flame", "Flame", "O", OPS, "tui.screens.flame:FlameScreen", "flame graph of GPU time: groups, ops, kernels"),
    View(
        "ops-and-kernels",
        "Ops and Kernels",
        "4",
        OPS,
        "tui.screens.ops_and_kernels:OpsAndKernelsScreen",
        "ops, their kernels, their launches",
    ),
    View(
        "kernels", "Kernels", "K", OPS, "tui.screens.kernels:KernelsScreen", "kernels, launches, launch configuration"
    ),
    View(
        "kernels-by-iteration",
        "Kernels by Iteration",
        "5",
        OPS,
        "tui.screens.kernels_by_iteration:KernelsByIterationScreen",
        "kernels of one iteration",
    ),
    View(
        "kernels-by-op",
        "Kernels by Op",
        "6",
        OPS,
        "tui.screens.kernels_by_iteration:KernelsByOpScreen",
        "iteration, op, kernel",
    ),
    View(
        "iterations",
        "Iterations",
        "7",
        OVERVIEW,
        "tui.screens.iterations:IterationsScreen",
        "duration of each iteration",
    ),
    View(
        "roofline",
        "Roofline",
        "",
        OPS,
        "tui.screens.roofline:RooflineScreen",
        "FLOPs, bytes and distance from GPU peaks",
    ),
    View(
        "critical-path",
        "Critical Path",
        "B",
        TIME,
        "tui.screens.critical_path:CriticalPathScreen",
        "the work that determines iteration time",
    ),
    View("gpus", "GPUs", "8", TIME, "tui.screens.gpus:GpusScreen", "utilization and properties of each GPU"),
    View(
        "expert-systems",
        "Expert Systems",
        "9",
        OVERVIEW,
        "tui.screens.expert_systems:ExpertSystemsScreen",
        "findings and what to do about them",
    ),
    View("api-calls", "API Calls", "0", TIME, "tui.screens.api_calls:ApiCallsScreen", "CPU time in API calls"),
    View(
        "timeline", "Timeline", "T", TIME, "tui.screens.timeline:TimelineScreen", "streams and threads over time; gaps"
    ),
    View("memory", "Memory", "", TIME, "tui.screens.memory:MemoryScreen", "memcpy, unified memory, allocations"),
    View(
        "ranges", "Ranges", "", TIME, "tui.screens.ranges:RangesScreen", "NVTX ranges, annotations and their GPU time"
    ),
    View("metrics", "Metrics", "", OPS, "tui.screens.metrics:MetricsScreen", "hardware metrics and events by kernel"),
    View(
        "summaries",
        "Other Summaries",
        "",
        INPUT,
        "tui.screens.table_screen:SummariesScreen",
        "OpenACC, OpenMP, NVTX and CPU-sampling totals",
    ),
    View(
        "layers",
        "Layers",
        "",
        OPS,
        "tui.screens.layers:LayersScreen",
        "layer times, measured and predicted",
    ),
    View(
        "tool-report",
        "Profiler Report",
        "",
        INPUT,
        "tui.screens.table_screen:TableScreen",
        "the profiler's reports",
        "Reports of the profiler: first the findings of its advisor, then its metrics.\nproftui does not compute "
        "them. Metrics of the same name in other views are computed from single records.\nPress enter to show a "
        "whole row.",
    ),
    View("sql", "SQL", "", INPUT, "tui.screens.sql:SqlScreen", "SQL queries over all tables"),
    View("log", "Log", "", INPUT, "tui.screens.log:LogScreen", "the file itself, with parsed lines marked"),
    View("notes", "Notes", "", INPUT, "tui.screens.table_screen:NotesScreen", "your notes on rows of this file"),
    View(
        "issues", "Issues", "", INPUT, "tui.screens.table_screen:IssuesScreen", "problems found while reading the input"
    ),
    View("compare", "Compare", "", OVERVIEW, "tui.screens.compare:CompareScreen", "two profiles, ranks or iterations"),
)

"""The views with their default keys."""

VIEWS: Final = list(DEFAULT_VIEWS)
"""The views with the active keys."""


def use_view_keys(keys: Mapping[str, tuple[str, str]]) -> None:
    """Apply the user's keys of views, before screens are imported.

    Args:
        keys: For each view the first key as it is written, and all keys as Textual names them.
    """
    VIEWS[:] = [replace(view, key=keys[view.name][0], keys=keys[view.name][1]) for view in DEFAULT_VIEWS]


def view(name: str) -> View:
    """Return the view with a name.

    >>> view("dashboard").key
    '1'
    """
    return next(candidate for candidate in VIEWS if candidate.name == name)


def find_view(text: str) -> View | None:
    """Return the view with a name or title, or with an unambiguous beginning of a name.

    >>> find_view("api").name, find_view("kernels").name, find_view("kernels-by") is None
    ('api-calls', 'kernels', True)
    >>> find_view("Op Type Summary").name
    'op-types'
    """
    wanted = text.strip().lower().replace(" ", "-").replace("_", "-")
    exact = [listed for listed in VIEWS if wanted in (listed.name, listed.title.lower().replace(" ", "-"))]
    starts = exact or [candidate for candidate in VIEWS if wanted and candidate.name.startswith(wanted)]
    return starts[0] if len(starts) == 1 else None
