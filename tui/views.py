"""Every view of the program: its name, title, key, and the screen that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class View:
    """A view that can be gone to."""

    name: str
    """Its name on the command line, as ``api-calls``."""
    title: str
    """Its name for people."""
    key: str
    """The digit that goes to it, or empty."""
    screen: str
    """Module and class of its screen."""
    about: str
    """What it answers, in a few words."""


VIEWS: Final = (
    View("dashboard", "Dashboard", "1", "tui.screens.dashboard:DashboardScreen", "where the time went, at a glance"),
    View("op-types", "Op Type Summary", "2", "tui.screens.op_types:OpTypesScreen", "time by type of operation"),
    View(
        "group-ops",
        "Group Ops",
        "3",
        "tui.screens.group_ops:GroupOpsScreen",
        "the tree of modules, ranges or layers",
    ),
    View(
        "ops-and-kernels",
        "Ops and Kernels",
        "4",
        "tui.screens.ops_and_kernels:OpsAndKernelsScreen",
        "from op to kernel to launch config",
    ),
    View("kernels", "Kernels", "", "tui.screens.kernels:KernelsScreen", "every kernel, its launches, their config"),
    View(
        "kernels-by-iteration",
        "Kernels by Iteration",
        "5",
        "tui.screens.kernels_by_iteration:KernelsByIterationScreen",
        "the kernels of one iteration",
    ),
    View(
        "kernels-by-op",
        "Kernels by Op",
        "6",
        "tui.screens.kernels_by_op:KernelsByOpScreen",
        "iteration, op, kernel",
    ),
    View("iterations", "Iterations", "7", "tui.screens.iterations:IterationsScreen", "how long each iteration took"),
    View("gpus", "GPUs", "8", "tui.screens.gpus:GpusScreen", "utilisation and properties of each GPU"),
    View(
        "expert-systems",
        "Expert Systems",
        "9",
        "tui.screens.expert_systems:ExpertSystemsScreen",
        "what costs time and what to do about it",
    ),
    View("api-calls", "API Calls", "0", "tui.screens.api_calls:ApiCallsScreen", "what the CPU spent in API calls"),
    View("timeline", "Timeline", "", "tui.screens.timeline:TimelineScreen", "streams and threads over time; gaps"),
    View(
        "memory",
        "Memory",
        "",
        "tui.screens.memory:MemoryScreen",
        "copies, unified memory, what was allocated",
    ),
    View(
        "ranges",
        "Ranges",
        "",
        "tui.screens.ranges:RangesScreen",
        "NVTX ranges, annotations and their GPU time",
    ),
    View("metrics", "Metrics", "", "tui.screens.metrics:MetricsScreen", "hardware metrics and events by kernel"),
    View(
        "summaries",
        "Other Summaries",
        "",
        "tui.screens.summaries:SummariesScreen",
        "what the profiler summed up beside GPU work",
    ),
    View("layers", "Layers", "", "tui.screens.layers:LayersScreen", "times of a model's layers, and predicted ones"),
    View(
        "tool-report",
        "Tool's Report",
        "",
        "tui.screens.tool_report:ToolReportScreen",
        "what the recording tool itself worked out",
    ),
    View("sql", "SQL", "", "tui.screens.sql:SqlScreen", "SELECT over frames and what is computed"),
    View("log", "Log", "", "tui.screens.log:LogScreen", "the file itself, parsed lines marked"),
    View("notes", "Notes", "", "tui.screens.notes:NotesScreen", "what you wrote on rows of this file"),
    View("issues", "Issues", "", "tui.screens.issues:IssuesScreen", "what could not be used as it stood"),
    View("compare", "Compare", "", "tui.screens.compare:CompareScreen", "two profiles, ranks or iterations compared"),
)


def view(name: str) -> View:
    """The view of a name.

    >>> view("dashboard").key
    '1'
    """
    return next(candidate for candidate in VIEWS if candidate.name == name)


def find_view(text: str) -> View | None:
    """The view that a person means by its name, title or an unambiguous beginning of one.

    >>> find_view("api").name, find_view("kernels").name, find_view("kernels-by") is None
    ('api-calls', 'kernels', True)
    """
    wanted = text.strip().lower().replace(" ", "-").replace("_", "-")
    exact = [candidate for candidate in VIEWS if candidate.name == wanted]
    starts = exact or [candidate for candidate in VIEWS if wanted and candidate.name.startswith(wanted)]
    return starts[0] if len(starts) == 1 else None
