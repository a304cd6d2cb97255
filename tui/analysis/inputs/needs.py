"""What a profile may hold or lack, and with each tool the command that records it."""

from __future__ import annotations

from typing import Final

from tui.analysis.inputs.recording import Need, Tool

_NSYS: Final = "nsys profile --trace=cuda,nvtx ./app"
_NSYS_SHAPES: Final = "nsys profile --trace=cuda,nvtx --pytorch=autograd-shapes-nvtx ./app"
_NSYS_EXPORT: Final = "nsys export --type sqlite run.nsys-rep"
_TORCH: Final = "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])"
_DLPROF: Final = "dlprof --mode=pytorch python train.py"
_ROCPROF: Final = "rocprofv3 --kernel-trace --memory-copy-trace --hip-trace --marker-trace -f csv -- ./app"
_XLA: Final = "jax.profiler.trace(folder)"
_NCU: Final = "ncu --set full --csv --page raw ./app"

_TIMELINE: Final = {
    Tool.NSYS: _NSYS,
    Tool.NSYS_STATS: _NSYS_EXPORT,
    Tool.NCU: _NSYS,
    Tool.PYTORCH: _TORCH,
    Tool.DLPROF: _DLPROF,
    Tool.ROCPROF: _ROCPROF,
    Tool.XLA: _XLA,
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
}

GPU_WORK: Final = Need("GPU activities", "where the GPU's time went", "nvprof", _TIMELINE)
START_TIMES: Final = Need(
    "start times",
    "every launch with its time, GPU idle time, the order of things",
    "nvprof --print-gpu-trace",
    _TIMELINE,
)
LAUNCH_CONFIGS: Final = Need(
    "launch configurations",
    "grid, block, registers, shared memory, occupancy",
    "nvprof --print-gpu-trace",
    {**_TIMELINE, Tool.NSYS: "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node ./app", Tool.NCU: _NCU},
)
DEVICES: Final = Need(
    "device names",
    "which GPU it was, and so its occupancy",
    "nvprof --print-gpu-trace",
    _TIMELINE,
    unknown="this input does not name its GPUs",
)
API_WORK: Final = Need(
    "API calls", "what the CPU spent in them", "nvprof --print-api-trace", {**_TIMELINE, Tool.ROCPROF: _ROCPROF}
)
API_TRACE: Final = Need("single API calls", "every call with its time", "nvprof --print-api-trace", _TIMELINE)
API_RESULTS: Final = Need(
    "results of API calls",
    "which calls failed",
    "nsys profile --trace=cuda ./app",
    {Tool.NSYS: "nsys profile --trace=cuda ./app", Tool.PYTORCH: _NSYS},
    unknown="this input does not say what API calls returned, so it is not known whether any failed",
)
METRICS: Final = Need(
    "metrics",
    "hardware metrics of each kernel",
    "nvprof --metrics all",
    {
        **dict.fromkeys((Tool.NSYS, Tool.NSYS_STATS, Tool.NCU, Tool.PYTORCH, Tool.DLPROF, Tool.XLA), _NCU),
        Tool.ROCPROF: "rocprofv3 --pmc SQ_WAVES -f csv -- ./app",
    },
)
LAYERS: Final = Need("layer times", "times by layer", "open the output of caffe time or of Paleo")
RANGES: Final = Need(
    "NVTX ranges",
    "the program's own names for its phases",
    "nvprof ./app, with NVTX ranges in the program",
    _NAMED_PHASES,
)
COPIES: Final = Need("copies", "copies by direction, kind and size", "nvprof --print-gpu-trace", _TIMELINE)
ALLOCATIONS: Final = Need(
    "allocations",
    "how much memory was allocated, and when",
    "open a PyTorch trace recorded with profile_memory=True",
    {Tool.PYTORCH: "torch.profiler.profile(profile_memory=True)", Tool.XLA: ""},
)
UNIFIED_MEMORY: Final = Need(
    "unified memory",
    "pages that moved, and faults",
    "nvprof --unified-memory-profiling per-process-device",
    {
        Tool.NSYS: "nsys profile --cuda-um-gpu-page-faults=true --cuda-um-cpu-page-faults=true ./app",
        Tool.PYTORCH: "nsys profile --cuda-um-gpu-page-faults=true --cuda-um-cpu-page-faults=true ./app",
    },
)
OTHER_SUMMARIES: Final = Need(
    "other summaries",
    "what was summed beside GPU and API",
    "nvprof --unified-memory-profiling per-process-device",
    {
        **dict.fromkeys(_TIMELINE, "open a text log of nvprof, or what nsys stats prints"),
        Tool.NSYS_STATS: "nsys stats --report nvtx_sum run.nsys-rep",
    },
    unknown="nothing is summed here beside GPU work and API calls",
)
TOOL_REPORT: Final = Need(
    "figures of the tool's own",
    "what the recording tool itself worked out and advises",
    "open a DLProf database, or what Nsight Compute prints",
    {
        Tool.DLPROF: "dlprof --mode=pytorch python train.py",
        Tool.NCU: "ncu --set full --csv --page details ./app",
    },
    unknown="no figures that the recording tool worked out itself",
)
TEXT: Final = Need("lines of text", "the log itself", "open a text log")
ITERATIONS: Final = Need(
    "iterations",
    "how long each step took, and what ran in it",
    "nvprof -o run.nvprof ./app, with NVTX ranges step 0, step 1, ... in the program",
    {
        Tool.NSYS: "nsys profile --trace=cuda,nvtx ./app, with NVTX ranges step 0, step 1, ... in the program",
        Tool.NSYS_STATS: f"{_NSYS_EXPORT}, with NVTX ranges step 0, step 1, ... in the program",
        Tool.NCU: "nsys profile --trace=cuda,nvtx ./app, with NVTX ranges step 0, step 1, ... in the program",
        Tool.PYTORCH: "torch.profiler, with prof.step() at the end of each step",
        Tool.DLPROF: "dlprof --mode=pytorch --key_node=NAME python train.py",
        Tool.ROCPROF: "rocprofv3 --kernel-trace --hip-trace --marker-trace, with roctx ranges step 0, step 1, ...",
        Tool.XLA: "jax.profiler.StepTraceAnnotation('train', step_num=n) around each step",
    },
)
OPS: Final = Need(
    "ops",
    "which operation of the program launched each kernel",
    "nvprof -o run.nvprof ./app, with NVTX ranges around the operations",
    {
        **dict.fromkeys((Tool.NSYS, Tool.NCU), _NSYS_SHAPES),
        Tool.PYTORCH: _TORCH,
        Tool.DLPROF: "dlprof --mode=pytorch python train.py, with nvidia_dlprof_pytorch_nvtx.init() in the program",
        Tool.ROCPROF: "rocprofv3 --kernel-trace --hip-trace --marker-trace, with roctx ranges around the operations",
    },
    unknown="no recorded ops",
)
SHAPES: Final = Need(
    "input shapes",
    "the shapes and types that each op worked on",
    "nvprof -o run.nvprof ./app, under torch.autograd.profiler.emit_nvtx(record_shapes=True)",
    {
        **dict.fromkeys((Tool.NSYS, Tool.NCU), _NSYS_SHAPES),
        Tool.ROCPROF: "open a PyTorch trace recorded with record_shapes=True",
        Tool.PYTORCH: "torch.profiler.profile(record_shapes=True)",
    },
)
STACKS: Final = Need(
    "source lines",
    "the line of the program that called each op",
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
"""What an input can hold, in the order in which it is asked for."""

BY_OTHER_TOOLS_ONLY: Final = (OPS, SHAPES, STACKS, ITERATIONS)
"""What a text log of nvprof cannot hold: it is asked for only where the recording tool has a command for it."""
