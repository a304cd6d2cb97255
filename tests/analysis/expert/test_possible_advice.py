"""Advice fits the framework, the GPU, the recording tool and the direction of copies."""

from __future__ import annotations

from typing import Final

from tests.analysis.expert.profiles import (
    MS,
    NCCL,
    SESSION,
    US,
    call,
    launch,
    launch_with_call,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.expert.rule_verdicts import found_by, verdict_of
from tests.analysis.expert.single_findings import found_by_rule
from tests.analysis.frames import make_profile, summary_row
from tui.analysis.expert.findings import findings
from tui.analysis.expert.rule import Clean, NotApplicable, default_cause

PYTORCH: Final = {**SESSION, "format": "pytorch-trace", "tool": "PyTorch profiler"}


def test_a_busy_gpu_with_long_kernels_has_no_warnings() -> None:
    """200 kernels of 1 ms, 10 us apart, launched ahead; a collective of 300 us runs beside every second one."""
    work = [launch_with_call(1010 * US * n, MS, 1010 * US * n - 900 * US, 5 * US, n + 1) for n in range(200)]
    collectives = [
        launch_with_call(2020 * US * n, 300 * US, 2020 * US * n - 890 * US, 5 * US, 500 + n, name=NCCL, stream=9)
        for n in range(100)
    ]
    rows = findings(with_calls(*work, *collectives))
    warnings = {rule for rule, row in found_by_rule(rows).items() if row["severity"] != "info"}
    assert not {rule for rule in found_by_rule(rows) if rule[0] in "UAC"}
    assert not warnings


def test_advice_on_long_gaps_fits_the_recording_tool() -> None:
    work = [launch(20 * MS * n, MS) for n in range(4)]
    pytorch = found_by("U2", trace_of(*work, sessions=[PYTORCH], api_calls=[call(0, 10)]))
    assert pytorch.advice == (
        "Check what the CPU does during the longest gap: input, logging, checkpoints, allocation. "
        "record_function ranges name it."
    )
    calls = [call(MS, 18 * MS, "cudaMemsetAsync", tid=1)]
    waiting = found_by("U2", trace_of(*work[:2], sessions=[PYTORCH], api_calls=calls))
    assert "the CPU was in `cudaMemsetAsync`" in waiting.problem
    assert waiting.advice == (
        "Check why this call takes long: it waits, allocates, or launches a kernel for the first time."
    )


def test_advice_on_copies_fits_their_direction() -> None:
    """Of 10 ms, copies between GPUs take 6."""
    peer_copy = found_by("T1", trace_of(launch(0, 4 * MS, "solve"), transfer(4 * MS, 6 * MS, "PtoP")))
    assert peer_copy.advice == (
        "Exchange less between GPUs: more work on each, or collectives of NCCL. "
        "Check the path between GPUs (nvidia-smi topo -m)."
    )
    device_copy = found_by("T1", trace_of(launch(0, 4 * MS, "solve"), transfer(4 * MS, 6 * MS, "DtoD")))
    assert device_copy.advice == "Avoid device-to-device copies: swap buffers, or work in place."
    host_copy = found_by("T1", trace_of(launch(0, 4 * MS, "solve"), transfer(4 * MS, 6 * MS, "HtoD")))
    assert (
        host_copy.advice == "Keep data on the device. Copy from pinned memory in chunks; "
        "overlap each copy with kernels on another chunk."
    )


def test_rules_on_kernels_are_not_applicable_to_a_table_of_copies() -> None:
    """The kernels are in another table of the same tool."""
    copies = make_profile(summary=[summary_row("gpu", "[CUDA memcpy HtoD]", 9, 5 * MS)])
    assert verdict_of("T1", copies) == NotApplicable("no kernels are recorded to compare the copies with")
    assert verdict_of("U8", copies) == NotApplicable("no kernels are recorded")


def test_single_precision_complex_products_are_not_double_precision() -> None:
    """CuDNN multiplies in the frequency domain with cgemm: nothing to cast."""
    assert isinstance(verdict_of("P3", trace_of(launch(0, MS, "volta_cgemm_64x32_tn"))), Clean)
    double = found_by("P3", trace_of(launch(0, MS, "volta_zgemm_64x32_tn"), launch(MS, MS, "solve")))
    assert double.problem == "Double-precision kernels take 50% of GPU time, mostly `volta_zgemm_64x32_tn`."


def test_kernels_that_wait_on_the_gpu_are_not_launch_bound() -> None:
    assert default_cause("A5", "launch-delay") == "delayed kernels"


def test_a_call_that_loads_a_kernel_is_counted_once() -> None:
    """Of 10 launches that take longer than their kernels of 2 us, the first takes 6 ms: A4 counts that one."""
    short = [
        launch_with_call(7 * MS + 400 * US * n, 2 * US, 7 * MS + 400 * US * n - 12 * US, 10 * US, n + 2)
        for n in range(9)
    ]
    verdict = found_by("A3", with_calls(launch_with_call(6500 * US, 2 * US, 0, 6 * MS, 1), *short))
    assert (verdict.cost_ns, verdict.basis) == (
        9 * 8 * US,
        "call time minus kernel time, without calls of more than 50 µs",
    )


def test_advice_names_batches_only_for_deep_learning() -> None:
    unknown_program = [summary_row("gpu", "solve", 100, 100 * US, avg_ns=US)]
    assert found_by("A2", make_profile(summary=unknown_program)).advice.startswith(
        "Give each kernel more work, or fuse chains"
    )
    deep_learning = [summary_row("gpu", "void cudnn::detail::softmax<float>", 100, 100 * US, avg_ns=US)]
    assert found_by("A2", make_profile(summary=deep_learning)).advice.startswith(
        "Give each kernel more work (larger batch), or"
    )
