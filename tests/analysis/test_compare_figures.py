"""The headline figures of a comparison: unknown or incomplete ones have a reason and a command."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.analysis.frames import Row, copy, kernel, make_profile, summary_row
from tui.analysis.compare.changes import changed_kernels
from tui.analysis.compare.headline import Figure, IterationSpread, headline, iteration_spread, unknown_sentences
from tui.analysis.compare.sides import Sides, sides

if TYPE_CHECKING:
    from tui.model.profile import Profile


def call(name: str, duration_ns: int) -> Row:
    return {"name": name, "start_ns": 0, "duration_ns": duration_ns}


NVPROF = {"session": 0, "format": "nvprof-text"}


def compared_figures(baseline: Profile, candidate: Profile) -> tuple[Sides, dict[str, Figure]]:
    compared_sides = sides(baseline, candidate, ("a", "b"))
    return compared_sides, {figure.name: figure for figure in headline(compared_sides)}


def test_unrecorded_figures_name_the_command_that_records_them() -> None:
    work = make_profile(activities=[kernel("volta_sgemm_nn", 10)], sessions=[NVPROF])
    calls = make_profile(api_calls=[call("cudaFree", 5)], sessions=[NVPROF])
    _, figures = compared_figures(work, calls)
    reasons = {name: figure.reasons for name, figure in figures.items()}
    no_work, no_calls = "no GPU activities: record with nvprof", "no API calls: record with nvprof --print-api-trace"
    assert reasons == {
        "span_ns": ("no start times: record with nvprof --print-gpu-trace", no_work),
        "busy_pct": ("no start times: record with nvprof --print-gpu-trace", no_work),
        "idle_ns": ("no start times: record with nvprof --print-gpu-trace", no_work),
        "gpu_ns": ("", no_work),
        "kernel_ns": ("", no_work),
        "launches": ("", no_work),
        "tc_share_pct": ("unknown GPU, which may have no tensor cores: choose it with --gpu", no_work),
        "api_ns": (no_calls, ""),
        "api_calls": (no_calls, ""),
    }
    assert figures["span_ns"].unknown_reason == (
        "baseline: no start times: record with nvprof --print-gpu-trace; "
        "candidate: no GPU activities: record with nvprof"
    )
    assert unknown_sentences(figures.values()) == (
        "Span, GPU busy and GPU idle of the baseline are unknown: no start times: record with "
        "nvprof --print-gpu-trace.",
        "Span, GPU busy, GPU idle, GPU time, kernel time, kernel launches and TC share (TensorBoard) of the candidate "
        "are unknown: no GPU activities: record with nvprof.",
        "TC share (TensorBoard) of the baseline is unknown: unknown GPU, which may have no tensor cores: choose it "
        "with --gpu.",
        "API time and API calls of the baseline are unknown: no API calls: record with nvprof --print-api-trace.",
    )


def test_unknown_figures_have_a_reason_and_complete_ones_have_none() -> None:
    profile = make_profile(
        activities=[kernel("mine", 10, start_ns=5, device=0), copy("HtoD", 3, start_ns=20, device=0)]
    )
    for baseline, candidate in (
        (profile, make_profile(ops=[{"op": 0, "name": "aten::mm", "start_ns": 0}])),
        (profile, profile),
    ):
        _, figures = compared_figures(baseline, candidate)
        assert len(figures) >= 8
        for figure in figures.values():
            for value, reason in zip((figure.baseline, figure.candidate), figure.reasons, strict=True):
                assert (value is None) == bool(reason), figure.name


def test_spans_of_several_sessions_do_not_add_up() -> None:
    one_session = make_profile(activities=[kernel("f", 10, start_ns=0, device=0)])
    two_sessions = make_profile(
        activities=[kernel("f", 10, start_ns=0, device=0), kernel("f", 10, start_ns=0, device=0, session=1)]
    )
    _, figures = compared_figures(one_session, two_sessions)
    assert (figures["span_ns"].baseline, figures["span_ns"].candidate) == (10, None)
    assert figures["span_ns"].reasons == (
        "",
        "the spans of 2 sessions do not add up: compare one session with another",
    )
    assert figures["busy_pct"].reasons == ("", "")


def test_copies_that_may_not_have_been_recorded_make_the_gpu_time_incomplete() -> None:
    rocprof = {"session": 0, "format": "rocprofv3-csv", "tool": "rocprofv3"}
    kernels_alone = make_profile(activities=[kernel("f", 10)], sessions=[rocprof])
    _, figures = compared_figures(kernels_alone, make_profile(activities=[kernel("f", 10), copy("HtoD", 3)]))
    assert (figures["memcpy_ns"].baseline, figures["memcpy_ns"].candidate) == (None, 3)
    assert (
        figures["memcpy_ns"]
        .reasons[0]
        .startswith("no copies, which may not have been recorded: record with rocprofv3 ")
    )
    assert figures["gpu_ns"].baseline == 10
    assert figures["gpu_ns"].reasons == ("without copies and memsets, which may not have been recorded", "")


def test_times_of_replayed_kernels_are_marked() -> None:
    ncu = make_profile(activities=[kernel("f", 10)], sessions=[{"session": 0, "format": "ncu-csv"}])
    figure = compared_figures(ncu, make_profile(activities=[kernel("f", 10)], sessions=[NVPROF]))[1]["gpu_ns"]
    assert figure.reasons == (
        "without copies and memsets, which may not have been recorded; "
        "of kernels that Nsight Compute replayed, not those of a run",
        "",
    )


def test_a_sum_without_some_times_is_a_lower_bound() -> None:
    baseline = make_profile(activities=[kernel("f", 10), kernel("f", None), kernel("g", 5)])
    candidate = make_profile(activities=[kernel("f", 10), kernel("g", None)], sessions=[NVPROF])
    _, figures = compared_figures(baseline, candidate)
    assert (figures["gpu_ns"].baseline, figures["gpu_ns"].candidate) == (15, None)
    assert figures["gpu_ns"].reasons == (
        "at least (calls without time: 1)",
        "no time of 1 of 2 names: record with nvprof",
    )
    assert (figures["launches"].baseline, figures["launches"].candidate, figures["launches"].unknown_reason) == (
        3,
        2,
        None,
    )
    sentences = unknown_sentences(figures.values())
    assert "GPU time and kernel time of the baseline: at least (calls without time: 1)." in sentences


def test_a_kind_without_rows_is_unknown_if_the_printed_table_is_incomplete() -> None:
    complete = make_profile(
        summary=[
            summary_row("gpu", "f", 2, 90, time_pct=90.0),
            summary_row("gpu", "[CUDA memcpy HtoD]", 1, 10, time_pct=10.0),
        ],
        sessions=[NVPROF],
    )
    incomplete = make_profile(summary=[summary_row("gpu", "f", 2, 90, time_pct=90.0)], sessions=[NVPROF])
    without_copies = make_profile(summary=[summary_row("gpu", "f", 2, 90, time_pct=100.0)], sessions=[NVPROF])
    _, figures = compared_figures(complete, incomplete)
    assert (figures["memcpy_ns"].baseline, figures["memcpy_ns"].candidate) == (10, None)
    assert figures["gpu_ns"].candidate == 90
    assert figures["gpu_ns"].reasons[1] == (
        "at least (rows of the printed table are missing); without copies and memsets, which may not have been recorded"
    )
    _, figures = compared_figures(complete, without_copies)
    assert (figures["memcpy_ns"].candidate, figures["gpu_ns"].unknown_reason) == (0, None)


def test_time_on_tensor_cores_states_the_unknown_part() -> None:
    gpu = [{"device": 0, "name": "NVIDIA A100-SXM4-40GB"}]
    sgemm = "volta_sgemm_128x32_nn"
    no_tensor_cores, unknown_use = (
        make_profile(activities=[kernel(name, 10, device=0)], devices=gpu) for name in (sgemm, "mine")
    )
    mixed_use = make_profile(activities=[kernel(sgemm, 30, device=0), kernel("mine", 10, device=0)], devices=gpu)
    reason = "tensor-core use unknown for 100.00% of the kernel time: record with "
    assert compared_figures(unknown_use, no_tensor_cores)[1]["tc_share_pct"].reasons[0].startswith(reason)
    sentences = unknown_sentences(compared_figures(unknown_use, unknown_use)[1].values())
    assert any(sentence.startswith(f"TC share (TensorBoard) of both is unknown: {reason}") for sentence in sentences)
    figure = compared_figures(no_tensor_cores, mixed_use)[1]["tc_share_pct"]
    assert figure.candidate == 0
    assert figure.reasons == ("", "without 25.00% of the kernel time of unknown tensor-core use")


def test_figures_of_a_partial_input_are_incomplete() -> None:
    complete = make_profile(activities=[kernel("f", 10), copy("HtoD", 3)], sessions=[NVPROF])
    truncated = replace(
        make_profile(activities=[kernel("f", 10)], sessions=[NVPROF]), partial="truncated after 1 event"
    )
    compared_sides, figures = compared_figures(complete, truncated)
    assert compared_sides.partial_sentence == "Partial results: truncated after 1 event (candidate)."
    assert figures["memcpy_ns"].candidate is None


def iterations_profile(*milliseconds: int) -> Profile:
    """Return iterations of these lengths, with a kernel in each."""
    ranges: list[Row] = []
    work: list[Row] = []
    start = 0
    for number, length in enumerate(milliseconds):
        ranges.append(
            {
                "name": f"ProfilerStep#{number}",
                "start_ns": start,
                "duration_ns": length * 1_000_000,
                "iteration": number,
                "depth": 0,
            }
        )
        work.append(kernel("f", 1000, start_ns=start + 10, device=0, iteration=number))
        start += length * 1_000_000
    return make_profile(ranges=ranges, activities=work)


def test_spread_of_iterations() -> None:
    compared_sides = sides(iterations_profile(10, 11, 12, 13, 90), iterations_profile(12, 13, 14), ("a", "b"))
    assert compared_sides.per_iteration
    assert iteration_spread(compared_sides.a) == IterationSpread(5, 11_000_000, 13_000_000)
    assert iteration_spread(compared_sides.b) == IterationSpread(3, None, None)
    assert iteration_spread(
        sides(iterations_profile(10, 11, 12, 13, 14, 90), iterations_profile(12), ("a", "b")).a
    ) == IterationSpread(6, 11_250_000, 13_750_000)
    for spread, overlaps in (
        (IterationSpread(5, 13_000_000, 20_000_000), True),
        (IterationSpread(5, 13_000_001, 20_000_000), False),
    ):
        assert (
            iteration_spread(compared_sides.a).overlaps(spread)
            is spread.overlaps(iteration_spread(compared_sides.a))
            is overlaps
        )
    assert not iteration_spread(compared_sides.a).overlaps(iteration_spread(compared_sides.b))


def test_rows_that_may_not_have_been_recorded_are_neither_new_nor_removed() -> None:
    def changes(baseline: Profile, candidate: Profile) -> list[tuple[object, ...]]:
        kernel_rows = changed_kernels(sides(baseline, candidate, ("a", "b"), whole_runs=True))
        return kernel_rows.select("name", "change", "delta_ns", "unknown_reason").rows()

    complete = make_profile(
        summary=[summary_row("gpu", "f", 2, 70, time_pct=70.0), summary_row("gpu", "g", 1, 30, time_pct=30.0)],
        sessions=[NVPROF],
    )
    incomplete = make_profile(summary=[summary_row("gpu", "f", 2, 60, time_pct=60.0)], sessions=[NVPROF])
    reason = "may be in rows missing from the printed table"
    assert changes(complete, incomplete) == [("f", "", -10, None), ("g", "", None, f"candidate: {reason}")]
    assert changes(incomplete, complete) == [("f", "", 10, None), ("g", "", None, f"baseline: {reason}")]
    truncated = replace(
        make_profile(activities=[kernel("f", 60)], sessions=[NVPROF]), partial="truncated after 1 event"
    )
    assert changes(complete, truncated)[1] == ("g", "", None, "candidate: may be in the part that was not read")
    rocprof = {"session": 0, "format": "rocprofv3-csv", "tool": "rocprofv3"}
    kernels_alone = make_profile(activities=[kernel("f", 10), kernel("h", 4)], sessions=[rocprof])
    assert changes(kernels_alone, make_profile(activities=[kernel("f", 10), copy("HtoD", 3)])) == [
        ("h", "removed", -4, None),
        ("f", "", 0, None),
        ("[CUDA memcpy HtoD]", "", None, "baseline: may not have been recorded"),
    ]
