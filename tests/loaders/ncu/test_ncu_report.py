"""Reports of Nsight Compute: a small one made here, and real ones against NVIDIA's own reader."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpus import shared_file
from tui.loaders.registry import load_one
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes((value & 127 | 128,)), value >> 7
    return out + bytes((value,))


def integer(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def part(number: int, content: bytes | str) -> bytes:
    data = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(data)) + data


def double(number: int, value: float) -> bytes:
    return varint(number << 3 | 1) + struct.pack("<d", value)


def sized(content: bytes) -> bytes:
    return struct.pack("<I", len(content)) + content


def shape(x: int, y: int, z: int) -> bytes:
    return integer(1, x) + integer(2, y) + integer(3, z)


NAMES = [
    "gpu__time_duration.sum",
    "launch__grid_size",
    "launch__registers_per_thread",
    "sm__throughput.avg.pct_of_peak",
]


def result(kernel: str, grid: tuple[int, int, int], duration_ns: float, blocks: int) -> bytes:
    values = [double(3, duration_ns), integer(5, blocks), integer(4, 32), double(3, 55.5)]
    metrics = b"".join(part(13, integer(1, at) + part(2, value)) for at, value in enumerate(values))
    message = part(1, part(1, "Increase the number of blocks.") + integer(2, 4)) + part(
        10, integer(1, 1) + double(2, 12.5)
    )
    rule = part(1, "LaunchConfig") + part(2, "Launch Configuration") + part(3, part(1, message)) + part(4, "Launch")
    section = part(1, "SpeedOfLight") + part(2, "GPU Speed Of Light") + part(4, part(2, part(1, NAMES[3])))
    return (
        integer(1, 77)
        + part(6, kernel)
        + part(10, shape(*grid))
        + part(11, shape(128, 1, 1))
        + metrics
        + part(17, section)
        + part(19, rule)
    )


def block(header: bytes, *entries: bytes) -> bytes:
    payload = b"".join(map(sized, entries))
    return sized(header + integer(5, len(payload))) + payload


def made_report() -> bytes:
    attributes = {"device__attribute_multiprocessor_count": 40, "device__attribute_compute_capability_major": 7}
    attributes["device__attribute_compute_capability_minor"] = 5
    device = integer(1, 0) + part(2, "Tesla T4")
    device += b"".join(part(3, part(1, name) + part(2, integer(5, value))) for name, value in attributes.items())
    texts = b"".join(part(1, name) for name in NAMES)
    results = integer(1, 1) + integer(2, 2) + part(4, texts)
    return (
        b"NVR\0"
        + sized(integer(1, 7))
        + block(results, b"a source", result("f", (1280, 1, 1), 1000, 10), result("g", (4, 2, 1), 500, 8))
        + block(part(3, part(3, part(5, "box")) + part(6, device)))
    )


REPORT = made_report()


def read(data: bytes) -> Profile:
    return load_one("x.ncu-rep", stream=io.BytesIO(data))


def test_a_report() -> None:
    profile = read(REPORT)
    # The first grid is recorded in threads: its metric says ten blocks.
    assert profile["activities"].select(
        pl.col("name").cast(str), "duration_ns", "grid_x", "grid_y", "block_x", "registers"
    ).rows() == [("f", 1000, 10, 1, 128, 32), ("g", 500, 4, 2, 128, 32)]
    assert profile["devices"].select("name", "compute_capability", "sm_count").rows() == [("Tesla T4", "7.5", 40)]
    metrics = profile["metrics"].filter(pl.col("metric").cast(str) == NAMES[3])
    assert metrics.select("avg", pl.col("unit", "description").cast(str)).row(0) == (55.5, "%", "GPU Speed Of Light")
    finding = profile["tool_findings"].row(0, named=True)
    assert finding["severity"] == "warning"
    assert "Increase the number of blocks." in finding["recommendation"]
    assert "12.5 %" in finding["recommendation"]
    assert profile["sessions"].select("pid", "host", "tool").rows() == [(77, "box", "Nsight Compute")]


def test_a_report_that_is_cut_keeps_what_is_whole() -> None:
    second = REPORT.index(sized(result("g", (4, 2, 1), 500, 8)))
    profile = read(REPORT[: second + 20])
    assert profile["activities"]["name"].cast(str).to_list() == ["f"]
    assert "the report is damaged" in profile["issues"].filter(severity="error")["reason"][0]


def test_a_result_without_metrics_is_no_launch() -> None:
    bare = integer(1, 77) + part(6, "f") + part(10, shape(1, 1, 1)) + part(11, shape(128, 1, 1))
    profile = read(b"NVR\0" + sized(integer(1, 7)) + block(integer(1, 1) + integer(2, 1), b"a source", bare))
    assert profile["sessions"]["pid"].to_list() == [77]
    assert profile["activities"].is_empty()


@pytest.mark.parametrize("data", [b"NVR\0", b"NVR\0" + sized(integer(1, 7)), b"NVR\0" + b"\xff" * 40])
def test_a_report_without_results_is_declined(data: bytes) -> None:
    with pytest.raises(ProftuiError, match="a report of Nsight Compute"):
        read(data)


@pytest.mark.parametrize(
    "name",
    [
        "mlp_2025.ncu-rep",
        "mojo_2025.ncu-rep",
        "pi_2020_small.ncu-rep",
        "ray_tracer_2021.ncu-rep",
        "rms_norm_triton.ncu-rep",
        "sgemm_2024.ncu-rep",
        "vec_add.ncu-rep",
    ],
)
def test_real_reports_agree_with_the_readers_of_nvidia(name: str) -> None:
    expected = json.loads(Path(shared_file("corpus2/expected.json")).read_text())["ncu_rep"][name]
    profile = load_one(shared_file(f"corpus2/ncu_rep/{name}"))
    activities = profile["activities"]
    assert (activities.height, activities["duration_ns"].sum()) == (expected["results"], expected["duration_total"])
    metrics = profile["metrics"].filter(pl.col("kernel") == pl.col("kernel").first())
    found = dict(metrics.select(pl.col("metric").cast(str), "avg").unique("metric", keep="first").iter_rows())
    for metric, value in expected["first"].items():
        if value is not None:
            assert found[metric] == pytest.approx(value, rel=1e-12), metric


@given(st.data())
def test_damaged_reports_are_read_or_declined(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(REPORT)))
    end = data.draw(st.integers(at, min(len(REPORT), at + 8)))
    damaged = REPORT[:at] + data.draw(st.binary(max_size=8)) + REPORT[end:]
    try:
        profile = read(b"NVR\0" + damaged[4:])
    except ProftuiError:
        return
    assert (profile["activities"]["duration_ns"].drop_nulls() >= 0).all()
