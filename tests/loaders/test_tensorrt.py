"""TensorRT's layer profiles: trtexec's log in each of its layouts, and the JSON that it exports."""

from __future__ import annotations

import json
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.corpus import shared_file
from tests.loaders.damage import load_damaged
from tui.analysis.layers import layers
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

NAME_LAST = """\
[07/07/2026-02:11:43] [I] === Profile (100 iterations ) ===
[07/07/2026-02:11:43] [I]    Time(ms)     Avg.(ms)   Median(ms)   Time(%)   Layer
[07/07/2026-02:11:43] [I]       31.40       0.3140       0.3018      25.0   conv 1 + relu_2
[07/07/2026-02:11:43] [I]       94.20       0.9420       0.9098      75.0   {ForeignNode[a...b]} 7
[07/07/2026-02:11:43] [I]      125.60       1.2560       1.2116     100.0   Total
[07/07/2026-02:11:43] [I]
"""
NAME_FIRST = """\
some text of the program
[I] === Profile (10 iterations ) ===
[I]              Layer   Time (ms)   Avg. Time (ms)   Median Time (ms)   Time %
[I]      conv 1 + relu_2       3.14           0.3140             0.3018     25.0
[I]   {ForeignNode[a...b]} 7       9.42           0.9420             0.9098     75.0
[I]              Total      12.56           1.2560             1.2116    100.0
"""
SEVEN = """\
[I] === Profile (10 iterations ) ===
[I]              Layer   Time (ms)   Avg. Time (ms)   Time %
[I]      conv 1 + relu_2       3.14           0.31     25.0
[I]              Total      3.14           0.31    100.0
"""
EXPORTED = """\
[
  { "count" : 10 }
, { "name" : "conv", "timeMs" : 3.14, "averageMs" : 0.314, "medianMs" : 0.3018, "percentage" : 25 }
, { "name" : "shape", "timeMs" : 0, "averageMs" : 0, "medianMs" : 0, "percentage" : 0 }
, { "name" : "old", "timeMs" : 9.42, "averageMs" : 0.942, "percentage" : 75 }
]
"""


def read(text: str, name: str = "run.log") -> Profile:
    return load_input(name, stream=BytesIO(text.encode()))


def rows(profile: Profile) -> list[tuple[object, ...]]:
    return profile["layers"].select("layer", "time_ns", "median_ns", "total_ns", "calls").rows()


def test_a_log_with_the_name_last() -> None:
    profile = read(NAME_LAST)
    assert rows(profile) == [
        ("conv 1 + relu_2", 314_000, 301_800, 31_400_000, 100),
        ("{ForeignNode[a...b]} 7", 942_000, 909_800, 94_200_000, 100),
    ]
    assert profile["issues"].is_empty()


def test_a_log_with_the_name_first() -> None:
    assert rows(read(NAME_FIRST)) == [
        ("conv 1 + relu_2", 314_000, 301_800, 3_140_000, 10),
        ("{ForeignNode[a...b]} 7", 942_000, 909_800, 9_420_000, 10),
    ]


RUN = """\
&&&& RUNNING TensorRT.trtexec [TensorRT v101601] [b11] # trtexec --loadEngine=m.plan --dumpProfile
[07/07/2026-02:11:40] [I] === Device Information ===
[07/07/2026-02:11:40] [I] Available Devices:
[07/07/2026-02:11:40] [I] Selected Device: NVIDIA H100 PCIe
[07/07/2026-02:11:40] [I] Selected Device ID: 1
[07/07/2026-02:11:40] [I] Compute Capability: 9.0
[07/07/2026-02:11:40] [I] SMs: 114
[07/07/2026-02:11:40] [I] Device Global Memory: 81081 MiB
[07/07/2026-02:11:40] [I] Shared Memory per SM: 228 KiB
[07/07/2026-02:11:40] [I] TensorRT version: 10.16.1
"""
OLD_RUN = """&&&& RUNNING TensorRT.trtexec # ./trtexec --dumpProfile
[I] Selected Device: Xavier
[I] Compute Capability: 7.2
"""


def test_a_log_names_the_gpu_the_version_and_the_command() -> None:
    columns = ("session", "device", "name", "compute_capability", "sm_count", "memory_bytes")
    profile = read(RUN + NAME_LAST + "&&&& RUNNING TensorRT.trtexec # ./trtexec\n" + NAME_LAST)
    assert profile["devices"].select(*columns, "shared_memory_per_sm_bytes").rows() == [
        (0, 1, "NVIDIA H100 PCIe", "9.0", 114, 81081 << 20, 228 << 10)
    ]
    assert profile["sessions"].select("framework", "command").rows() == [
        ("TensorRT 10.16.1", "trtexec --loadEngine=m.plan --dumpProfile"),
        ("TensorRT", "./trtexec"),
    ]
    old = read(OLD_RUN + SEVEN)
    assert old["devices"].select(*columns).rows() == [(0, None, "Xavier", "7.2", None, None)]
    assert old["sessions"].select("framework", "command").rows() == [("TensorRT", "./trtexec --dumpProfile")]
    with pytest.raises(ProftuiError):
        read(RUN)


def test_a_log_of_version_7() -> None:
    assert rows(read(SEVEN)) == [("conv 1 + relu_2", 310_000, None, 3_140_000, 10)]


def test_lines_wrapped_by_pasting_are_joined() -> None:
    broken = NAME_FIRST.replace("Time %\n", "Time\n%\n").replace("100.0\n", "100.\n0\n").replace("75.0\n", "75.\n0\n")
    assert rows(read(broken)) == rows(read(NAME_FIRST))
    wrapped = NAME_FIRST.replace("relu_2       3.14", "relu_2\n  3.14").replace("0.9098     75.0", "0.9098\n75.0")
    assert rows(read(wrapped)) == rows(read(NAME_FIRST))


def test_a_layer_in_a_loop_has_more_times_than_iterations() -> None:
    text = NAME_LAST.replace("94.20       0.9420", "94.20       0.0942").replace(
        "125.60       1.2560", "125.60       0.4082"
    )
    assert [row[:2] for row in rows(read(text))] == [("conv 1 + relu_2", 314_000), ("{ForeignNode[a...b]} 7", 94_200)]
    assert read(text)["issues"].is_empty()


def test_two_profiles_are_two_sessions() -> None:
    profile = read(NAME_LAST + NAME_FIRST)
    assert profile["layers"]["session"].to_list() == [0, 0, 1, 1]


def test_a_missing_row_is_reported() -> None:
    lines = [line for line in NAME_LAST.splitlines(keepends=True) if "conv 1" not in line]
    assert read("".join(lines))["issues"]["reason"].to_list() == [
        "the layers add up to 94.20 ms, the table says 125.60 ms: rows may be missing"
    ]


def test_a_table_without_its_total_is_reported() -> None:
    assert "ends without a total" in read(NAME_LAST[: NAME_LAST.index("125.60")])["issues"]["reason"][0]


def test_the_exported_json() -> None:
    profile = read(EXPORTED, "profile.json")
    assert rows(profile) == [
        ("conv", 314_000, 301_800, 3_140_000, 10),
        ("shape", 0, 0, 0, 10),
        ("old", 942_000, None, 9_420_000, 10),
    ]
    assert layers(profile).select("measured_ns", pl.col("time_pct").round(6)).rows() == [
        (314_000, 25),
        (0, 0),
        (942_000, 75),
    ]


def test_the_exported_json_of_a_run_without_gpu_time() -> None:
    layer = '{ "name" : "a: nan, b", "timeMs" : 0, "averageMs" : 0, "medianMs" : 0, "percentage" : -nan }'
    assert rows(read(f'[ {{ "count" : 10 }}\n, {layer}\n]', "profile.json")) == [("a: nan, b", 0, 0, 0, 10)]


@pytest.mark.parametrize(
    "text",
    [
        f"# Results\n\n```json\n{EXPORTED}```\nFast.\n",
        "The layers:\n\n" + "".join(f"> {line}\n" for line in EXPORTED.splitlines()),
        f"the layers\n{' '.join(EXPORTED.split())}\n",
    ],
    ids=["fence", "quote", "one line"],
)
def test_the_exported_json_within_a_text(text: str) -> None:
    profile = read(text, "notes.md")
    assert rows(profile) == [
        ("conv", 314_000, 301_800, 3_140_000, 10),
        ("shape", 0, 0, 0, 10),
        ("old", 942_000, None, 9_420_000, 10),
    ]
    assert profile["issues"].is_empty()


def test_elements_of_the_exported_json_without_a_name_are_counted() -> None:
    text = EXPORTED.replace('"name" : "shape", ', "").replace('"name" : "old", ', "")
    profile = read(text, "profile.json")
    assert rows(profile) == [("conv", 314_000, 301_800, 3_140_000, 10)]
    assert profile["issues"].select("severity", "reason").rows() == [
        ("warning", "2 elements without a name or a time skipped")
    ]


@pytest.mark.parametrize("name", ["profile.json", "notes.md"])
def test_the_exported_json_without_its_first_element(name: str) -> None:
    text = EXPORTED.replace('{ "count" : 10 }\n, ', "")
    text = f"some notes\n{text}" if name == "notes.md" else text
    assert rows(read(text, name)) == [
        ("conv", 314_000, 301_800, 3_140_000, None),
        ("shape", 0, 0, 0, None),
        ("old", 942_000, None, 9_420_000, None),
    ]


def test_a_damaged_layer_in_a_text_affects_only_itself() -> None:
    damaged = EXPORTED.replace('"shape", "timeMs" : 0', '"shape", "timeMs" : ')
    profile = read(f"notes\n{damaged}", "notes.md")
    assert profile["layers"].select("session", "layer", "line").rows() == [(0, "conv", 4), (0, "old", 6)]
    assert profile["issues"].select("severity", "line").rows() == [("warning", 5)]


def test_two_lists_in_a_text_are_two_sessions() -> None:
    log = f"&&&& RUNNING TensorRT.trtexec # trtexec --onnx=a.onnx\n{EXPORTED}\n{EXPORTED}"
    profile = read(log)
    assert profile["sessions"].select("session", "command").rows()[0] == (0, "trtexec --onnx=a.onnx")
    assert profile["layers"].group_by("session").len().sort("session").rows() == [(0, 3), (1, 3)]


@pytest.mark.parametrize("text", ['[{"count": 3}', '[{"count": 3}]', '[{"count": 3}, {"name": 1, "timeMs": 2}]'])
def test_json_without_layers_is_declined(text: str) -> None:
    with pytest.raises(ProftuiError):
        read(text, "profile.json")


@pytest.mark.parametrize(
    "name",
    [
        "cookbook_trtexec_result_05.log",
        "qat_resnet18.log.gz",
        "detr_profile.json",
        "trex_a100_resnet_fp16.profile.json",
        "trex_mobilenet_qat.profile.json",
    ],
)
def test_real_profiles_add_up(name: str) -> None:
    (expected,) = json.loads(Path(shared_file("corpus2/expected.json")).read_text())["tensorrt"][name]["profiles"]
    layers = load_input(shared_file(f"corpus2/tensorrt/{name}"))["layers"]
    assert layers.height == expected["layers"]
    assert set(layers["calls"]) == {expected["iterations"]}
    total = Decimal(expected.get("sum_time_ms") or expected["total_timeMs"])
    assert abs(layers["total_ns"].sum() - int(total * 1_000_000)) <= layers.height


@pytest.mark.parametrize("text", [NAME_LAST, NAME_FIRST, EXPORTED], ids=["name last", "name first", "exported"])
def test_damaged_profiles_are_read_or_declined(text: str) -> None:
    for profile in load_damaged(text, 120, at_least=0.05):
        assert (profile["layers"]["time_ns"].drop_nulls() >= 0).all()
