"""Which tool recorded a profile, and the command of that tool that records what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tui.model.profile import Profile


class Tool(StrEnum):
    """Who recorded a session; the values are what people call them."""

    NVPROF = "nvprof"
    NSYS = "Nsight Systems"
    NSYS_STATS = "nsys stats"
    NCU = "Nsight Compute"
    PYTORCH = "PyTorch"
    DLPROF = "DLProf"
    ROCPROF = "rocprof"
    XLA = "XLA"


_SIGNS: Final = (
    (Tool.NSYS_STATS, ("nsys-stats", "nsys stats", "nsys_stats")),
    (Tool.NCU, ("ncu", "nsight-compute", "nsight compute")),
    (Tool.NSYS, ("nsys", "nsight-systems", "nsight systems")),
    (Tool.DLPROF, ("dlprof",)),
    (Tool.PYTORCH, ("pytorch", "kineto", "torch")),
    (Tool.ROCPROF, ("rocprof", "rocpd", "rocm")),
    (Tool.XLA, ("xla", "xplane", "jax", "tensorflow", "tf-timeline", "tf1")),
    (Tool.NVPROF, ("nvprof",)),
)
"""Words in ``sessions.format`` or ``sessions.tool`` by which each is known, the more telling first."""
_OF_ALL_GPU_WORK: Final = frozenset({Tool.NVPROF, Tool.NSYS, Tool.PYTORCH, Tool.XLA})
"""Tools that record copies and memsets wherever they record kernels."""


def tool_of(format_name: str | None, tool: str | None = None) -> Tool:
    """The tool that recorded a session.

    What is not known by name counts as nvprof: so do logs of Caffe and Paleo, whose GPU work nvprof can record.

    >>> tool_of("nsys-sqlite"), tool_of("chrome-trace", "PyTorch profiler"), tool_of("caffe")
    (<Tool.NSYS: 'Nsight Systems'>, <Tool.PYTORCH: 'PyTorch'>, <Tool.NVPROF: 'nvprof'>)
    """
    for text in (format_name, tool):
        lowered = (text or "").lower()
        for known, words in _SIGNS:
            if any(word in lowered for word in words):
                return known
    return Tool.NVPROF


def tools_of(profile: Profile) -> tuple[Tool, ...]:
    """The tools that recorded the sessions of a profile, each once, in their order; nvprof where there is no session.

    Nsight Compute comes last: it is run beside another tool, not instead of it.
    """
    found = profile["sessions"].select("format", "tool").unique(maintain_order=True).rows()
    tools = list(dict.fromkeys(tool_of(*row) for row in found)) or [Tool.NVPROF]
    return tuple(sorted(tools, key=lambda tool: tool is Tool.NCU))


def records_copies(profile: Profile) -> bool:
    """Whether all its sessions are of tools that record copies and memsets wherever they record kernels.

    With the others, that there are none in the input may only mean that nobody asked for them.
    """
    return set(tools_of(profile)) <= _OF_ALL_GPU_WORK


@dataclass(frozen=True, slots=True)
class Need:
    """Something that an input may hold or lack; needs of the same name are the same."""

    name: str
    """What it is, as ``start times``."""
    gives: str = field(compare=False)
    """What can be seen with it."""
    record: str = field(compare=False)
    """What records it; begins with ``open`` where that is no command."""
    commands: Mapping[Tool, str] = field(default_factory=dict, compare=False, repr=False)
    """What records it with each tool, where that is another command; empty where nothing of the tool does."""
    unknown: str = field(default="", compare=False)
    """What is unknown without it, where ``no`` and its name do not say that."""

    def with_tools(self, tools: tuple[Tool, ...]) -> Need:
        """The same need with the command of the first of these tools that can record it."""
        fitting = [self.record if tool is Tool.NVPROF else self.commands.get(tool) for tool in tools]
        command = next((known for known in fitting if known), "" if "" in fitting else self.record)
        return replace(self, record=command)

    def recordable(self, tools: tuple[Tool, ...]) -> bool:
        """Whether any of these tools can record it, by a command of its own."""
        return any(self.commands.get(tool) for tool in tools)

    @property
    def how(self) -> str:
        """What to do for it: ``record with ...`` or ``open ...``."""
        if not self.record:
            return "a recording of this kind cannot tell"
        return f"{'' if self.record.startswith('open ') else 'record with '}{self.record}"

    @property
    def missing(self) -> str:
        """What to say where it is not there.

        >>> Need("start times", "every launch with its time", "nvprof --print-gpu-trace").missing
        'no start times: record with nvprof --print-gpu-trace'
        """
        return f"{self.unknown or f'no {self.name}'}: {self.how}"
