"""Issues that inputs of any format can have, and the kinds of files that are not profiles, with their messages."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

from tui.fmt import brief_size


@dataclass(frozen=True, slots=True)
class InputIssue:
    """A problem of the input itself, which a loader reports as an issue."""

    severity: str
    """info, warning or error."""
    line: int | None
    """The line, from 1; None if it concerns the whole input."""
    text: str
    """The text of the line."""
    reason: str
    """The description for the user."""


FILE_CHANGED: Final = InputIssue(
    "warning",
    None,
    "",
    "the file changed while it was read: data may be missing or inconsistent; open it again when it is complete",
)

INVALID_CHARACTERS: Final = InputIssue("info", None, "", "texts have bytes that are not UTF-8, shown as �")


def ended_early(cause: str, bytes_read: int, size: int | None) -> InputIssue:
    """Return the note about an input that could not be read to its end.

    Args:
        cause: The reason.
        bytes_read: How much was read.
        size: The size of the input; None if unknown.
    """
    position = f"at about {position_text(bytes_read, size)}" if bytes_read != size else f"after all {brief_size(size)}"
    return InputIssue("error", None, "", f"{cause}, {position}; the data before this point is shown")


def position_text(position: int, size: int | None) -> str:
    """Return a position in an input of a size, in bytes if both would have the same text otherwise.

    >>> position_text(1_024, 4_096), position_text(199_800, 199_912), position_text(1_024, None)
    ('1 KiB of 4 KiB', '199,800 of 199,912 bytes', '1 KiB of the input')
    """
    if not size:
        return f"{brief_size(position)} of the input"
    texts = brief_size(position), brief_size(size)
    return f"{position:,} of {size:,} bytes" if len(set(texts)) == 1 else " of ".join(texts)


def long_line_cut(line: int, text: str, size: int, limit: int) -> InputIssue:
    """Return the note about a line that is too long.

    Args:
        line: The number of the line.
        text: Its beginning.
        size: Its size in bytes.
        limit: How many bytes were read.
    """
    reason = f"the line is {brief_size(size)} long; only its first {brief_size(limit)} was read"
    return InputIssue("warning", line, text, reason)


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file that holds no readable profile."""

    title: str
    """The name with its article, as ``a PNG image``."""
    hint: str = ""
    """How to get at a profile in it, if it can hold one."""


_UNPACK_HINT: Final = "unpack it and open the log inside"
_UNZIP_HINT: Final = "unpack it and open the folder, or pipe one file of it: unzip -p FILE.zip NAME | proftui -"
_IMAGE_HINT: Final = "open the log as text: proftui does not read text in images"
_PDF_HINT: Final = "extract its text first: pdftotext -layout"

_NSYS_HINT: Final = (
    "record the GPU work of the program with Nsight Systems: nsys profile --trace cuda,nvtx -o run ./app"
)
_NSYS_EXPORT_HINT: Final = (
    "if Nsight Systems exported it, export a database instead: nsys export --type sqlite run.nsys-rep"
)
_TRTEXEC_HINT: Final = "record layer times: trtexec --onnx=m.onnx --separateProfileRun --exportProfile=profile.json"
_ENGINE_HINT: Final = (
    "record its layer times: trtexec --loadEngine=m.engine --separateProfileRun --exportProfile=profile.json"
)
_TORCH_HINT: Final = (
    "record a trace with times: with torch.profiler.profile() as p: step(); then p.export_chrome_trace('trace.json.gz')"
)
_SNAPSHOT_HINT: Final = (
    "record a snapshot: torch.cuda.memory._record_memory_history(max_entries=100000) ... "
    "torch.cuda.memory._dump_snapshot('snapshot.pickle')"
)
_UNITRACE_HINT: Final = "record kernels: unitrace -d -h -t ./app 2> run.log"
_NCU_HINT: Final = "open the report itself, or print its metrics: ncu --import run.ncu-rep --csv --page raw"
_XPLANE_HINT: Final = "open the profile of the same run: plugins/profile/*/*.xplane.pb"

_OLD_NVPROF_HINT: Final = (
    "convert it to text with nvprof from CUDA 12 or earlier: nvprof --import-profile FILE --print-gpu-trace --csv "
    "--log-file run.csv"
)

_MAGIC: Final[tuple[tuple[int, bytes, FileKind], ...]] = (
    (
        0,
        b"\0\x04\0\0\x05\0\0\0\x01\x04\0\0",
        FileKind("an nvprof profile in the binary format of CUDA 5 and 6", _OLD_NVPROF_HINT),
    ),
    (0, b"\x89PNG\r\n\x1a\n", FileKind("a PNG image", _IMAGE_HINT)),
    (0, b"\xff\xd8\xff", FileKind("a JPEG image", _IMAGE_HINT)),
    (0, b"GIF8", FileKind("a GIF image", _IMAGE_HINT)),
    (8, b"WEBP", FileKind("a WebP image", _IMAGE_HINT)),
    (0, b"II*\0", FileKind("a TIFF image", _IMAGE_HINT)),
    (0, b"MM\0*", FileKind("a TIFF image", _IMAGE_HINT)),
    (0, b"%PDF-", FileKind("a PDF document", _PDF_HINT)),
    (0, b"\x7fELF", FileKind("an ELF program or library", _NSYS_HINT)),
    (0, b"MZ", FileKind("a Windows program", _NSYS_HINT)),
    (0, b"\xcf\xfa\xed\xfe", FileKind("a macOS program")),
    (0, b"!<arch>\n", FileKind("a static library")),
    (0, b"PK\x05\x06", FileKind("an empty ZIP archive")),
    (0, b"7z\xbc\xaf\x27\x1c", FileKind("a 7z archive", _UNPACK_HINT)),
    (0, b"Rar!\x1a\x07", FileKind("a RAR archive", _UNPACK_HINT)),
    (0, b"\x1f\x9d", FileKind("a file compressed by compress", _UNPACK_HINT)),
    (0, b"\x04\x22\x4d\x18", FileKind("a file compressed by lz4", _UNPACK_HINT)),
    (257, b"ustar", FileKind("a tar archive", _UNPACK_HINT)),
    (0, b"\x89HDF\r\n\x1a\n", FileKind("an HDF5 file", _NSYS_EXPORT_HINT)),
    (0, b"\x93NUMPY", FileKind("a NumPy array")),
    (
        0,
        b"PAR1",
        FileKind("a Parquet file", "if it is part of a dataset or of an Nsight Systems export, open its folder"),
    ),
    (0, b"ARROW1", FileKind("an Arrow file", _NSYS_EXPORT_HINT)),
    (0, b"PERFILE2", FileKind("a Linux perf recording, without GPU work", _NSYS_HINT)),
    (0, b"GGUF", FileKind("a GGUF model", _NSYS_HINT)),
    (0, b"ftrt", FileKind("a TensorRT engine", _ENGINE_HINT)),
    (0, b"ptrt", FileKind("a TensorRT engine", _ENGINE_HINT)),
    (
        0,
        b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19",
        FileKind("a PyTorch checkpoint", _TORCH_HINT),
    ),
)

_FLIGHT_RECORDER: Final = FileKind(
    "a dump of PyTorch's flight recorder, which records collectives but not kernels", _TORCH_HINT
)
_COMMUNICATION_HINT: Final = "open communication.json of the same run, next to the tables of a rank"

_PATTERNS: Final[tuple[tuple[re.Pattern[bytes], FileKind], ...]] = (
    (
        re.compile(rb'\s*\[\s*\{\s*"cat"\s*:\s*"Session"\s*,\s*"pid"\s*:'),
        FileKind("an ONNX Runtime profile", _NSYS_HINT),
    ),
    (
        re.compile(rb'\s*\{\s*"schemaVersion"\s*:\s*"[0-9]+\.[^"]{0,20}"\s*,.{0,400}"traceEvents"', re.DOTALL),
        FileKind("a PaddlePaddle profiler trace", _NSYS_HINT),
    ),
    (
        re.compile(
            rb'\s*\{\s*"traceEvents"\s*:\s*\[\s*\{\s*"ph"\s*:\s*"M"\s*,\s*"args"\s*:\s*\{\s*"name"\s*:\s*"cpu/0"'
        ),
        FileKind("an MXNet profile", _NSYS_HINT),
    ),
    (
        re.compile(rb'\s*\[\s*\{.*"NEGOTIATE_[A-Z]+"', re.DOTALL),
        FileKind("a Horovod timeline, without kernels", _NSYS_HINT),
    ),
    (
        re.compile(
            rb'\s*\{\s*"displayTimeUnit"\s*:\s*"[nu]s"\s*,\s*"traceEvents"\s*:\s*\['
            rb'.*"(?:Init|Finalization) Time \(ns\)"\s*:',
            re.DOTALL,
        ),
        FileKind(
            "a Proton trace of scopes within kernels, without kernel times",
            "record a tree instead, as NAME.hatchet: proton.start(NAME, backend='instrumentation'), "
            "or kernels: without a backend",
        ),
    ),
    (
        re.compile(rb'\s*(?:\{\s*"traceEvents"\s*:\s*)?\[\s*\{\s*\}\s*,.*"name"\s*:\s*"Hip [0-9]+"', re.DOTALL),
        FileKind("a rocmProfileData Chrome trace", "open its source, the database trace.rpd"),
    ),
    (
        re.compile(rb'\s*\[\s*\{"name"\s*:\s*"[^"]{1,99}"\s*,\s*"cat"\s*:\s*"[A-Z][A-Z0-9_]*"\s*,\s*"ph"\s*:\s*"b"'),
        FileKind("an NCCL profiler plugin trace, without kernels", _NSYS_HINT),
    ),
    (
        re.compile(rb'\s*\[.{0,4000}"name"\s*:\s*"(?:onetrace|ze_tracer|cl_tracer)_start_time"', re.DOTALL),
        FileKind("an onetrace Chrome trace", "record one with unitrace: unitrace --chrome-kernel-logging ./app"),
    ),
    (
        re.compile(rb'\s*\{(?![^\n]*"traceEvents")(?>[^\n]*?"ph"\s*:)(?>[^\n]*)(?<=[}\r])\n\s*\{'),
        FileKind("JSON lines of trace events, not a JSON list", "convert them to a list: jq -s . FILE > trace.json"),
    ),
    (
        re.compile(rb'\s*\{\s*"(?:p2p|collective)"\s*:\s*\{.*"Communication Time Info"', re.DOTALL),
        FileKind("the communication data of a whole Ascend cluster", _COMMUNICATION_HINT),
    ),
    (
        re.compile(rb'\s*[\[{](?!.*"Communication Time Info").*"Transit Size\(MB\)"\s*:', re.DOTALL),
        FileKind("an Ascend communication matrix, without individual operations", _COMMUNICATION_HINT),
    ),
    (
        re.compile(rb'\s*\[\s*\{\s*"start(?:In|Enq|H2d|Compute)Ms"\s*:'),
        FileKind("a list of trtexec's inferences (--exportTimes), without times of layers", _TRTEXEC_HINT),
    ),
    (
        re.compile(rb'\s*\{\s*"Layers"\s*:\s*\['),
        FileKind("a list of TensorRT's layers (--exportLayerInfo), without times", _TRTEXEC_HINT),
    ),
    (
        re.compile(rb".{12,40}brain\.Event:[0-9]", re.DOTALL),
        FileKind("a TensorBoard log", _XPLANE_HINT),
    ),
    (
        re.compile(
            rb'\s*\{(?:\s*"schema"\s*:\s*"[^"]{0,100}"[^\[]{0,2000}"nodes"\s*:\s*\['
            # With more facts, or its keys in another order.
            rb'|(?=.*"nodes"\s*:\s*\[).*"(?:ctrl_deps|rf_id)")',
            re.DOTALL,
        ),
        FileKind("a PyTorch execution trace, which records ops but not their times", _TORCH_HINT),
    ),
    (
        re.compile(rb"\x80[\x02-\x05].{0,4000}\W(?:pg_config|nccl_comm_state|profiling_name)", re.DOTALL),
        _FLIGHT_RECORDER,
    ),
    # A message: its length, and the offset of its table.
    (
        re.compile(rb"\xff{4}.{3}\0[\x04-\x40]\0{3}", re.DOTALL),
        FileKind("an Arrow stream", _NSYS_EXPORT_HINT),
    ),
    (
        # Types of samples, then samples: each type is two indices into a table of strings.
        re.compile(rb"(?:\n\x04\x08[\0-\x7f]\x10[\0-\x7f])+\x12"),
        FileKind(
            "a pprof profile, as of CPU code or JAX device memory",
            "for GPU work, record with jax.profiler.start_trace(FOLDER) or Nsight Systems",
        ),
    ),
    # A dictionary, whose first key is a tuple of three, the first of them a text.
    (
        re.compile(rb"[{\xfb][)\xa9]\x03[AZaz\xc1\xda\xe1\xfa]"),
        FileKind("a Python cProfile profile, without GPU work", _NSYS_HINT),
    ),
    (re.compile(rb'.{5}\0{3}\{\s*"', re.DOTALL), FileKind("a safetensors file (model weights)", _NSYS_HINT)),
    (
        re.compile(rb"PK\x03\x04.{26}[^/]{1,200}/(?:data\.pkl|\.format_version|code/|constants)", re.DOTALL),
        FileKind("a PyTorch checkpoint or program", _TORCH_HINT),
    ),
    (re.compile(rb"PK\x03\x04.{26}[^/]{1,200}\.npy", re.DOTALL), FileKind("a NumPy archive")),
    (
        re.compile(rb"PK\x03\x04"),
        FileKind("a ZIP archive that is damaged, encrypted or from a pipe, or an Office document", _UNZIP_HINT),
    ),
)
"""Patterns of the beginning of files without a magic number."""


def file_kind(head: bytes) -> FileKind | None:
    """Return the kind of a file that is no profile, by its first bytes; None if unknown.

    >>> file_kind(b"GIF89a").title
    'a GIF image'
    """
    by_magic = (kind for offset, magic, kind in _MAGIC if head.startswith(magic, offset))
    by_pattern = (kind for pattern, kind in _PATTERNS if pattern.match(head))
    return next(by_magic, None) or next(by_pattern, None)


_ASCEND_HINT: Final = "open the kernels of the same run: op_summary_*.csv or kernel_details.csv"

_TENSORFLOW_TABLE: Final = FileKind("a TensorFlow profiler table", _XPLANE_HINT)
_XLA_DUMP: Final = FileKind("an XLA compiler dump, without times", _XPLANE_HINT)
_CPU_PROFILE: Final = "a profile of CPU code, without GPU work"
_BENCHMARK: Final = FileKind("a benchmark result, without kernel times", _NSYS_HINT)

_TEXTS: Final[tuple[tuple[re.Pattern[bytes], FileKind], ...]] = (
    (
        re.compile(rb"-{9}> {3,}Profiling Report {3,}<-{9}|-{9}(?:Device|Model|Operator|Kernel|Memory) Summary-{9}"),
        FileKind("a PaddlePaddle profiler report", _NSYS_HINT),
    ),
    (
        re.compile(rb"\| *LABEL *\| *COUNT *\| *DEPTH *\| *METRIC *\| *UNITS *\|"),
        FileKind(
            "a table from ROCm Systems Profiler (Omnitrace) or timemory",
            "open the Perfetto trace of the same run: perfetto-trace-*.proto",
        ),
    ),
    (
        re.compile(
            rb'^,?"?Kernel_?Name"?,"?Count"?,"?Sum\(ns\)|'
            rb"\bKernel_?Name +(?:\xe2\x94\x82|\|) +Count +(?:\xe2\x94\x82|\|) +Sum\(ns\)",
            re.MULTILINE,
        ),
        FileKind("a rocprof-compute (Omniperf) table", "open the counters of the same run: pmc_perf.csv"),
    ),
    (
        re.compile(
            rb'^[^\w\n]*"?(?i:Rank"?,"?(?:Kernel[ _]Name|Host/device|host_or_device|Program[ _]id))"?,|'
            rb'\A\[?\s*\{"cols"\s*:\s*\[\{"id"\s*:\s*"(?:rank|stepnum|host|program_id)"',
            re.MULTILINE,
        ),
        _TENSORFLOW_TABLE,
    ),
    (
        re.compile(rb"^Profile Statistics:\s+Note the difference in units", re.MULTILINE),
        FileKind("an MXNet profiler summary", _NSYS_HINT),
    ),
    (
        re.compile(rb'^"?Sample_Timestamp"?,"?Exec_Mask"?,"?Dispatch_Id\b', re.MULTILINE),
        FileKind(
            "a list of rocprofv3's program-counter samples, without kernel times",
            "open the table of kernels of the same run: *_kernel_trace.csv",
        ),
    ),
    (
        re.compile(rb"(?:^|\] )Average (?:Forward pass|Backward pass|Forward-Backward): [0-9]", re.MULTILINE),
        FileKind(
            "a part of a caffe time log, without layers",
            "open the whole log: caffe time -model net.prototxt -gpu 0 2> run.log",
        ),
    ),
    (
        re.compile(
            rb"=== Performance summary ===|^(?:\[.*\] )?Average over [0-9]+ runs is |\| Average inference time: |"
            rb"^Name: [^\n]*, LayerType: ",
            re.MULTILINE,
        ),
        FileKind("a TensorRT log without layer times", _TRTEXEC_HINT),
    ),
    (
        re.compile(rb"^Time over all layers: [0-9]|^ *TensorRT layer name +Runtime, +%", re.MULTILINE),
        FileKind("a list of layer times that a TensorRT sample printed", _TRTEXEC_HINT),
    ),
    (
        re.compile(rb"^[^\n|]*Name \| +(?:Time \| Time|Byte \| Byte)\(%\) \| +Calls \| ", re.MULTILINE),
        FileKind("a THAPI iprof table", "record a timeline, out.pftrace: iprof -l -- ./app"),
    ),
    (
        re.compile(rb"^(?:>>>>|<<<<) \[[0-9]+\] ", re.MULTILINE),
        FileKind("an API call log (unitrace -c or onetrace -c), without kernels", _UNITRACE_HINT),
    ),
    (
        re.compile(rb"^== (?:Raw Metrics|Raw Kernel Intervals|Kernel Metrics|Aggregated Metrics)\b", re.MULTILINE),
        FileKind("an Intel oneprof table", _UNITRACE_HINT),
    ),
    (
        re.compile(rb"^(?:Host|Device) Performance Timing Results\b", re.MULTILINE),
        FileKind("an OpenCL Intercept Layer report", _UNITRACE_HINT),
    ),
    (
        re.compile(
            rb'^"?(?:Function|Computing Task)"?[,;\t](?:[^\n]*[,;\t])?"?(?:CPU Time|Computing Task:Total Time)\b'
            rb"|^[ \t]*Hottest (?:Host|GPU Computing) Tasks",
            re.MULTILINE,
        ),
        FileKind("an Intel VTune report", _UNITRACE_HINT),
    ),
    (
        re.compile(rb"^(?:onednn|dnnl|mkldnn)_verbose,", re.MULTILINE),
        FileKind("a oneDNN verbose log, without kernels", _UNITRACE_HINT),
    ),
    (
        re.compile(rb"^Vulkan Timings:\s*$", re.MULTILINE),
        FileKind("Vulkan timings of ggml (llama.cpp), by op without kernels", _NSYS_HINT),
    ),
    (
        re.compile(rb"^# (?:CUDA|OPENCL)_PROFILE_LOG_VERSION |\bmethod=\[ [^\n]* \] gputime=\[ ", re.MULTILINE),
        FileKind(
            "a log of CUDA's command-line profiler (CUDA_PROFILE=1)",
            "record the program again: nvprof --print-gpu-trace --log-file run.nvprof.log ./app",
        ),
    ),
    (
        re.compile(rb"^Profile[rd] (?:ran for|over) [0-9.]+ |^(?:Host|Device)-side activity: ", re.MULTILINE),
        FileKind(
            "a Julia GPU profiler table",
            "record with Nsight Systems: nsys profile --trace cuda,nvtx -o run julia script.jl, and in the script "
            "CUDA.@profile external=true",
        ),
    ),
    (
        re.compile(rb"PyTorch CUDA memory summary, device ID|<title>GPU Memory Timeline HTML</title>"),
        FileKind("a PyTorch memory summary, without the individual allocations", _SNAPSHOT_HINT),
    ),
    (
        re.compile(rb"\A\[\[(?:-?[0-9]+, [0-3], [0-9]+, [0-9]+\]|-?[0-9.e+]+(?:, [0-9.e+]+)*\], \[\[)"),
        FileKind("a PyTorch memory timeline, without call stacks", _SNAPSHOT_HINT),
    ),
    (
        re.compile(rb"<FunctionEvent(?:Avg)? (?:id|key)=|^Module +\| Self CPU total \|", re.MULTILINE),
        FileKind(
            "a list of PyTorch profiler events or modules (torchprof)",
            "print a table: print(prof.key_averages().table(row_limit=-1))",
        ),
    ),
    (
        re.compile(rb'"(?:summary|model)_stats"\s*:\s*\[\s*\{\s*"entry"\s*:|\bcuda_time_us +\| +pct_cuda_time\b'),
        FileKind("a layer-wise profile of vLLM", _TORCH_HINT),
    ),
    (
        re.compile(rb"^(?:[A-Z]+ )?Profiler Report\r?\n", re.MULTILINE),
        FileKind("a Lightning profiler report, without GPU times", "profile with Trainer(profiler='pytorch')"),
    ),
    (
        re.compile(rb"^Module +FLOP +% Total *$", re.MULTILINE),
        FileKind("a PyTorch FlopCounterMode table, without times", _TORCH_HINT),
    ),
    (
        re.compile(
            rb"^-+ DeepSpeed Flops Profiler -+$|\btime \(ms\) \| forward|time across ranks \(ms\):", re.MULTILINE
        ),
        FileKind("a DeepSpeed or Megatron log, with step times but no kernel times", _TORCH_HINT),
    ),
    (
        re.compile(rb"^node name \| .*\bexecution time\b|^=+Model Analysis Report=+$", re.MULTILINE),
        FileKind(
            "a TensorFlow 1 profiler report (tfprof)",
            "open the timeline of the run: timeline.Timeline(run_metadata.step_stats).generate_chrome_trace_format()",
        ),
    ),
    (
        re.compile(rb"^Name +Duration \(us\) +Percent +|^Node Name +Ops +Time\(us\) +Time\(%\)", re.MULTILINE),
        FileKind("a TVM profiler table", _NSYS_HINT),
    ),
    (
        re.compile(rb"\[[Nn]ode type\]\s+\[(?:count|first)\]", re.MULTILINE),
        FileKind("a TensorFlow Lite benchmark table, without kernels"),
    ),
    (
        re.compile(
            rb"^layerName;execStatus;layerType;|^\S+ +(?:EXECUTED|OPTIMIZED_OUT|NOT_RUN) +layerType: ", re.MULTILINE
        ),
        FileKind("OpenVINO layer performance counts", _UNITRACE_HINT),
    ),
    (
        re.compile(rb"^ \((?:REGION|ParFor|ParRed|ParScan)\) +[0-9.]+ [0-9]+ ", re.MULTILINE),
        FileKind("a Kokkos Tools table, without the individual kernels", _NSYS_HINT),
    ),
    (
        re.compile(rb"^%Time +Exclusive +Inclusive +#Call ", re.MULTILINE),
        FileKind("a TAU pprof table", _NSYS_HINT),
    ),
    (
        re.compile(rb"^(?:gpu|hip)::[^\n]{1,1000}: [0-9.e-]+ms(?: / [0-9]+ = [0-9.e-]+ms)?, [0-9]+%", re.MULTILINE),
        FileKind("a MIGraphX perf report", "record kernels: rocprofv3 --kernel-trace -f csv -- ./app"),
    ),
    (
        re.compile(rb'^"?(?:Estimated Speedup|[a-z]+__[a-z_.]+) \[[^]\n]+\]"?,', re.MULTILINE),
        FileKind("a raw page of Nsight Compute with the metrics in rows", _NCU_HINT),
    ),
    (
        re.compile(rb'^"?(?:#|Address|Line No)"?(?:,"Address")?(?:,| {2,})"?Source(?:"|  )', re.MULTILINE),
        FileKind("an Nsight Compute source page, without kernel metrics", _NCU_HINT),
    ),
    (
        re.compile(
            rb'^Launch Settings\s+(?:-[^\n]*\n)?"?Launch Attribute|Note: The shown averages are calc', re.MULTILINE
        ),
        FileKind("an Nsight Compute session page or summary, without kernels", _NCU_HINT),
    ),
    (
        re.compile(
            rb"^[^\w\n]*Section: (?:GPU Speed Of Light|Launch Statistics|Occupancy|Command line profiler metrics"
            rb"|[A-Z][A-Za-z ]+ (?:Analysis|Statistics|Distribution|Counters))\b",
            re.MULTILINE,
        ),
        FileKind(
            "an excerpt of Nsight Compute's output, without the names of kernels",
            "include the line above the sections: 'kernel (1, 1, 1)x(256, 1, 1), Context 1, Stream 7'",
        ),
    ),
    (
        re.compile(rb"^Processing \[[^]\n]+\] with \[[^]\n]*/rules/", re.MULTILINE),
        FileKind("nsys analyze output", _NSYS_EXPORT_HINT),
    ),
    (
        re.compile(rb"^Name\tStart\tDuration\t(?:TID|GPU)\b", re.MULTILINE),
        FileKind(
            "events copied from Nsight Systems, with rounded start times",
            "export a database: nsys export --type sqlite run.nsys-rep",
        ),
    ),
    (
        re.compile(rb'\A\[\s*\{\s*"(?:Time \(%\)|Start \(ns\)|Total \([KMGi]*B\))"\s*:'),
        FileKind("an nsys stats report as JSON", "print it as CSV: nsys stats --format csv --output . run.nsys-rep"),
    ),
    (
        re.compile(rb"<title>Nsight Systems Stats Output</title>|<th>Total Time \([a-z]+\)</th>"),
        FileKind("an nsys stats report as HTML", "print it as CSV: nsys stats --format csv --output . run.nsys-rep"),
    ),
    (
        re.compile(rb"^Legend \(Metric: |^[0-9.]+ (?:nan )?ROOT$", re.MULTILINE),
        FileKind("a tree that proton-viewer or Hatchet printed", "open the profile that it is of: NAME.hatchet"),
    ),
    (
        re.compile(
            rb"^(?:Device_id,)?(?:block_id,sub_block_id|Core ID|Component,Timestamp\(us\),Total Reserved|"
            rb"Timestamp\(us\),Node,Compute_time|Name,Type,Time\(%\),Time\(us\),Count|Name,Stream ID,Time\(%\)|"
            rb"pid,tid,category,event_type,payload_type|Model Name,Model ID,Fusion Op,)",
            re.MULTILINE,
        ),
        FileKind("an Ascend profiler table without kernels", _ASCEND_HINT),
    ),
    (
        re.compile(
            rb"^(?:Op(?:Name|Type),(?:\w+,){0,3}Count,Mean\(Us\)|Rank ID,Start Time\(us\),|GroupName,GroupId,)|"
            rb'"comm_group_parallel_info"\s*:',
            re.MULTILINE,
        ),
        FileKind(
            "a table of msprof-analyze",
            "open the profiles that it is of: ascend_pytorch_profiler_*.db or kernel_details.csv",
        ),
    ),
    (
        re.compile(rb"\A(?:[^;\n]{1,1000} [0-9]+\r?\n){0,2}(?:[^;\n]{1,1000};)+[^;\n]{1,1000} [0-9]+\r?\n"),
        FileKind(
            "a file of folded stacks, for a flame graph",
            "export a trace instead: p.export_chrome_trace('trace.json.gz')",
        ),
    ),
    (
        re.compile(rb'\A\{"data":\["|"(?:CudaEvent|TraceProcessEvent|NvtxEvent)"\s*:\s*\{'),
        FileKind("an Nsight Systems JSON export", "export a database: nsys export --type sqlite run.nsys-rep"),
    ),
    (
        re.compile(
            rb"\A(?:(?=[^\n]*\bGR3D_FREQ )[^\n]*\bRAM [0-9]+/[0-9]+MB |"
            rb"#\s*(?:Date +Time +)?gpu[, ]|#Entity |# HELP DCGM_|=+NVSMI LOG=|"
            rb"<\?xml[^>]*>\s*<!DOCTYPE nvidia_smi_log|"
            # Its table alone: a log of a program may begin with it.
            rb"(?:[A-Z][^\n]+\n)?\+-+\+\n\| NVIDIA-SMI [^\n]*\n"
            rb"(?:(?:[|+ ][^\n]*|[A-Z][a-z]{2} [A-Z][a-z]{2} [^\n]*|)\n)*[^\n]*\Z|"
            rb"(?:[a-z_.0-9]+(?: \[[^]\n]{1,9}\])?, ?)*"
            rb"(?:utilization\.gpu|memory\.used|temperature\.gpu|power\.draw)\b|"
            rb"[0-9/]{10} [0-9:.]{12}, NVIDIA |"
            rb'\{[^}]*"utilization\.gpu"|[^\n]+\n\[0\] [^|\n]+\|[^|\n]+\|[^|\n]+ MB)'
        ),
        FileKind("the output of a GPU monitor (such as nvidia-smi), without kernels", _NSYS_HINT),
    ),
    (
        re.compile(
            rb"\A(?:=+ ROCm System Management Interface|GPU +(?:XCP +)?POWER +|"
            rb'(?:gpu|device),[^\n]*(?:power|emperature)|\{\s*"card0"|\[\s*\{\s*"gpu"\s*:\s*[0-9]+,\s*"[a-z_]+"\s*:\s*\{)'
        ),
        FileKind(
            "the output of a GPU monitor (rocm-smi or amd-smi), without kernels",
            "record kernels: rocprofv3 --sys-trace --output-format csv -- ./app",
        ),
    ),
    (
        re.compile(
            rb"\A(?:Timer unit: [0-9]|[0-9]+ function calls (?:in|\()|# To display the perf\.data header|"
            rb"Performance counter stats for |[^\n]+ [0-9]+ (?:\[[0-9]+\] )?[0-9]+\.[0-9]{6}: +(?:[0-9]+ )?[a-z-]+:|"
            rb'Memory usage: [^\n]+\n[^\n]+% of time = |\{[^\n]*"n_cpu_percent)|'
            rb"^[^\n]+ function calls \([0-9]+ primitive calls\) in ",
            re.MULTILINE,
        ),
        FileKind(_CPU_PROFILE, _NSYS_HINT),
    ),
    (
        re.compile(rb'"https?://(?:www\.)?speedscope\.app/file-format'),
        FileKind("a speedscope flame graph", "open the profile that it was made of"),
    ),
    (re.compile(rb'\A[\[{].{0,4000}"(?:pg_config|nccl_comm_state|profiling_name)"', re.DOTALL), _FLIGHT_RECORDER),
    (re.compile(rb"\AHloModule |\A(?:#loc[^\n]*\n)*module (?:@\S+ )?(?:attributes )?\{"), _XLA_DUMP),
    (
        re.compile(
            rb"\A(?:[VI][0-9]{4} [0-9:.]+ [^\n]*torch/_(?:dynamo|inductor|logging|functorch)/|AUTOTUNE |"
            rb"<!DOCTYPE html>.{0,9000}(?:tlparse|[Ss]tack.trie)|[0-9.]+(?:ms)?\s+[0-9.]+ ?GB\s+[0-9.]+ ?GB/s)|"
            rb"^[ \t]*[0-9.]+ms\s+[0-9.]+ ?GB\s+[0-9.]+ ?GB/s\s|^ *== \w+ category kernels ==$",
            re.DOTALL | re.MULTILINE,
        ),
        FileKind("a torch.compile log", _TORCH_HINT),
    ),
    (
        re.compile(rb"\A,?[^\n]*(?:idle_time\(us\)|stddev,kernel_type|kernel_type,sum)"),
        FileKind("a Holistic Trace Analysis table", "open the traces of the same run: *.pt.trace.json.gz"),
    ),
    (
        re.compile(
            rb"\A(?:name,(?:param: |op category,process_name,|total_direct_kernel_time)|type,time ms,percent|"
            rb"Parent op category,Parent cpu_op,|Name,Tensor Cores Used,Calls,)"
        ),
        FileKind(
            "a table of TraceLens or the TensorBoard plugin", "open the traces of the same run: *.pt.trace.json.gz"
        ),
    ),
    (
        re.compile(rb"^\{'kShortName': |^\"?Idx\"?[, ]+\"?Direction\"?[, ]+\"?Sub\"?[, ]", re.MULTILINE),
        FileKind("PyProf output", "open the nvprof or Nsight Systems database that it was made from"),
    ),
    (
        re.compile(rb"/torch/utils/viz/MemoryViz\.js"),
        FileKind("a PyTorch memory plot as HTML", "open the snapshot that it was made from: snapshot.pickle"),
    ),
    (
        re.compile(rb"^Available (?:Metrics|Events):\r?$", re.MULTILINE),
        FileKind("an nvprof list of the metrics that a GPU has", "record their values: nvprof --metrics all ./app"),
    ),
    (re.compile(rb'\A\{\s*"(?:memoryProfilePerAllocator|by(?:Program|Category)|podStatsSequence)"'), _TENSORFLOW_TABLE),
    (
        re.compile(rb"\A(?:PRAGMA [a-z_]+=|BEGIN TRANSACTION;|CREATE TABLE )"),
        FileKind("an SQL dump", "restore the database: sqlite3 run.sqlite < FILE"),
    ),
    (
        re.compile(rb"\Apacket:? ?\{"),
        FileKind("a Perfetto trace as text", "convert it: traceconv binary FILE trace.pftrace"),
    ),
    (
        re.compile(
            rb'\A\{.{0,4000}"(?:mean_ttft_ms|request_throughput|avg_latency|requests_per_second)"\s*:|'
            rb"= (?:Serving|Offline Throughput) Benchmark Result =|"
            rb"^:::MLL?OG|^MLPerf Results Summary|^# nThread [0-9]+ nGpus |"
            rb"\| +CPU Time +\| +Noise +\| +GPU Time +\||: +CPU: +[0-9.]+ us +\+/-[^\n]* GPU-0: ",
            re.DOTALL | re.MULTILINE,
        ),
        _BENCHMARK,
    ),
)
"""Patterns of texts that other tools print, in a text without a table that can be read."""


def text_kind(head: bytes) -> FileKind | None:
    """Return the kind of a text in which no profile was found; None if unknown.

    >>> text_kind(b"Legend (Metric: time/ns (inc) Min: 0.01 Max: 0.04)").title
    'a tree that proton-viewer or Hatchet printed'
    """
    text = head.lstrip()
    return next((kind for pattern, kind in _TEXTS if pattern.search(text)), None)


_NAMES: Final = (
    (
        (".overview_page.pb", ".input_pipeline.pb", ".kernel_stats.pb", ".tensorflow_stats.pb", ".op_stats.pb"),
        _TENSORFLOW_TABLE,
    ),
    ((".hlo.pb", ".hlo_proto.pb"), _XLA_DUMP),
    ((".onnx",), FileKind("an ONNX model", _TRTEXEC_HINT)),
    ((".et",), FileKind("a Chakra execution trace, without kernels", _TORCH_HINT)),
    ((".qdstrm",), FileKind("an Nsight Systems recording before its import", "import it: QdstrmImporter -i FILE")),
    ((".ncu-proj",), FileKind("an Nsight Compute project", "open its reports: *.ncu-rep, *.ncu-repz")),
)
"""Endings of names, for files whose content does not say what they are, or is like that of a profile."""


def kind_by_name(name: str) -> FileKind | None:
    """Return the kind of a file that is no profile, by the ending of its name; None if unknown.

    >>> kind_by_name("resnet.onnx").title
    'an ONNX model'
    """
    return next((kind for endings, kind in _NAMES if name.lower().endswith(endings)), None)


_NOT_WRITTEN: Final = "the recording ended before the profile was written; let the program finish"
_EMPTY_REASONS: Final = (
    ((".json", ".json.gz"), f"{_NOT_WRITTEN}, or stop the profiler earlier"),
    ((".nsys-rep", ".qdrep", ".ncu-rep", ".ncu-repz", ".nvvp", ".nvprof", ".db"), _NOT_WRITTEN),
    (
        (".csv", ".csv.gz"),
        "its export failed or was empty; from Nsight Compute, export again: ncu --import FILE --csv --page raw; "
        "nvprof writes to standard error: use --csv --log-file FILE",
    ),
)
"""Why a file may be empty, by the ending of its name."""


def why_empty(name: str) -> str:
    """Return why a file may be empty and what to do, by its name.

    >>> why_empty("run.log")
    'nvprof writes to standard error: record with --log-file FILE, or redirect with 2>&1'
    >>> why_empty("my run.sqlite")
    "its export failed; export it again: nsys export --type sqlite --force-overwrite true 'my run.nsys-rep'"
    """
    if name.endswith(".sqlite"):
        report = shlex.quote(f"{'./' if name.startswith('-') else ''}{name.removesuffix('.sqlite')}.nsys-rep")
        return f"its export failed; export it again: nsys export --type sqlite --force-overwrite true {report}"
    return next(
        (reason for endings, reason in _EMPTY_REASONS if name.lower().endswith(endings)),
        "nvprof writes to standard error: record with --log-file FILE, or redirect with 2>&1",
    )
