"""Paleo's tables: their rows, their sums, and damage."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.loaders.registry import load_input

if TYPE_CHECKING:
    from tui.model.profile import Profile

HEADER = "layer\tours\tcudnn\ttensorflow\tours_alg\tcu_alg"

SMALL = "\n".join(
    (
        "A summary of static characteristics of network.",
        "  LAYER\tOUTPUTS",
        "  data\t[16, 28, 28, 1]  ",
        "  conv1\t[16, 28, 28, 8]  Filters: [5, 5, 1, 8]  Pad: SAME (2, 2) Stride: 1, 1 Params: 208",
        "  pool1\t[16, 14, 14, 8]  Kernel: [2, 2]  Stride: [2, 2]",
        "  drop1\t[16, 14, 14, 8]  Keep prob: 0.500000",
        "  fc2\t[16, 1, 1, 10]  Filters: [14, 14, 8, 10]  Pad: VALID (0, 0) Stride: 1, 1 Params: 15,690",
        "  softmax\t[16, 10]  Classes: 10",
        "Number of params: 15,898 (63,592 Bytes)",
        "Activation: 1,000 Bytes",
        "",
        "Fullpass profiling with Tensorflow. Customize batch size = None",
        "Forward time\t 1.25",
        "Backward time\t 2.5",
        "",
        "Network: nets/small.json",
        "Direction: backward",
        "Gradient wrt: filter",
        HEADER,
        "conv1\t0.5\t0.750001\t0\tBWD_FILTER_ALGO_FFT 2420.113408 MB\tBWD_FILTER_ALGO_FFT",
        "pool1\t0.125\t0\t0\t\t",
        "drop1\t0.25\t0\t0\t\t",
        "fc2\t1.0\t0.0\t0\tGEMM 1x1\tBWD_FILTER_ALGO_1",
        "softmax\t0\t0\t0\t\t",
        "Sum\t1.875\t0.750001\t0",
        "",
    )
)


def read(text: str) -> Profile:
    return load_input("-", stream=BytesIO(text.encode()))


def table(*rows: str, above: str = "Network: n\nDirection: forward\n") -> str:
    return above + "\n".join((HEADER, *rows, ""))


def reasons(profile: Profile, severity: str) -> list[str]:
    return profile["issues"].filter(pl.col("severity") == severity)["reason"].to_list()


def test_a_layer_has_all_values_of_its_line_and_the_summary() -> None:
    first = read(SMALL)["layers"].row(0, named=True)

    assert first == {
        "session": 0,
        "model": "nets/small.json",
        "position": 0,
        "layer": "conv1",
        "op_type": "conv2d",
        "phase": "backward filter",
        "output_shape": "16x28x28x8",
        "filter_shape": "5x5x1x8",
        "params": 208,
        "executor": "cudnn",
        "algorithm": "BWD_FILTER_ALGO_FFT",
        "workspace_bytes": 2_420_113_408,
        "time_ns": 750_001,
        **dict.fromkeys(("median_ns", "total_ns", "calls")),
        "measured": True,
        "predicted_ns": 500_000,
        "predicted_algorithm": "BWD_FILTER_ALGO_FFT",
        "line": 20,
    }


def test_layer_types_are_from_the_summary() -> None:
    assert read(SMALL)["layers"]["op_type"].to_list() == ["conv2d", "pool2d", "dropout", "conv2d", "softmax"]


def test_a_bare_zero_was_not_run_and_a_float_zero_was() -> None:
    layers = read(SMALL)["layers"]

    assert layers["time_ns"].to_list() == [750_001, None, None, 0, None]
    assert layers["predicted_ns"].to_list() == [500_000, 125_000, 250_000, 1_000_000, None]


def test_an_executor_that_ran_nothing_has_no_rows() -> None:
    assert read(SMALL)["layers"]["executor"].unique().to_list() == ["cudnn"]


def test_gemm_has_no_workspace_and_a_disabled_heuristic_no_algorithm() -> None:
    layers = read(SMALL + table("a\t1.5\t0\t2.5\tHeuristic disabled.\t", "Sum\t1.5\t0\t2.5"))["layers"]

    assert layers.filter(layer="fc2").select("predicted_algorithm", "workspace_bytes").row(0) == ("GEMM 1x1", None)
    assert layers.filter(layer="a").select("executor", "predicted_algorithm", "algorithm").row(0) == (
        "tensorflow",
        None,
        None,
    )


def test_the_full_pass_is_reported_but_is_not_a_layer() -> None:
    profile = read(SMALL)

    assert profile["layers"].height == 5
    assert reasons(profile, "info") == [
        "full pass with TensorFlow: forward 1.25 ms, backward 2.5 ms; not part of any layer's time"
    ]
    assert reasons(profile, "warning") == []


def test_the_session_begins_with_the_summary() -> None:
    assert read("notes\n" + SMALL)["sessions"].select("format", "first_line", "last_line").row(0) == ("paleo", 2, 25)


def test_predictions_alone_are_layers() -> None:
    layers = read(table("a\t1.5\t0\t0\t\t", "b\t0\t0\t0\t\t", "Sum\t1.5\t0\t0"))["layers"]

    assert layers.select("layer", "executor", "measured", "time_ns", "predicted_ns").rows() == [
        ("a", "paleo", False, 1_500_000, None),
        ("b", "paleo", False, None, None),
    ]


def test_two_executors_in_one_table_give_a_row_each() -> None:
    layers = read(table("a\t1.5\t2.5\t3.5\t\tX", "Sum\t1.5\t2.5\t3.5"))["layers"]

    assert layers.select("executor", "algorithm", "time_ns", "predicted_ns").rows() == [
        ("cudnn", "X", 2_500_000, 1_500_000),
        ("tensorflow", None, 3_500_000, 1_500_000),
    ]


def test_tabs_replaced_by_blanks_read_the_same() -> None:
    blanks = "\n".join(" ".join(line.split("\t")) if "\t" in line[1:] else line for line in SMALL.split("\n"))

    assert read(blanks)["layers"].equals(read(SMALL)["layers"])


def test_an_indented_report_reads_the_same() -> None:
    indented = read("\n".join(f"    {line}" for line in SMALL.split("\n")))
    assert indented["layers"].equals(read(SMALL)["layers"])
    assert indented["layers"].height > 0


def test_a_sum_that_differs_is_a_warning() -> None:
    text = table("a\t1.00000000001\t0\t2.50001\t\t", "b\t1.0\t0\t2.0\t\t", "Sum\t2.00000000001\t0\t4.5001")

    assert reasons(read(text), "warning") == ["the layers above add up to 4.50001 ms of tensorflow, not to 4.5001 ms"]


def test_the_total_of_parameters_is_checked() -> None:
    contradictory = SMALL.replace("15,898 (", "15,899 (")

    assert reasons(read(contradictory), "warning") == [
        "the layers above have 15,898 parameters, the summary says 15,899"
    ]


def test_a_deconvolution_has_no_padding_in_the_summary() -> None:
    text = SMALL.replace("Pad: SAME (2, 2) Stride: 1, 1 Params: 208", "Stride: [2, 2]  Params: 208")

    assert read(text)["layers"].select("op_type", "params").row(0) == ("deconv2d", 208)


def test_impossible_numbers_of_the_summary_are_reported() -> None:
    digits = "9" * 30
    text = SMALL.replace("Params: 15,690", f"Params: {digits}").replace("params: 15,898", f"params: {digits}")

    profile = read(text)
    assert profile["layers"]["time_ns"].to_list() == read(SMALL)["layers"]["time_ns"].to_list()
    assert reasons(profile, "warning") == [f"{digits} is too large: this line of the summary is skipped"] * 2


def test_a_sum_that_is_no_number_is_a_warning() -> None:
    text = table("a\t1.5\t0\t2.5\t\t", "Sum\t1.5\tx\t2.5")

    assert reasons(read(text), "warning") == ["the total of cudnn is not a number"]


def test_a_summary_of_another_network_adds_nothing_to_a_table() -> None:
    layers = read(SMALL + table("conv1\t1.5\t0\t2.5\t\t", "Sum\t1.5\t0\t2.5"))["layers"]

    assert layers.filter(model="n").select("op_type", "output_shape", "params").row(0) == (None, None, None)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("b\t1.x\t2.5\t0\t\t", "expected a time in milliseconds, found '1.x': this layer is skipped"),
        ("b\t1.5\t1e300\t0\t\t", "1e300 ms is an implausible time for a layer: this layer is skipped"),
        ("b\t1.5", "expected a layer with three times in this table: line skipped"),
        (
            "b\t1.5\t2.5\t0\twhat is this\t",
            "expected the algorithms ours_alg and cu_alg, found 'what is this': this layer is skipped",
        ),
    ],
)
def test_a_damaged_line_affects_only_itself(damage: str, reason: str) -> None:
    profile = read(table("a\t1.5\t2.5\t0\t\tX", damage, "c\t1.5\t3.5\t0\t\tX", "Sum\t4.5\t8.5\t0"))

    assert profile["layers"].select("layer", "time_ns", "line").rows() == [("a", 2_500_000, 4), ("c", 3_500_000, 6)]
    assert profile["issues"].select("line", "reason").rows() == [(5, reason)]


def test_a_table_without_its_sums_is_reported_as_truncated() -> None:
    profile = read(table("a\t1.5\t2.5\t0\t\tX"))

    assert profile["layers"]["time_ns"].to_list() == [2_500_000]
    assert reasons(profile, "warning") == ["the table ends without totals: layers may be missing"]


def test_text_after_a_truncated_table_is_read() -> None:
    text = table("a\t1.5\t2.5\t0\t\tX") + table("b\t1.5\t2.5\t0\t\tX", "Sum\t1.5\t2.5\t0")

    assert read(text)["layers"]["layer"].to_list() == ["a", "b"]


millisecond = st.integers(0, 10**9).map(lambda value: str(Decimal(value) / 10**6) if value else "0")


@given(st.lists(st.tuples(millisecond, millisecond), min_size=1, max_size=30))
def test_printed_tables_are_read_back(times: list[tuple[str, str]]) -> None:
    rows = [f"l{index}\t{paleo_time}\t0\t{tensorflow}\t\t" for index, (paleo_time, tensorflow) in enumerate(times)]
    sums = [sum((Decimal(row[column]) for row in times), Decimal(0)) for column in (0, 1)]

    profile = read(table(*rows, f"Sum\t{sums[0]}\t0\t{sums[1]}"))

    layers = profile["layers"]
    assert profile["issues"].is_empty()
    assert layers["layer"].to_list() == [f"l{index}" for index in range(len(times))]
    ran = any(tensorflow != "0" for _, tensorflow in times)
    predicted, measured = ("predicted_ns", "time_ns") if ran else ("time_ns", "predicted_ns")
    assert layers[predicted].to_list() == [int(Decimal(paleo_time) * 10**6) or None for paleo_time, _ in times]
    assert layers[measured].to_list() == [int(Decimal(tensorflow) * 10**6) or None for _, tensorflow in times]
    assert layers[measured].sum() == int(sums[1] * 10**6)


@given(st.integers(0, len(SMALL)), st.text(max_size=40), st.integers(0, 60))
def test_damage_does_not_stop_reading(position: int, inserted: str, removed: int) -> None:
    layers = read(
        SMALL[:position] + inserted + SMALL[position + removed :] + table("z\t1.5\t2.5\t0\t\tX", "Sum\t1.5\t2.5\t0")
    )

    assert layers["layers"].filter(layer="z")["time_ns"].to_list() == [2_500_000]


def test_a_report_of_vgg16(corpus: Callable[[str], str]) -> None:
    """Every part of a real report adds up to the printed sums, to their last digit."""
    profile = load_input(corpus("seeds/001_c245d485069c24cb.txt"))

    layers = profile["layers"]
    assert layers.height == 144
    assert layers["params"].sum() == 6 * 138_357_544
    sums = layers.group_by("phase", "executor", maintain_order=True).agg(pl.col("time_ns", "predicted_ns").sum())
    printed = [
        ("forward", "cudnn", "486.878968201", "435.563228905"),
        ("forward", "tensorflow", "639.73883152", "345.831147545"),
        ("backward data", "cudnn", "702.324022596", "714.626359818"),
        ("backward data", "tensorflow", "846.026520729", "444.951184416"),
        ("backward filter", "cudnn", "624.569946705", "460.282030849"),
        ("backward filter", "tensorflow", "864.017572403", "340.270405036"),
    ]
    for (phase, executor, time_ns, predicted_ns), row in zip(sums.rows(), printed, strict=True):
        assert (phase, executor) == row[:2]
        # Each of the 24 layers is rounded to the nanosecond.
        assert abs(time_ns - Decimal(row[2]) * 10**6) <= 12
        assert abs(predicted_ns - Decimal(row[3]) * 10**6) <= 12
    assert reasons(profile, "warning") == []
