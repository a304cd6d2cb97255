from __future__ import annotations

import io
import marshal
import os
import pickle
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.loaders.wire import field, message
from tui.loaders.collector import Collector
from tui.loaders.input_issues import file_kind, text_kind
from tui.loaders.multi_file.load_together import _capture_batch_text
from tui.loaders.registry import formats, load, load_input
from tui.model.errors import ProftuiError
from tui.model.schema import FRAMES

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY = """\
==5110== NVPROF is profiling process 5110, command: ./saxpy
==5110== Profiling application: ./saxpy
==5110== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  3.0000ms         3  1.0000ms  0.9000ms  1.1000ms  saxpy(int, float, float*, float*)
                   25.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  [CUDA memcpy HtoD]
      API calls:  100.00%  9.0000ms         9  1.0000ms  1.0000ms  1.0000ms  cudaMalloc
"""

KERNEL_STATS = field(
    1,
    message(
        (1, "void saxpy<float>(int)"),
        *((shape, b"\x40\x01\x01") for shape in (5, 6)),
        *((time, 2500) for time in (7, 8, 9)),
        (11, 1),
        (12, "dense/MatMul"),
        (13, 1),
    ),
)
"""A table of TensorFlow's profiler, with fields that Perfetto's packets have too."""


def test_a_file_with_an_undecodable_name_opens(tmp_path: Path) -> None:
    path = tmp_path / "run \udcff.log"
    path.write_text(SUMMARY)
    shown = str(tmp_path / "run \ufffd.log")
    profile = load_input(str(path))
    assert profile["sessions"]["source"].to_list() == [*profile.sources] == [*profile.texts] == [shown]
    with pytest.raises(ProftuiError) as raised:
        load_input(str(tmp_path / "no \udcff.log"))
    assert raised.value.message == f"{tmp_path / 'no'} \ufffd.log: no such file"


def test_files_with_undecodable_names_in_a_folder_open_and_are_reported(tmp_path: Path) -> None:
    (tmp_path / "run \udcff.log").write_text(SUMMARY)
    (tmp_path / "empty \udcff.log").touch()
    (tmp_path / "notes \udcff.txt").write_text("nothing here")
    profile, errors = load((str(tmp_path),))
    assert profile is not None
    assert errors == []
    assert profile["sessions"].height == 1
    reasons = " ".join(profile["issues"]["reason"]) + " ".join(profile["issues"]["text"])
    assert "empty \ufffd.log: is empty" in reasons
    assert "notes \ufffd.txt" in reasons


def test_every_format_has_a_complete_description() -> None:
    names = [format_.name for format_ in formats()]
    assert names[0] == "nvprof-text"
    assert len(set(names)) == len(names)
    for format_ in formats():
        assert format_.title
        assert format_.recognized_by
        assert format_.record_with
        assert set(format_.feeds) <= set(FRAMES)


def test_several_files_are_several_sessions(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(SUMMARY)
    (tmp_path / "two.log").write_text(SUMMARY.replace("5110", "5111") + "\n" + SUMMARY.replace("5110", "5112"))
    paths = [str(tmp_path / "one.log"), str(tmp_path / "two.log")]
    profile, errors = load(paths)
    assert profile is not None
    assert errors == []
    assert profile["sessions"].select("session", "pid", "source", "first_line").rows() == [
        (0, 5110, paths[0], 1),
        (1, 5111, paths[1], 1),
        (2, 5112, paths[1], 9),
    ]
    assert profile["summary"].filter(section="gpu").group_by("session").sum().sort("session")["total_ns"].to_list() == [
        4_000_000,
        4_000_000,
        4_000_000,
    ]
    assert profile.sources == tuple(paths)
    assert profile.texts[paths[1]].lines(9, 1) == ["==5112== NVPROF is profiling process 5112, command: ./saxpy"]


def test_an_unreadable_file_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "one.log").write_text(SUMMARY)
    (tmp_path / "notes.txt").write_text("hello\n")
    paths = [str(tmp_path / name) for name in ("gone.log", "one.log", "notes.txt")]
    profile, errors = load(paths)
    assert profile is not None
    assert profile.sources == (paths[1],)
    assert [error.message.split(": ")[0] for error in errors] == [paths[0], paths[2]]
    assert load(paths[:1])[0] is None


def test_standard_input_is_read_from_a_stream() -> None:
    profile = load_input("-", stream=io.BytesIO(SUMMARY.encode()))
    assert profile["sessions"]["source"].to_list() == ["-"]
    assert profile["summary"].height == 3
    assert profile.texts["-"].line_count == 7


def test_the_file_name_does_not_decide_the_format(tmp_path: Path) -> None:
    (tmp_path / "run.png").write_text(SUMMARY)
    assert load_input(str(tmp_path / "run.png"))["summary"].height == 3


def test_a_requested_format_is_read_without_probing(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(bytes(range(1, 32)) * 4000 + b"\n" + SUMMARY.encode())
    with pytest.raises(ProftuiError, match="binary file"):
        load_input(str(path))
    assert load_input(str(path), format_in="nvprof-text")["summary"].height == 3


def test_the_error_for_an_unknown_format_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(ProftuiError, match="unknown format nsight; choose one of nvprof-text, "):
        load_input(str(tmp_path / "none.log"), format_in="nsight")


def test_a_profile_may_come_after_the_head(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("step 1 of 10,000\n" * 10_000 + SUMMARY)
    profile = load_input(str(path))
    assert profile["summary"]["line"].to_list() == [10_005, 10_006, 10_007]


@pytest.mark.parametrize(
    ("head", "title", "hint"),
    [
        (b"\x89PNG\r\n\x1a\n", "a PNG image", "does not read text in images"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "a JPEG image", "image"),
        (b"\x7fELF\x02", "an ELF program", "nsys profile"),
        (b"%PDF-1.7", "a PDF document", "pdftotext"),
        (b"PK\x03\x04", "a ZIP archive", "unpack it"),
        (b'{\n "schema": "1.0.1", "pid": 7,\n "nodes": [', "a PyTorch execution trace", "export_chrome_trace"),
        (
            b'{"finish_ts": 4, "nodes": [{"attrs": [{"name": "rf_id"}]',
            "a PyTorch execution trace",
            "export_chrome_trace",
        ),
        (b'[\n  { "startInMs" : 10.1, "endInMs" : 10.2', "a list of trtexec's inferences", "--exportProfile"),
        (b'{"Layers": [{"Name": "conv1"', "a list of TensorRT's layers", "--exportProfile"),
        (b"\x18" + bytes(11) + b"\x09\0\x80\x9d\x9a\xd8A\x1a\rbrain.Event:2", "a TensorBoard log", "xplane.pb"),
        (b"run.log" + bytes(250) + b"ustar\x0000", "a tar archive", "unpack it"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "nsys export --type sqlite"),
        (b"\xff\xff\xff\xff\x90\1\0\0\x10\0\0\0", "an Arrow stream", "nsys export --type sqlite"),
        (b"PERFILE2", "a Linux perf recording", "nsys profile"),
        (b"ftrt\0\0\0\0", "a TensorRT engine", "trtexec --loadEngine"),
        (pickle.dumps(0x1950A86A20F9469CFC6C, 2), "a PyTorch checkpoint", "export_chrome_trace"),
        (pickle.dumps({"version": "2.4", "pg_config": {}}), "a dump of PyTorch's flight recorder", "export_chrome"),
        (
            pickle.dumps([{"profiling_name": "nccl:broadcast"}], 2),
            "a dump of PyTorch's flight recorder",
            "export_chrome",
        ),
        (marshal.dumps({("step.py", 3, "f"): (1, 1, 0.5, 0.5, {})}), "a Python cProfile profile", "nsys profile"),
        (b"\x40" + bytes(7) + b'{"w":{"dtype":"F32"', "a safetensors file", "nsys profile"),
        (b"\n\4\x08\1\x10\2\n\4\x08\3\x10\4\x12\x10\n\1\1", "a pprof profile", "start_trace"),
        (b"GGUF\3\0\0\0", "a GGUF model", "nsys profile"),
    ],
)
def test_unsupported_files_are_named_with_a_remedy(head: bytes, title: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(head + bytes(1000))
    with pytest.raises(ProftuiError) as caught:
        load_input(str(path))
    assert caught.value.message.startswith(f"{path}: this is {title}")
    assert hint in caught.value.hint
    assert file_kind(head) is not None


def test_a_log_is_not_taken_for_an_unsupported_file() -> None:
    assert file_kind(SUMMARY.encode()) is None
    assert file_kind(b"") is None


@pytest.mark.parametrize(
    ("head", "title", "hint"),
    [
        (b'[\n{"cat" : "Session","pid" :7,"tid" :7,"dur" :5,"ts" :3,', "an ONNX Runtime profile", "nsys profile"),
        (
            b'{\n  "schemaVersion": "1.0.2",\n  "displayTimeUnit": "ms",\n  "traceEvents": [',
            "a PaddlePaddle profiler trace",
            "nsys",
        ),
        (
            b'{\n "traceEvents": [\n {\n  "ph": "M",\n  "args": {\n   "name": "cpu/0"\n',
            "an MXNet profile",
            "nsys profile",
        ),
        (
            b'[\n{"name": "process_name", "ph": "M"},\n{"ph": "B", "name": "NEGOTIATE_ALLREDUCE"',
            "a Horovod timeline",
            "n",
        ),
        (
            b'{"displayTimeUnit":"ns","traceEvents":[{"args":{"Init Time (ns)":7},"cat":"k","dur":1.0,',
            "a Proton trace of scopes within kernels",
            "NAME.hatchet",
        ),
        (
            b'[ {}\n,{"name": "process_name", "ph": "M"}\n,{"args":{"name":"Hip 70"}}\n,{"ts":"1.5","ph":"X"}',
            "a rocmProfileData Chrome trace",
            "trace.rpd",
        ),
        (b'{"traceEvents": [ {}\n,{"args":{"name":"Hip 70"}}\n,{"ts":"1"}', "a rocmProfileData Chrome trace", "rpd"),
        (
            b'[\n{"name": "Group", "cat": "GROUP", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 1.5},\n{}]',
            "an NCCL profiler plugin trace",
            "nsys",
        ),
        (
            b'[\n{"ph":"M", "name":"process_name", "pid":7, "tid":0, "args":{"name":"app"}},\n'
            b'{"ph":"M", "name":"onetrace_start_time", "pid":7, "tid":0, "args":{"start_time":"5"}},\n'
            b'{"ph":"X", "pid":7, "tid":94, "name":"scale", "ts": 3, "dur":2, "args": {"id": "1.0"}},\n',
            "an onetrace Chrome trace",
            "unitrace --chrome-kernel-logging",
        ),
        (b'{"ph": "X", "ts": 1, "dur": 2}\n{"ph": "X", "ts": 3, "dur": 4}\n', "JSON lines of trace events", "jq -s"),
    ],
)
def test_traces_of_other_programs_are_named_with_a_remedy(head: bytes, title: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(head)
    with pytest.raises(ProftuiError) as caught:
        load_input(str(path))
    assert caught.value.message.startswith(f"{path}: this is {title}")
    assert hint in caught.value.hint


def test_traces_that_are_read_are_not_those_of_other_programs() -> None:
    torch = b'{"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [{"ph": "X", "args": {"Call stack": "f"}'
    npu = b'[{"ph": "X", "cat": "cpu_op", "ts": "1.5"}, {"ph": "M", "args": {"name": "Ascend Hardware"}},'
    list_of_torch = b'[{"cat": "cpu_op", "name": "NEGOTIATE", "ph": "X"},'
    erased = b"\xff" * 64
    assert [file_kind(head) for head in (torch, npu, list_of_torch, erased)] == [None] * 4


@pytest.mark.parametrize(
    ("text", "title", "hint"),
    [
        (
            "------------------------->     Profiling Report     <-------------------------\n",
            "a PaddlePaddle profiler report",
            "nsys",
        ),
        (
            "---------------------------Kernel Summary---------------------------\nTime unit: ms\n",
            "a PaddlePaddle profiler report",
            "nsys",
        ),
        ("KernelName,Count,Sum(ns),Mean(ns),Median(ns),Pct\n", "a rocprof-compute", "pmc_perf.csv"),
        ("│  │ Kernel_Name │   Count │   Sum(ns) │\n", "a rocprof-compute (Omniperf) table", "pmc_perf.csv"),
        ("|  LABEL  | COUNT | DEPTH |  METRIC  | UNITS |\n", "a table from ROCm Systems Profiler", "perfetto-trace"),
        ('"Rank","Kernel Name","Registers per thread"\n1,"k",3\n', "a TensorFlow profiler table", "xplane.pb"),
        ("rank,kernel_name,registers_per_thread\n1,k,3\n", "a TensorFlow profiler table", "xplane.pb"),
        ('"Rank","Program id","Category"\n1,"3","fusion"\n', "a TensorFlow profiler table", "xplane.pb"),
        ('[{"cols": [{"id": "stepnum", "type": "string"}]}]\n', "a TensorFlow profiler table", "xplane.pb"),
        ("#Rank,Host/device,Type\n", "a TensorFlow profiler table", "xplane.pb"),
        (
            "Profile Statistics:\n\tNote the difference in units for different entries.\n",
            "an MXNet profiler summary",
            "nsys",
        ),
        ("1.023 ROOT\n├─ 0.512 forward\n└─ 0.511 loss\n", "a tree that proton-viewer", "NAME.hatchet"),
        (
            "   Name |    Time | Time(%) | Calls | Average |\n zeInit | 54.64ms |  51.77% |\n",
            "a THAPI iprof table",
            "iprof -l",
        ),
        (
            ">>>> [91] zeInit: flags = 0\n<<<< [99] zeInit [8 ns] -> ZE_RESULT_SUCCESS\n",
            "an API call log",
            "unitrace",
        ),
        (
            "== Raw Kernel Intervals (Level Zero) ==\n\nSubDeviceId,Name,Start,End,\n",
            "an Intel oneprof table",
            "unitrace",
        ),
        ("Host Performance Timing Results:\n\nTotal Time (ns): 5\n", "an OpenCL Intercept Layer report", "unitrace"),
        ("Function,CPU Time,CPU Time:Spin Time,Module\nf,1.5,0,a.so\n", "an Intel VTune report", "unitrace"),
        ("Computing Task\tWork Size:Global\tComputing Task:Total Time\n", "an Intel VTune report", "unitrace"),
        ("Elapsed Time: 3.2s\n\nHottest GPU Computing Tasks\nComputing Task\n", "an Intel VTune report", "unitrace"),
        ("        Hottest GPU Computing Tasks with Low Occupancy\n", "an Intel VTune report", "unitrace"),
        ("onednn_verbose,exec,gpu:0,matmul,jit:gemm:any,undef,,,,1x2:2x3,0.5\n", "a oneDNN verbose log", "unitrace"),
        (
            "# CUDA_PROFILE_LOG_VERSION 2.0\n# CUDA_DEVICE 0 Tesla C1\n",
            "a log of CUDA's command-line",
            "nvprof --print",
        ),
        ("method=[ k ] gputime=[ 3.232 ] cputime=[ 26.000 ]\n", "a log of CUDA's command-line profiler", "nvprof"),
        ("17 method=[ fill ] gputime=[ 2.5 ] cputime=[ 7.0 ]\n", "a log of CUDA's command-line profiler", "nvprof"),
        ("Section: GPU Speed Of Light Throughput\n-----\n", "an excerpt of Nsight Compute's output", "Context 1"),
        ("// Section: Memory Workload Analysis\n", "an excerpt of Nsight Compute's output", "Context 1, Stream 7"),
        (
            '{"decode_1": {"summary_stats": [{"entry": {"name": "M"}}]}}',
            "a layer-wise profile of vLLM",
            "export_chrome",
        ),
        ("name   | cuda_time_us | pct_cuda_time | invocations\n", "a layer-wise profile of vLLM", "export_chrome"),
        ("Profiler ran for 1.71 ms, capturing 36 events.\n", "a Julia GPU profiler table", "external=true"),
        (
            "Device-side activity: GPU was busy for 1.51 ms (94.36% of the trace)\n",
            "a Julia GPU profiler table",
            "nsys",
        ),
        ("----\nVulkan Timings:\nROPE: 24 x 3.0 us = 72.0 us\n", "Vulkan timings of ggml (llama.cpp)", "nsys"),
        ("Profiled over 9.97 ms.\n\nHost-side activity:\n", "a Julia GPU profiler table", "nsys profile"),
        ("|     PyTorch CUDA memory summary, device ID 0     |\n", "a PyTorch memory summary", "_dump_snapshot"),
        ("<head><title>GPU Memory Timeline HTML</title></head>\n", "a PyTorch memory summary", "_dump_snapshot"),
        ("[[1.5, 2.0], [[0, 512], [0, 1024]]]\n", "a PyTorch memory timeline", "_dump_snapshot"),
        ("[[-1, 0, 8192, 1], [17000, 1, 4096, 5]]\n", "a PyTorch memory timeline", "_dump_snapshot"),
        ("[<FunctionEvent id=2 cpu_time=108.569us name=Conv>]\n", "a list of PyTorch profiler events", "key_averages"),
        ("Module         | Self CPU total | CPU total\n", "a list of PyTorch profiler events or modules", "key_aver"),
        ("FIT Profiler Report\n\n-----\n", "a Lightning profiler report", "profiler='pytorch'"),
        ("Module                FLOP    % Total\n", "a PyTorch FlopCounterMode table", "export_chrome_trace"),
        ("----- DeepSpeed Flops Profiler -----\n", "a DeepSpeed or Megatron log", "export_chrome_trace"),
        (
            "[Rank 0] time (ms) | forward: 1.5 | backward: 2.5\n",
            "a DeepSpeed or Megatron log",
            "export_chrome_trace",
        ),
        (
            "(min, max) time across ranks (ms):\n    forward ...: (1.5, 1.6)\n",
            "a DeepSpeed or Megatron log",
            "export_chrome",
        ),
        (
            "==================Model Analysis Report======================\n",
            "a TensorFlow 1 profiler report",
            "generate_chrome",
        ),
        ("node name | # float_ops | total execution time\n", "a TensorFlow 1 profiler report", "generate_chrome"),
        ("Name        Duration (us)  Percent  Device  Count\n", "a TVM profiler table", "nsys"),
        ("Node Name    Ops    Time(us)  Time(%)  Shape\n", "a TVM profiler table", "nsys"),
        ("\t  [Node type]\t  [count]\t  [avg ms]\n", "a TensorFlow Lite benchmark table", ""),
        ("layerName;execStatus;layerType;execType\n", "OpenVINO layer performance counts", "unitrace"),
        ("conv1    EXECUTED    layerType: Convolution   realTime: 0.2\n", "OpenVINO layer performance", "unitrace"),
        ("- spmv\n (ParFor)   0.120340 100 0.001203 45.1 20.2\n", "a Kokkos Tools table", "nsys"),
        ("%Time    Exclusive    Inclusive       #Call      #Subrs  Inclusive Name\n", "a TAU pprof table", "nsys"),
        ("gpu::gemm: 8.5ms / 73 = 0.125ms, 64%\n", "a MIGraphX perf report", "rocprofv3 --kernel-trace"),
        ("gpu::convolution<half_type(1x64, 3)>: 0.5ms, 4%\n", "a MIGraphX perf report", "rocprofv3 --kernel-trace"),
        (
            '"#","Address","Source","# Samples"\n"0","7f00","MOV R1","12"\n',
            "an Nsight Compute source page",
            "--page raw",
        ),
        (
            '"Kernel Name","f(int *)",\n"Address","Source","# Samples",\n"0x7f00","MOV R1","12",\n',
            "an Nsight Compute source page",
            "--page raw",
        ),
        ("Kernel Name  f(int *)\nAddress      Source   # Samp\n", "an Nsight Compute source page", "--page raw"),
        ('"Line No","Source"\n"1","int main() {"\n', "an Nsight Compute source page", "--page raw"),
        (
            "Launch Settings\n---------------- -----\nLaunch Attribute Value\n",
            "an Nsight Compute session page",
            "--page raw",
        ),
        (
            "  Note: The shown averages are calculated as the arithmetic mean of the metric values after the   \n",
            "an Nsight Compute session page or summary",
            "--page raw",
        ),
        ('Launch Settings\n"Launch Attribute","Value"\n', "an Nsight Compute session page", "--page raw"),
        ("ID,0\nFunction Name,gemm\nEstimated Speedup [%],7.5\n", "a raw page of Nsight Compute with", "--page raw"),
        ("Processing [run.sqlite] with [/opt/x/rules/gpu_gaps.py]... \n", "nsys analyze output", "sqlite"),
        ("Name\tStart\tDuration\tGPU\tContext\nk\t77,694s\t99,616 us\tGPU 0\n", "events copied from Nsight", "sqlite"),
        ('[{"Time (%)": 66.7, "Total Time (ns)": 2000}]\n', "an nsys stats report as JSON", "--format csv"),
        ("<table>\n<th>Time (%)</th>\n<th>Total Time (ns)</th>\n", "an nsys stats report as HTML", "--format csv"),
        (
            "Compiled module path: c.py\n0.012ms\t0.000 GB\t 1234.56GB/s\t triton_poi_0\n",
            "a torch.compile log",
            "export",
        ),
        ("0.041 ROOT\n\nLegend (Metric: time/ns (inc) Min: 0.01)\n", "a tree that proton-viewer", "NAME.hatchet"),
        (
            "OpName,OpType,TaskType,InputShapes,Count,Mean(Us),Sum(Us)\nadd,Add,AI_CORE,,2,1.5,3.0\n",
            "a table of msprof",
            "db",
        ),
        ("OpType,Count,Mean(Us),Std(Us)\nallReduce_,2,1.5,0.1\n", "a table of msprof-analyze", "kernel_details.csv"),
        ("Rank ID,Start Time(us),End Time(us)\n0,1.5,2.5\n", "a table of msprof-analyze", "kernel_details.csv"),
        ('{"collective": [], "comm_group_parallel_info": []}', "a table of msprof-analyze", "kernel_details.csv"),
        ("block_id,sub_block_id,aic_time(us)\n0,cube0,2.2\n", "an Ascend profiler table", "op_summary_*.csv"),
        ("Model Name,Model ID,Fusion Op,Original Ops\nnet,1,a,b\n", "an Ascend profiler table", "op_summary_*.csv"),
        (
            "Device_id,Component,Timestamp(us),Total Reserved(KB),Device\n",
            "an Ascend profiler table",
            "op_summary_*.csv",
        ),
        (
            '"Sample_Timestamp","Exec_Mask","Dispatch_Id"\n1,2,3\n',
            "a list of rocprofv3's program-counter samples",
            "kernel_trace",
        ),
        (
            "I1113 21:44:42.7 1 caffe.cpp:412] Average Forward pass: 79 ms.\n",
            "a part of a caffe time log",
            "caffe time",
        ),
        ("[06/10/2025] [I] === Performance summary ===\n", "a TensorRT log without layer times", "--exportProfile"),
        ("Average over 10 runs is 1.2 ms (host walltime is 1.3)\n", "a TensorRT log without", "--exportProfile"),
        ("Name: conv1, LayerType: CaskConvolution\n", "a TensorRT log without layer times", "--exportProfile"),
        (
            "[I] | Completed 9 iterations | Average inference time: 5.2 ms.\n",
            "a TensorRT log without",
            "--exportProfile",
        ),
        ("conv1 + relu1     0.128ms\nTime over all layers: 0.128\n", "a list of layer times", "--exportProfile"),
        ("train.py(12): f;train.py(5): g;linear.py(114): h 1234\n", "a file of folded stacks", "export_chrome_trace"),
        ("train.py(12): f 2\ntrain.py(12): f;train.py(5): g 31\n", "a file of folded stacks", "export_chrome_trace"),
        ('{"data":["k"],"files":[]}\n{"Type":79,"CudaEvent":{}}\n', "an Nsight Systems JSON export", "sqlite"),
        ("# gpu    pwr  gtemp\n# Idx      W      C\n    0     70     41\n", "the output of a GPU monitor", "nsys"),
        ("#Entity   GPUTL   SMACT\nID\nGPU 0     90      0.8\n", "the output of a GPU monitor", "nsys"),
        ("timestamp, name, utilization.gpu [%]\n2024, NVIDIA A10, 98 %\n", "the output of a GPU monitor", "nsys"),
        ("Fri Mar  1 2024\n+----+\n| NVIDIA-SMI 535.1 |\n|----|\n", "the output of a GPU monitor", "nsys"),
        ('{"hostname": "h", "gpus": [{"index": 0, "utilization.gpu": 3}]}', "the output of a GPU monitor", "nsys"),
        ("host  Fri Mar  1\n[0] NVIDIA A10 | 33'C, 0 % | 1 / 23 MB |\n", "the output of a GPU monitor", "nsys"),
        ("11-27-2023 10:00 RAM 3216/7772MB (lfb 8x4MB) GR3D_FREQ 99%@921\n", "the output of a GPU monitor", "nsys"),
        ("\n===== ROCm System Management Interface =====\n", "the output of a GPU monitor", "rocprofv3"),
        ('[{"gpu": 0, "usage": {"gfx_activity": 3}}]', "the output of a GPU monitor", "rocprofv3"),
        ("         8 function calls in 0.001 seconds\n", "a profile of CPU code", "nsys"),
        ("python 12 [003] 12.345678:     250000 cycles:ppp: \n", "a profile of CPU code", "nsys"),
        ("Timer unit: 1e-06 s\n\nTotal time: 1.2 s\n", "a profile of CPU code", "nsys"),
        ('{"$schema":"https://www.speedscope.app/file-format-schema.json"}', "a speedscope flame graph", "open"),
        ('{"version": "2.4", "pg_config": {}, "entries": []}', "a dump of PyTorch's flight recorder", "export_chrome"),
        ("HloModule jit_step, entry_computation_layout={}\n", "an XLA compiler dump", "xplane.pb"),
        ("module @jit_step attributes {mhlo.num_replicas = 1}\n", "an XLA compiler dump", "xplane.pb"),
        ("  == triton_pointwise category kernels ==\nKernel   Count\n", "a torch.compile log", "export_chrome_trace"),
        ("V0301 10:00:00.1 7 torch/_inductor/graph.py:20] x\n", "a torch.compile log", "export_chrome_trace"),
        (",rank,idle_time(us),compute_time(us)\n0,0,5.0,6.0\n", "a Holistic Trace Analysis table", "pt.trace.json"),
        ("name,total_direct_kernel_time_sum,Count\naten::mm,5.0,1\n", "a table of TraceLens", "pt.trace.json"),
        ("type,time ms,percent\nbusy_time,0.5,1.5\n", "a table of TraceLens or the TensorBoard", "pt.trace.json"),
        ("Name,Tensor Cores Used,Calls,Total Duration (us)\nk,No,2,10\n", "a table of TraceLens or", "pt.trace.json"),
        (
            '<script>\nimport {f} from "https://x/pytorch@main/torch/utils/viz/MemoryViz.js"\n</script>\n',
            "a PyTorch memory plot as HTML",
            "snapshot.pickle",
        ),
        ("{'kShortName': 'gemm', 'kDuration': 2848, 'tid': 1}\n", "PyProf output", "open the nvprof"),
        ("Idx   Direction Sub Module     Op   Kernel  Params  Sil(us)\n", "PyProf output", "open the nvprof"),
        ('"Idx","Direction","Sub","Module","Op"\n', "PyProf output", "open the nvprof"),
        ("Available Metrics:\n      Name   Description\n", "an nvprof list of the metrics", "--metrics all"),
        ('{"byProgram":{"name":"by_program"}}', "a TensorFlow profiler table", "xplane.pb"),
        ("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n", "an SQL dump", "sqlite3 run.sqlite < FILE"),
        ("packet {\n  timestamp: 12345\n}\n", "a Perfetto trace as text", "traceconv binary"),
        ('{"memoryProfilePerAllocator": {}}', "a TensorFlow profiler table", "xplane.pb"),
        ('{"backend": "vllm", "request_throughput": 8.1}', "a benchmark result", "nsys"),
        (':::MLLOG {"key": "submission_benchmark"}\n', "a benchmark result", "nsys"),
        ("| N |  CPU Time  | Noise |  GPU Time  | Noise |\n", "a benchmark result", "nsys"),
        ("f   :    CPU:   44.4 us   +/- 2.4 (min: 42) us     GPU-0:  181.5 us\n", "a benchmark result", "nsys"),
        ("# nThread 1 nGpus 8 minBytes 8\n#\n", "a benchmark result", "nsys"),
    ],
)
def test_texts_of_other_tools_are_named_unless_a_profile_follows(
    text: str, title: str, hint: str, tmp_path: Path
) -> None:
    path = tmp_path / "run.log"
    path.write_text(text)
    with pytest.raises(ProftuiError) as caught:
        load_input(str(path))
    assert caught.value.message.startswith(f"{path}: this is {title}")
    assert hint in caught.value.hint
    path.write_text(f"{text}\n{SUMMARY}")
    assert load_input(str(path))["summary"].height == 3


def test_logs_that_begin_like_the_output_of_other_tools_are_not_taken_for_it(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    for text in (
        "+----+\n| NVIDIA-SMI 535.1 |\n+----+\nepoch 1: loss 0.5\n",
        '{"model_type": "llama", "gpus": [{"index": 0}]}\n',
        "The memory.used of a GPU, as nvidia-smi prints it\n",
        "module trainer {\n",
    ):
        path.write_text(text)
        with pytest.raises(ProftuiError, match="no profile found; it begins with"):
            load_input(str(path))


@pytest.mark.parametrize(
    ("name", "title", "hint"),
    [
        ("host.kernel_stats.pb", "a TensorFlow profiler table", "xplane.pb"),
        ("module_0001.jit_step.HLO.pb", "an XLA compiler dump", "xplane.pb"),
        ("resnet.onnx", "an ONNX model", "trtexec --onnx"),
        ("rank0.et", "a Chakra execution trace", "export_chrome_trace"),
        ("run.qdstrm", "an Nsight Systems recording before its import", "QdstrmImporter -i"),
        ("run.ncu-proj", "an Nsight Compute project", "*.ncu-rep"),
    ],
)
@pytest.mark.parametrize("content", [b"\x08\x07\x12\x02xy" + bytes(9), b"<project/>", KERNEL_STATS])
def test_unknown_content_is_named_by_the_ending_of_its_name(
    name: str, title: str, hint: str, content: bytes, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ProftuiError) as caught:
        load_input(str(path))
    assert caught.value.message.startswith(f"{path}: this is {title}")
    assert hint in caught.value.hint
    path.write_text(SUMMARY)
    assert load_input(str(path))["summary"].height == 3


@pytest.mark.parametrize("text", [b"\n", b"{\n", b" ", b"x\n[0] |", b"a, ", b"RAM 1/1MB "])
@pytest.mark.parametrize("start", [b"", b"x"])
def test_the_kind_of_a_text_is_known_at_once(start: bytes, text: bytes) -> None:
    head = (start + text * (1 << 16))[: 1 << 16]
    start_s = time.process_time()
    assert text_kind(head) is None
    assert time.process_time() - start_s < 1


def test_loading_does_not_import_textual() -> None:
    """Nothing below the widgets may import textual or rich: commands without a screen must start fast."""
    code = (
        "import sys, tui.loaders.registry\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('textual', 'rich')])"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert completed.stdout.strip() == "[]"


def test_only_the_requested_format_of_a_mixed_text_is_read(tmp_path: Path) -> None:
    layer = "I1230 17:32:19.639946  6463 caffe.cpp:363]      conv1\tforward: 4.5 ms."
    path = tmp_path / "run.log"
    path.write_text(f"{layer}\n{SUMMARY}\n")
    rows = {
        name: (profile["layers"].height, profile["summary"].height)
        for name in (None, "caffe", "nvprof-text")
        for profile in (load_input(str(path), format_in=name),)
    }
    assert rows == {None: (1, 3), "caffe": (1, 0), "nvprof-text": (0, 3)}
    with pytest.raises(ProftuiError, match="no profile found; looked for Paleo layer tables;"):
        load_input(str(path), format_in="paleo")


def test_the_batch_of_a_capture_is_in_the_list_of_the_server(tmp_path: Path) -> None:
    details = tmp_path / "execution_details.json"
    capture = str(tmp_path / "graph.json")
    assert _capture_batch_text(capture) == ""
    for size, text in (("8", " for a batch of 8 (FULL)"), ("1e999", ""), ('"x"', ""), ("null", "")):
        details.write_text(f'[{{"file": "graph.json", "batch_size": {size}, "mode": "FULL"}}]')
        assert _capture_batch_text(capture) == text
    details.unlink()
    os.mkfifo(details)
    assert _capture_batch_text(capture) == ""


def test_issues_of_one_kind_are_listed_a_hundred_times_and_then_counted() -> None:
    collector = Collector("run.log")
    collector.open_session("toy", 1)
    for line in range(1, 5001):
        collector.issue("warning", line, f"row {line}", f"expected a time, found '{line}x' in column {line % 3}")
    collector.issue("info", 7000, "other", "this is not like them")
    issues = collector.profile()["issues"].sort("line")
    assert issues.height == 102
    assert issues["line"].to_list()[:101] == [*range(1, 101), 5000]
    assert issues.row(100, named=True) == {
        "session": 0,
        "line": 5000,
        "column": None,
        "severity": "warning",
        "text": "row 5000",
        "reason": "4,900 more issues like this; the last: expected a time, found '1x' in column 1",
    }


def test_a_folder_of_arrow_files_is_declined_by_name(tmp_path: Path) -> None:
    (tmp_path / "StringIds.arrow").write_bytes(b"\xff\xff\xff\xff")
    with pytest.raises(ProftuiError, match="this is an Nsight Systems export as Arrow files, not supported") as caught:
        load_input(str(tmp_path))
    assert caught.value.hint == "export a database: nsys export --type sqlite run.nsys-rep"
