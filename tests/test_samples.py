"""Every sample log has exactly its known figures."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.profiles import load_one
from tui.loaders.registry import recognized_format

if TYPE_CHECKING:
    from tui.model.profile import Profile

SAMPLES = Path(__file__).parents[1] / "sample_logs"


def load_sample(name: str) -> Profile:
    return load_one(str(SAMPLES / name))


def summary_totals(profile: Profile) -> dict[str, tuple[int, int, int]]:
    """Return rows, calls and total of each section."""
    rows = profile["summary"].group_by("section").agg(pl.len(), pl.col("calls", "total_ns").sum()).rows()
    return {section: (count, calls, total_ns) for section, count, calls, total_ns in rows}


def activities(profile: Profile) -> dict[str, tuple[int, int]]:
    """Return rows and time of each kind."""
    rows = profile["activities"].group_by("kind").agg(pl.len(), pl.col("duration_ns").sum()).rows()
    return {kind: (count, duration_ns) for kind, count, duration_ns in rows}


def issue_reasons(profile: Profile) -> list[tuple[str, str]]:
    return profile["issues"].filter(pl.col("severity") != "info").select("severity", "reason").rows()


def test_the_readme_lists_every_sample() -> None:
    readme = (SAMPLES / "README.md").read_text(encoding="utf-8")

    assert [path.name for path in SAMPLES.iterdir() if path.name != "README.md" and f"`{path.name}" not in readme] == []


def test_resnet50_training() -> None:
    profile = load_sample("resnet50_training.nvprof.log")

    assert profile["sessions"].select("format", "pid").rows() == [("nvprof-text", None)]
    assert profile["activities"].height == 4630
    assert profile["activities"]["duration_ns"].sum() == 80_128_393
    assert (profile["api_calls"].height, profile["api_calls"]["duration_ns"].sum()) == (4106, 26_025_911)
    assert issue_reasons(profile) == []


def test_every_activity_has_the_name_at_the_end_of_its_line() -> None:
    path = SAMPLES / "resnet50_training.nvprof.log"
    lines = path.read_text(encoding="utf-8").split("\n")

    activities = load_one(str(path))["activities"].select("line", pl.col("name").cast(pl.String))

    differing = [
        line for line, name in activities.rows() if re.sub(r" \[\d+\]$", "", lines[line - 1])[-len(name) :] != name
    ]
    assert differing == []


def test_the_csv_of_the_same_run_agrees_within_rounding() -> None:
    text, csv = load_sample("resnet50_training.nvprof.log"), load_sample("resnet50_training.csv")

    assert (csv["activities"].height, csv["activities"]["duration_ns"].sum()) == (4630, 80_128_345)
    assert {kind: rows for kind, (rows, _) in activities(csv).items()} == {
        kind: rows for kind, (rows, _) in activities(text).items()
    }
    assert issue_reasons(csv) == []


def test_the_pytorch_trace_of_the_same_run_has_its_steps_and_ops() -> None:
    path = SAMPLES / "resnet50_training.pt.trace.json.gz"
    with gzip.open(path) as file:
        events = json.load(file)["traceEvents"]
    profile = load_one(str(path))

    assert sum(event.get("cat") == "kernel" for event in events) == 4453
    assert activities(profile) == {"kernel": (4453, 76_368_165), "memcpy": (10, 3_492_086), "memset": (167, 268_094)}
    assert profile["ops"].height == sum(event.get("cat") == "cpu_op" for event in events) == 18_055
    assert profile["ranges"]["iteration"].drop_nulls().to_list() == [3, 4, 5, 6, 7]
    assert issue_reasons(profile) == []


def test_two_ranks_in_a_folder() -> None:
    profile = load_sample("ddp_ranks")

    assert profile["sessions"].select("rank", "world_size", "pid").rows() == [(0, 2, 600), (1, 2, 601)]
    work = profile["activities"].group_by("session").agg(pl.len(), pl.col("duration_ns").sum()).sort("session")
    assert work.rows() == [(0, 2395, 112_912_672), (1, 2899, 116_280_994)]
    assert issue_reasons(profile) == []


def test_mlp_with_modules_and_stacks() -> None:
    profile = load_sample("mlp_modules.pt.trace.json.gz")

    assert activities(profile) == {"kernel": (75, 214_053), "memcpy": (9, 11_487), "memset": (6, 4_641)}
    ops = profile["ops"].filter(pl.col("name").cast(pl.String) == "aten::linear")
    assert ops["group"].cast(pl.String).unique().sort().to_list() == [
        "Sequential_0/Linear_0",
        "Sequential_0/Linear_1",
    ]
    assert ops["stack"].null_count() == 0
    assert issue_reasons(profile) == []


def test_gpt_cudagraph() -> None:
    profile = load_sample("gpt_cudagraph.nsys.sqlite.gz")

    assert activities(profile) == {
        "graph": (120, 25_745_131),
        "kernel": (205, 795_586),
        "memcpy": (54, 47_536_553),
        "memset": (14, 11_136),
    }
    assert issue_reasons(profile) == []


def test_gemm_under_nsight_compute() -> None:
    profile = load_sample("gemm.ncu.csv")

    assert activities(profile) == {"kernel": (11, 169_664)}
    assert profile["devices"].select("compute_capability", "sm_count").rows() == [("9.0", 132)]
    launches = profile["activities"].select(pl.col("short_name").cast(pl.String), "uses_tensor_core").unique().rows()
    assert {name: uses for name, uses in launches if name.startswith("nvjet") is not uses} == {}
    assert issue_reasons(profile) == []
    assert profile["issues"].select("severity", "line").rows() == [("info", 1), ("info", 6)]


def test_jax_train_step() -> None:
    profile = load_sample("jax_train_step.trace.json.gz")

    assert activities(profile) == {"kernel": (84, 263_412), "memcpy": (17, 279_136), "memset": (4, 4_672)}
    assert profile["ranges"]["iteration"].drop_nulls().n_unique() == 4
    assert issue_reasons(profile) == []


def test_gpt_summary() -> None:
    profile = load_sample("gpt_summary.nvprof.log")

    assert summary_totals(profile) == {"gpu": (13, 4901, 17_401_660), "api": (1, 1, 16_255_000)}
    assert issue_reasons(profile) == []


def test_caffe_conv1() -> None:
    profile = load_sample("caffe_conv1.nvprof.log")

    assert profile["sessions"].select("format", "pid", "command", "framework").rows() == [
        ("nvprof-text", 6463, "caffe time --model=models/conv1.prototxt --iterations=1 --gpu 0", "Caffe")
    ]
    assert profile["activities"].height == 32
    assert profile["activities"]["duration_ns"].sum() == 753_580_086
    assert profile["devices"].select("device", "name").rows() == [(0, "Tesla K40c")]
    assert profile["layers"].select("layer", "op_type", "phase", "params", "time_ns").rows() == [
        ("conv1", "Convolution", "forward", 34_944, 92_176_400),
        ("conv1", "Convolution", "backward", 34_944, 266_632_000),
    ]
    assert issue_reasons(profile) == []


def test_paleo_vgg16() -> None:
    profile = load_sample("paleo_vgg16.txt")

    layers = profile["layers"]
    assert layers.height == 144
    assert layers.group_by("phase", "executor", maintain_order=True).agg(
        pl.col("time_ns").count().alias("run"), pl.col("time_ns", "predicted_ns").sum()
    ).rows() == [
        ("forward", "cudnn", 16, 486_878_968, 435_563_226),
        ("forward", "tensorflow", 23, 639_738_833, 345_831_148),
        ("backward data", "cudnn", 15, 702_324_023, 714_626_359),
        ("backward data", "tensorflow", 15, 846_026_521, 444_951_186),
        ("backward filter", "cudnn", 16, 624_569_947, 460_282_032),
        ("backward filter", "tensorflow", 16, 864_017_573, 340_270_406),
    ]
    assert issue_reasons(profile) == []


def test_tracking_four_runs() -> None:
    profile = load_sample("tracking_four_runs.nvprof.log")

    assert profile["sessions"].select("pid", "command").rows() == [
        (14660, "python track.py --detect every-frame clip.avi"),
        (14932, "python track.py --detect batch clip.avi"),
        (18196, "python track.py --detect batch clip.avi"),
        (7717, "python track.py --detect every-2s clip.avi"),
    ]
    assert summary_totals(profile) == {"gpu": (355, 22_870, 28_872_402_525), "api": (164, 199_686, 113_133_662_658)}
    assert issue_reasons(profile) == []


def test_cnn_report_wrapped() -> None:
    profile = load_sample("cnn_report_wrapped.md")

    assert profile["sessions"]["pid"].to_list() == [308, 310, 314]
    assert summary_totals(profile)["gpu"] == (36, 111, 2_723_649_313)
    # No two names that were put back together differ in a blank before the parameters alone.
    kernels = profile["summary"].filter(~pl.col("name").cast(pl.String).str.starts_with("["), section="gpu")["name"]
    assert (kernels.n_unique(), kernels.cast(pl.String).str.contains("> (", literal=True).any()) == (13, False)


def test_metrics_and_events() -> None:
    profile = load_sample("metrics_and_events.nvprof.log")

    assert profile["sessions"].select("pid", "command").rows() == [
        (4211, "./vectors --repeat 4"),
        (4302, "./vectors --csv"),
        (4377, "./vectors --csv --each-launch"),
    ]
    metrics = profile["metrics"]
    assert metrics.group_by("session", maintain_order=True).len().rows() == [(0, 12), (1, 3), (2, 4)]
    assert metrics.filter(metric="dram_utilization").select("avg", "unit").rows() == [(9.0, "level"), (4.0, "level")]
    assert metrics.filter(metric="divergent_branch").select("avg", "total").rows() == [(512.0, 2049.0)]
    assert issue_reasons(profile) == [
        ("warning", "this metric row is interrupted by output of process 4302: row skipped"),
        (
            "warning",
            "inst_executed is <OVERFLOW> here: the counter overflowed, shown as unknown",
        ),
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir() if path.suffix in (".log", ".csv")))
def test_every_row_has_its_source_line(name: str) -> None:
    profile = load_sample(name)

    for frame in ("activities", "api_calls", "summary", "metrics", "layers"):
        lines = profile[frame]["line"]
        assert lines.null_count() == 0
        assert lines.is_empty() or lines.min() > 0


@pytest.mark.parametrize(
    ("name", "format_name", "rows"),
    [
        ("gemm.ncu-rep", "ncu-report", {"activities": 2, "metrics": 8, "tool_findings": 2}),
        ("hip_app.pftrace", "perfetto", {"activities": 2, "api_calls": 1}),
        ("hip_app_results.json", "rocprofv3-json", {"activities": 2, "api_calls": 1, "ops": 1, "metrics": 1}),
        ("jax_step.xplane.pb", "xplane", {"activities": 3, "api_calls": 2, "ops": 1}),
        ("kernel_details.csv", "ascend-csv", {"activities": 2, "ranges": 1}),
        ("key_averages.txt", "torch-table", {"summary": 6}),
        ("matmul.hatchet", "proton", {"summary": 5, "metrics": 4}),
        ("memory_snapshot.pickle", "torch-memory-snapshot", {"memory_events": 9, "memory_blocks": 8}),
        ("trtexec.log", "tensorrt-log", {"layers": 2}),
        ("trtexec_profile.json", "tensorrt-json", {"layers": 3}),
        ("unitrace.json", "unitrace-json", {"activities": 3, "api_calls": 2, "ranges": 2}),
        ("unitrace.log", "unitrace", {"activities": 3, "summary": 3, "metrics": 4}),
    ],
)
def test_small_samples_of_further_formats(name: str, format_name: str, rows: dict[str, int]) -> None:
    profile = load_sample(f"formats/{name}")

    assert profile["sessions"]["format"].unique().to_list() == [format_name]
    assert recognized_format(str(SAMPLES / "formats" / name)) == format_name
    assert {frame: profile[frame].height for frame in rows} == rows


def test_every_sample_of_further_formats_is_tested() -> None:
    parameters = test_small_samples_of_further_formats.pytestmark[0].args[1]

    assert sorted(path.name for path in (SAMPLES / "formats").iterdir()) == [name for name, _, _ in parameters]
