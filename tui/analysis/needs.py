"""The data that views need, and the command of each recording tool that records it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    from tui.model.profile import Profile


class Tool(StrEnum):
    """The tool that recorded a session; the values are display names."""

    NVPROF = "nvprof"
    NSYS = "Nsight Systems"
    NSYS_STATS = "nsys stats"
    NCU = "Nsight Compute"
    PYTORCH = "PyTorch"
    DLPROF = "DLProf"
    ROCPROF = "rocprof"
    XLA = "XLA"
    UNITRACE = "unitrace"
    PROTON = "Proton"
    ASCEND = "Ascend"
    PERFETTO = "Perfetto"


_TOOL_NAMES: Final = (
    (Tool.NSYS_STATS, ("nsys-stats", "nsys stats", "nsys_stats")),
    (Tool.NCU, ("ncu", "nsight-compute", "nsight compute")),
    # TensorRT's own profile has no kernels; Nsight Systems records those of trtexec.
    (Tool.NSYS, ("nsys", "nsight-systems", "nsight systems", "tensorrt")),
    (Tool.UNITRACE, ("unitrace", "thapi")),
    (Tool.PROTON, ("proton",)),
    (Tool.ASCEND, ("ascend", "msprof")),
    (Tool.DLPROF, ("dlprof",)),
    (Tool.PYTORCH, ("pytorch", "kineto", "torch")),
    (Tool.ROCPROF, ("rocprof", "rocpd", "rocm")),
    (Tool.XLA, ("xla", "xplane", "jax", "tensorflow", "tf-timeline", "tf1")),
    (Tool.NVPROF, ("nvprof",)),
)
"""Words in ``sessions.format`` or ``sessions.tool`` that identify each tool, more specific ones first."""
_TOOLS_FOR_ALL_GPU_WORK: Final = frozenset({Tool.NVPROF, Tool.NSYS, Tool.PYTORCH, Tool.XLA})
"""Tools that record copies and memsets whenever they record kernels."""
_DLPROF_DATABASE: Final = "dlprof-database"
"""The format that has all GPU work, unlike DLProf's reports."""


def recording_tool(format_name: str | None, tool: str | None = None) -> Tool:
    """Return the tool that recorded a session.

    Unknown tools count as Nsight Systems, as do logs of Caffe and Paleo, whose GPU work it can record.

    >>> recording_tool("nvprof-text"), recording_tool("chrome-trace", "PyTorch profiler"), recording_tool("caffe")
    (<Tool.NVPROF: 'nvprof'>, <Tool.PYTORCH: 'PyTorch'>, <Tool.NSYS: 'Nsight Systems'>)
    >>> recording_tool("perfetto"), recording_tool("perfetto", "rocprofv3")
    (<Tool.PERFETTO: 'Perfetto'>, <Tool.ROCPROF: 'rocprof'>)
    """
    # Many tools write Perfetto traces: their name identifies the tool.
    is_perfetto = format_name == "perfetto"
    for text in (tool,) if is_perfetto else (format_name, tool):
        lowered = (text or "").lower()
        for named_tool, names in _TOOL_NAMES:
            if any(name in lowered for name in names):
                return named_tool
    return Tool.PERFETTO if is_perfetto else Tool.NSYS


@once_per_profile("sessions")
def recording_tools(profile: Profile) -> tuple[Tool, ...]:
    """Return the tools that recorded a profile's sessions, each once, in order; Nsight Systems if there is no session.

    Nsight Compute is last, because it is run in addition to another tool.
    """
    sessions = profile["sessions"].select("format", "tool").unique(maintain_order=True).rows()
    tools = list(dict.fromkeys(recording_tool(*row) for row in sessions)) or [Tool.NSYS]
    return tuple(sorted(tools, key=lambda tool: tool is Tool.NCU))


def records_copies(profile: Profile) -> bool:
    """Return whether all sessions are of tools that record copies and memsets wherever they record kernels.

    With other tools, missing copies may only mean that they were not recorded.
    """
    sessions = profile["sessions"].select("format", "tool").unique().rows()
    return all(row[0] == _DLPROF_DATABASE or recording_tool(*row) in _TOOLS_FOR_ALL_GPU_WORK for row in sessions)


@dataclass(frozen=True, slots=True)
class Need:
    """Data that an input may have; needs of the same name are equal."""

    name: str
    """Its name, such as ``start times``."""
    gives: str = field(compare=False)
    """What it makes visible."""
    record: str = field(compare=False)
    """The command that records it; an instruction that is not a command starts with ``open``."""
    commands: Mapping[Tool, str] = field(default_factory=dict, compare=False, repr=False)
    """The commands of other tools; empty if a tool cannot record it."""
    unknown_text: str = field(default="", compare=False)
    """The text about what is unknown without it, if ``no`` and its name are not enough."""

    def with_tools(self, tools: tuple[Tool, ...]) -> Need:
        """Return the need with the command of the first of these tools that can record it."""
        fitting = [self.record if tool is Tool.NVPROF else self.commands.get(tool) for tool in tools]
        # nvprof's command does not help users of other tools.
        fallback = self.record if not tools or self.record.startswith("open ") else ""
        command = next((candidate for candidate in fitting if candidate), "" if "" in fitting else fallback)
        return replace(self, record=command)

    def is_recordable(self, tools: tuple[Tool, ...]) -> bool:
        """Return whether one of these tools has a command that records it."""
        return any(self.commands.get(tool) for tool in tools)

    @property
    def advice(self) -> str:
        """How to get the data: ``record with ...`` or ``open ...``."""
        if not self.record:
            return "not part of this kind of recording"
        verb = (
            "" if self.record.startswith("open ") else "export with " if " export " in self.record else "record with "
        )
        return f"{verb}{self.record}"

    @property
    def missing(self) -> str:
        """The sentence for data that is not recorded.

        >>> Need("start times", "every launch with its time", "nvprof --print-gpu-trace").missing
        'no start times: record with nvprof --print-gpu-trace'
        """
        return f"{self.unknown_text or f'no {self.name}'}: {self.advice}"


_NSYS: Final = "nsys profile --trace=cuda,nvtx ./app"
_NSYS_SHAPES: Final = "nsys profile --trace=cuda,nvtx --pytorch=autograd-shapes-nvtx ./app"
_NSYS_EXPORT: Final = "nsys export --type sqlite run.nsys-rep"
_TORCH: Final = "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
_DLPROF: Final = "dlprof --mode=pytorch python train.py"
_ROCPROF: Final = "rocprofv3 --kernel-trace --memory-copy-trace --hip-trace --marker-trace -f csv -- ./app"
_XLA: Final = "jax.profiler.trace(folder)"
_UNITRACE: Final = "unitrace -t ./app"
_ITT: Final = "unitrace --chrome-itt-logging --chrome-call-logging --chrome-kernel-logging ./app, with ITT tasks"
_ASCEND: Final = "torch_npu.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.NPU])"
_NCU: Final = "ncu --set full --csv --page raw ./app"

_TIMELINE: Final = {
    Tool.NSYS: _NSYS,
    Tool.NSYS_STATS: _NSYS_EXPORT,
    Tool.NCU: _NSYS,
    Tool.PYTORCH: _TORCH,
    Tool.DLPROF: _DLPROF,
    Tool.ROCPROF: _ROCPROF,
    Tool.XLA: _XLA,
    Tool.UNITRACE: _UNITRACE,
    Tool.PROTON: _TORCH,
    Tool.ASCEND: _ASCEND,
    # Perfetto writes traces of GPUs of any vendor.
    Tool.PERFETTO: "",
}
"""What records GPU work with its times."""

_NAMED_PHASES: Final = {
    Tool.NSYS: "nsys profile --trace=cuda,nvtx ./app, with NVTX ranges in the program",
    Tool.NSYS_STATS: _NSYS_EXPORT,
    Tool.NCU: "nsys profile --trace=cuda,nvtx ./app, with NVTX ranges in the program",
    Tool.PYTORCH: "torch.profiler, with record_function(name) around the phases",
    Tool.DLPROF: "dlprof --mode=pytorch python train.py, with nvidia_dlprof_pytorch_nvtx.init() in the program",
    Tool.ROCPROF: "rocprofv3 --marker-trace, with roctx ranges in the program",
    Tool.XLA: "jax.profiler.TraceAnnotation(name) around the phases",
    Tool.PROTON: "proton.scope(name) around the phases",
    Tool.UNITRACE: f"{_ITT} around the phases",
    Tool.PERFETTO: "",
    Tool.ASCEND: "torch_npu.profiler, with record_function(name) around the phases",
}

GPU_WORK: Final = Need("GPU activities", "GPU time by kernel and copy", "nvprof", _TIMELINE)
START_TIMES: Final = Need(
    "start times",
    "every launch with its time, idle gaps, order of execution",
    "nvprof --print-gpu-trace",
    {**_TIMELINE, Tool.PROTON: "proton -d trace -n run script.py"},
)
LAUNCH_CONFIGS: Final = Need(
    "launch configurations",
    "grid, block, registers, shared memory, occupancy",
    "nvprof --print-gpu-trace",
    {
        **_TIMELINE,
        Tool.NSYS: "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node ./app",
        Tool.NCU: _NCU,
        # Its kernels have a number of blocks, but no block size.
        Tool.ASCEND: "",
    },
)
DEVICES: Final = Need(
    "device names",
    "the GPU model and occupancy",
    "nvprof --print-gpu-trace",
    {**_TIMELINE, Tool.UNITRACE: "", Tool.XLA: ""},
    unknown_text="GPU models not recorded in this profile",
)
API_WORK: Final = Need(
    "API calls",
    "CPU time in API calls",
    "nvprof --print-api-trace",
    {**_TIMELINE, Tool.UNITRACE: "unitrace -h ./app"},
)
API_TRACE: Final = Need(
    "individual API calls",
    "every call with its time",
    "nvprof --print-api-trace",
    {**_TIMELINE, Tool.UNITRACE: "unitrace --chrome-call-logging ./app"},
)
API_RESULTS: Final = Need(
    "results of API calls",
    "which calls failed",
    "nsys profile --trace=cuda ./app",
    {
        **dict.fromkeys((Tool.NSYS, Tool.NSYS_STATS, Tool.NCU), "nsys profile --trace=cuda ./app"),
        **dict.fromkeys((Tool.PYTORCH, Tool.DLPROF, Tool.XLA, Tool.PROTON), _NSYS),
        Tool.PERFETTO: "",
    },
    unknown_text="return codes of API calls not recorded, so failed calls are unknown",
)
METRICS: Final = Need(
    "metrics",
    "hardware metrics of each kernel",
    "nvprof --metrics all",
    {
        **dict.fromkeys(_TIMELINE, _NCU),
        Tool.PERFETTO: "",
        Tool.ROCPROF: "rocprofv3 --pmc SQ_WAVES -f csv -- ./app",
        Tool.UNITRACE: "unitrace -q ./app",
        Tool.ASCEND: "torch_npu.profiler, with experimental_config=_ExperimentalConfig(aic_metrics=...)",
    },
)
LAYERS: Final = Need(
    "layer times", "times by layer", "open a layer profile from trtexec --dumpProfile, caffe time or Paleo"
)
RANGES: Final = Need(
    "NVTX ranges",
    "phases named by the program",
    "nvprof ./app, with NVTX ranges in the program",
    _NAMED_PHASES,
)
COPIES: Final = Need("copies", "copies by direction, kind and size", "nvprof --print-gpu-trace", _TIMELINE)
ALLOCATIONS: Final = Need(
    "allocations",
    "allocated memory over time",
    "open a PyTorch trace recorded with profile_memory=True",
    {
        Tool.PYTORCH: "torch.profiler.profile(profile_memory=True)",
        Tool.ASCEND: "torch_npu.profiler.profile(profile_memory=True)",
        Tool.XLA: "",
    },
)
SNAPSHOT: Final = Need(
    "memory snapshot",
    "allocator contents and their call sites",
    "open a snapshot of torch.cuda.memory._dump_snapshot",
    {
        Tool.PYTORCH: "torch.cuda.memory._record_memory_history() ... "
        "torch.cuda.memory._dump_snapshot('snapshot.pickle')",
        Tool.XLA: "",
    },
)
UNIFIED_MEMORY: Final = Need(
    "unified memory",
    "page migrations and page faults",
    "nvprof --unified-memory-profiling per-process-device",
    {
        **dict.fromkeys(
            (Tool.NSYS, Tool.NSYS_STATS, Tool.NCU, Tool.PYTORCH, Tool.DLPROF, Tool.XLA),
            "nsys profile --cuda-um-gpu-page-faults=true --cuda-um-cpu-page-faults=true ./app",
        ),
        Tool.PERFETTO: "",
    },
)
EXTRA_SUMMARIES: Final = Need(
    "other summaries",
    "totals of OpenACC, OpenMP, NVTX or CPU samples",
    "nvprof --unified-memory-profiling per-process-device",
    {
        **dict.fromkeys(_TIMELINE, "open a text log of nvprof, or the output of nsys stats"),
        Tool.NSYS_STATS: "nsys stats --report nvtx_sum run.nsys-rep",
    },
    unknown_text="no other summaries in this profile",
)
TOOL_REPORT: Final = Need(
    "profiler report",
    "results and advice of the profiler",
    "open a DLProf database, or the output of Nsight Compute",
    {
        Tool.DLPROF: "dlprof --mode=pytorch python train.py",
        Tool.NCU: "ncu --set full --csv --page details ./app",
    },
    unknown_text="no profiler report in this profile",
)
TEXT: Final = Need("lines of text", "the log", "open a text log")
ITERATIONS: Final = Need(
    "iterations",
    "duration and work of each step",
    "nvprof -o run.nvprof ./app, with NVTX ranges step 0, step 1, ... in the program",
    {
        Tool.NSYS: "nsys profile --trace=cuda,nvtx ./app, with NVTX ranges step 0, step 1, ... in the program",
        Tool.NSYS_STATS: f"{_NSYS_EXPORT}, with NVTX ranges step 0, step 1, ... in the program",
        Tool.NCU: "nsys profile --trace=cuda,nvtx ./app, with NVTX ranges step 0, step 1, ... in the program",
        Tool.PERFETTO: "",
        Tool.PYTORCH: "torch.profiler, with prof.step() at the end of each step",
        Tool.DLPROF: "dlprof --mode=pytorch --key_op=NAME python train.py",
        Tool.ROCPROF: "rocprofv3 --kernel-trace --hip-trace --marker-trace, with roctx ranges step 0, step 1, ...",
        Tool.XLA: "jax.profiler.StepTraceAnnotation('train', step_num=n) around each step",
        Tool.UNITRACE: f"{_ITT} step 0, step 1, ... in the program",
        Tool.PROTON: "torch.profiler, with prof.step() at the end of each step",
        Tool.ASCEND: "torch_npu.profiler, with prof.step() at the end of each step",
    },
)
OPS: Final = Need(
    "ops",
    "the op that launched each kernel",
    "nvprof -o run.nvprof ./app, with NVTX ranges around the operations",
    {
        **dict.fromkeys((Tool.NSYS, Tool.NSYS_STATS, Tool.NCU), _NSYS_SHAPES),
        Tool.PERFETTO: "",
        Tool.PYTORCH: _TORCH,
        Tool.PROTON: "proton.scope(name) around the operations",
        Tool.XLA: _XLA,
        Tool.UNITRACE: f"{_ITT} around the operations (PyTorch: torch.autograd.profiler.emit_itt())",
        Tool.ASCEND: _ASCEND,
        Tool.DLPROF: "dlprof --mode=pytorch python train.py, with nvidia_dlprof_pytorch_nvtx.init() in the program",
        Tool.ROCPROF: "rocprofv3 --kernel-trace --hip-trace --marker-trace, with roctx ranges around the operations",
    },
    unknown_text="no recorded ops",
)
SHAPES: Final = Need(
    "input shapes",
    "tensor shapes and types of each op",
    "nvprof -o run.nvprof ./app, under torch.autograd.profiler.emit_nvtx(record_shapes=True)",
    {
        **dict.fromkeys((Tool.NSYS, Tool.NSYS_STATS, Tool.NCU), _NSYS_SHAPES),
        Tool.PERFETTO: "",
        **dict.fromkeys(
            (Tool.ROCPROF, Tool.DLPROF, Tool.UNITRACE), "open a PyTorch trace recorded with record_shapes=True"
        ),
        **dict.fromkeys((Tool.PYTORCH, Tool.PROTON), "torch.profiler.profile(record_shapes=True)"),
        Tool.ASCEND: "torch_npu.profiler.profile(record_shapes=True)",
    },
)
STACKS: Final = Need(
    "source lines",
    "the source line that called each op",
    "open a PyTorch trace recorded with with_stack=True",
    {Tool.PYTORCH: "torch.profiler.profile(with_stack=True, with_modules=True)"},
)

RECORDABLE: Final = (
    GPU_WORK,
    START_TIMES,
    LAUNCH_CONFIGS,
    DEVICES,
    API_WORK,
    API_TRACE,
    METRICS,
    RANGES,
    OPS,
    SHAPES,
    STACKS,
    ITERATIONS,
)
"""What an input can hold, in the order in which it is requested."""

NEEDS_OTHER_TOOL: Final = (OPS, SHAPES, STACKS, ITERATIONS)
"""What a text log of nvprof cannot hold: requested only if the recording tool has a command for it."""
