"""Advice fits the program: its framework, the GPU's vendor, the tool that recorded it, and what was copied where."""

from __future__ import annotations

from typing import Final

from tests.analysis.expert.asking import found
from tests.analysis.expert.judging import ask
from tests.analysis.expert.profiles import MS, NCCL, SESSION, US, call, launched, moved, run, traced, with_calls
from tests.analysis.frames import make_profile, summary_row
from tui.analysis.expert.findings import findings
from tui.analysis.expert.rule import Clean, Found, NotApplicable, default_cause

PYTORCH: Final = {**SESSION, "format": "pytorch-trace", "tool": "PyTorch profiler"}


def found_by(rule: str, made: object) -> Found:
    verdict = ask(rule, made)  # type: ignore[arg-type]
    assert isinstance(verdict, Found), verdict
    return verdict


def test_a_busy_gpu_with_kernels_of_a_millisecond_gets_no_warning_of_idle_time_launches_or_communication() -> None:
    """200 kernels of 1 ms, 10 us apart, launched ahead; a collective of 300 us runs beside every second one."""
    work = [launched(1010 * US * n, MS, 1010 * US * n - 900 * US, 5 * US, n + 1) for n in range(200)]
    beside = [
        launched(2020 * US * n, 300 * US, 2020 * US * n - 890 * US, 5 * US, 500 + n, name=NCCL, stream=9)
        for n in range(100)
    ]
    rows = findings(with_calls(*work, *beside))
    warnings = {rule for rule, row in found(rows).items() if row["severity"] != "info"}
    assert not {rule for rule in found(rows) if rule[0] in "UAC"}
    assert not warnings


def test_long_gaps_are_named_with_what_the_recording_tool_offers() -> None:
    gaps = [run(20 * MS * n, MS) for n in range(4)]
    of_torch = found_by("U2", traced(*gaps, sessions=[PYTORCH], api_calls=[call(0, 10)]))
    assert of_torch.advice == (
        "Check what the program does there: input, logging, checkpoints, allocation. record_function ranges name it."
    )
    in_call = [call(MS, 18 * MS, "cudaMemsetAsync", tid=1)]
    waiting = found_by("U2", traced(*gaps[:2], sessions=[PYTORCH], api_calls=in_call))
    assert "the CPU was in `cudaMemsetAsync`" in waiting.problem
    assert waiting.advice == (
        "Check why this call takes long: it waits, allocates, or launches a kernel for the first time."
    )


def test_copies_between_devices_need_no_pinned_memory() -> None:
    """Of 10 ms, copies between GPUs take 6."""
    between = found_by("T1", traced(run(0, 4 * MS, "solve"), moved(4 * MS, 6 * MS, "PtoP")))
    assert between.advice == (
        "Exchange less between GPUs: more work on each, or collectives of NCCL. "
        "Check the path between GPUs (nvidia-smi topo -m)."
    )
    within = found_by("T1", traced(run(0, 4 * MS, "solve"), moved(4 * MS, 6 * MS, "DtoD")))
    assert within.advice == "Keep data where it is, or use it in place."
    host = found_by("T1", traced(run(0, 4 * MS, "solve"), moved(4 * MS, 6 * MS, "HtoD")))
    assert (
        host.advice == "Keep data on the device. Copy from pinned memory in parts, each while kernels work on another."
    )


def test_a_table_of_copies_alone_says_nothing_about_kernels() -> None:
    """The kernels are in another table of the same tool."""
    copies = make_profile(summary=[summary_row("gpu", "[CUDA memcpy HtoD]", 9, 5 * MS)])
    assert ask("T1", copies) == NotApplicable("no kernels are recorded to compare the copies with")
    assert ask("U8", copies) == NotApplicable("no kernels are recorded")


def test_single_precision_complex_products_are_no_double_precision() -> None:
    """CuDNN multiplies in the frequency domain with cgemm: nothing to cast."""
    assert isinstance(ask("P3", traced(run(0, MS, "volta_cgemm_64x32_tn"))), Clean)
    double = found_by("P3", traced(run(0, MS, "volta_zgemm_64x32_tn"), run(MS, MS, "solve")))
    assert double.problem == "Double-precision kernels take 50% of GPU time, mostly `volta_zgemm_64x32_tn`."


def test_kernels_that_wait_on_the_gpu_are_not_launch_bound() -> None:
    assert default_cause("A5", "launch-delay") == "delayed kernels"


def test_a_call_that_loads_a_kernel_is_counted_once() -> None:
    """Of 10 launches that take longer than their kernels of 2 us, the first takes 6 ms: A4 counts that one."""
    short = [launched(7 * MS + 400 * US * n, 2 * US, 7 * MS + 400 * US * n - 12 * US, 10 * US, n + 2) for n in range(9)]
    bound = found_by("A3", with_calls(launched(6500 * US, 2 * US, 0, 6 * MS, 1), *short))
    assert (bound.cost_ns, bound.basis) == (
        9 * 8 * US,
        "what these calls take longer than their kernels, without calls of more than 50 µs",
    )


def test_programs_without_batches_are_told_of_none() -> None:
    short = [summary_row("gpu", "solve", 100, 100 * US, avg_ns=US)]
    assert found_by("A2", make_profile(summary=short)).advice.startswith("Give each kernel more work, or fuse chains")
    known = [summary_row("gpu", "void cudnn::detail::softmax<float>", 100, 100 * US, avg_ns=US)]
    assert found_by("A2", make_profile(summary=known)).advice.startswith(
        "Give each kernel more work (larger batch), or"
    )
