"""Rules on the calls and collectives of each vendor, and on inputs that have a part of what a rule needs."""

from __future__ import annotations

import pytest

from tests.analysis.expert.answers.expected_answers import iterations_of, sized_collective
from tests.analysis.expert.profiles import (
    A100,
    GEMM,
    MS,
    NCCL,
    SESSION,
    US,
    call,
    launch,
    launch_with_call,
    step_range,
    trace_of,
    transfer,
    with_calls,
)
from tests.analysis.expert.rule_verdicts import BY_ID, case_of, clean_by, found_by, verdict_of
from tests.analysis.expert.single_findings import found_by_rule
from tests.analysis.frames import kernel, make_profile, summary_row
from tui.analysis.collective_details import message_sizes
from tui.analysis.expert.findings import findings
from tui.analysis.expert.rule import Found, NotApplicable
from tui.analysis.expert.rules.communication import sized_collectives
from tui.analysis.gpu_time.host_calls import ApiClass, api_class


@pytest.mark.parametrize(
    "name",
    [
        "cudaStreamSynchronize", "cuCtxSynchronize", "hipDeviceSynchronize", "hsa_signal_wait_scacquire",
        "zeCommandListHostSynchronize", "zeEventHostSynchronize", "zeFenceHostSynchronize", "aclrtSynchronizeStream",
    ],
)  # fmt: skip
def test_synchronizing_calls_of_every_vendor(name: str) -> None:
    profile = with_calls(
        launch_with_call(0, 10 * MS, 0, 10, 1),
        launch_with_call(12 * MS, 8 * MS, 11 * MS, 10, 2),
        calls=(call(MS, 9 * MS, name),),
    )
    verdict = verdict_of("A1", profile)
    assert (verdict.numbers["calls"], verdict.numbers["wait_ns"]) == (1, 9 * MS)
    assert api_class(name) is ApiClass.SYNC


def test_reasons_do_not_contradict_what_is_recorded() -> None:
    """Calls with times, but no GPU work; copies without kernels; kernels without times; iterations without times."""
    calls = make_profile(sessions=[SESSION], api_calls=[call(0, 10)])
    no_work = "no GPU activities: record with nsys profile --trace=cuda,nvtx ./app"
    assert verdict_of("U1", calls) == verdict_of("C2", calls) == verdict_of("I1", calls) == NotApplicable(no_work)
    copies = make_profile(sessions=[SESSION], activities=[transfer(0, 10, "HtoD")])
    no_kernels = NotApplicable("no kernels are recorded")
    assert verdict_of("I1", copies) == verdict_of("P1", copies) == no_kernels
    assert verdict_of("L1", copies) == NotApplicable("no compute kernels are recorded")
    untimed = make_profile(sessions=[SESSION], activities=[kernel("k", None)])
    assert verdict_of("P1", untimed) == NotApplicable("times of kernels are not recorded")
    launches = [{**launch(20 * n, 10, f"k{n}"), "iteration": 0} for n in range(99)]
    unlimited = make_profile(sessions=[SESSION], activities=launches)
    assert verdict_of("I1", unlimited) == NotApplicable("times of iterations are not recorded")


def test_copies_that_only_start_cuda_block_nothing() -> None:
    """``cudaMemcpyToSymbol`` takes 90 of 101 ms, between two kernels: CUDA starts in it."""
    profile = with_calls(
        launch_with_call(0, MS, 0, 10 * US, 1),
        launch_with_call(100 * MS, MS, 99 * MS, 10 * US, 2),
        calls=(call(MS, 90 * MS, "cudaMemcpyToSymbol"),),
    )
    assert clean_by("T8", profile).numbers == {"calls": 0, "call_ns": 0, "share_pct": 0.0}


def test_copies_that_block_are_described_with_their_time_on_the_gpu() -> None:
    copies = [
        (
            transfer(n * 20 * MS, 10 * MS, src_memory="pageable", dst_memory="device", correlation=n),
            call(n * 20 * MS, 5 * MS, "cudaMemcpyAsync", correlation=n),
        )
        for n in (1, 2)
    ]
    assert found_by("T7", with_calls(*copies)).problem == (
        "2 asynchronous copies of pageable memory block the CPU; on the GPU they take 20 ms: `[CUDA memcpy HtoD]`."
    )
    assert found_by("T7", with_calls(copies[0])).problem == (
        "1 asynchronous copy of pageable memory blocks the CPU; on the GPU it takes 10 ms: `[CUDA memcpy HtoD]`."
    )
    memset = {"kind": "memset", "name": "[CUDA memset]", "start_ns": 0, "duration_ns": MS, "device": 0,
              "dst_memory": "pinned", "correlation": 1}  # fmt: skip
    assert found_by("T9", with_calls((memset, call(0, MS, "cudaMemset", correlation=1)))).problem == (
        "1 memset of pinned or managed memory blocks the CPU; on the GPU it takes 1 ms."
    )


def test_collectives_of_hccl_are_ranges() -> None:
    """DistributedDataParallel with HCCL needs no NCCL."""
    sessions = [{"session": 0, "format": "ascend", "rank": 0, "world_size": 2}]
    ranges = [{**step_range(0, 0, 10 * MS), "name": "DistributedDataParallel.forward"}]
    hccl = {"name": "hcom_allReduce_", "domain": "HCCL", "start_ns": 0, "duration_ns": MS}
    work = launch(0, 10 * MS, "MatMul")
    assert clean_by("C6", trace_of(work, ranges=[*ranges, hccl], sessions=sessions)).reason == (
        "DistributedDataParallel with NCCL"
    )
    assert found_by("C6", trace_of(work, ranges=ranges, sessions=sessions)).problem == (
        "DistributedDataParallel runs without NCCL kernels."
    )


@pytest.mark.parametrize("rule", ["C1", "C2", "C3", "C4", "C8", "C9"])
def test_communication_is_not_clean_where_the_names_of_collectives_are_unknown(rule: str) -> None:
    work = [launch(0, 10 * MS, "gemm"), launch(20 * MS, 10 * MS, "gemm")]
    nvidia = trace_of(*work, sessions=[SESSION])
    assert clean_by(rule, nvidia).reason == "no NCCL, RCCL or NVSHMEM kernels"
    xpu = trace_of(*work, sessions=[{**SESSION, "framework": "PyTorch (XPU)"}], devices=[])
    assert verdict_of(rule, xpu) == NotApplicable("the names of collectives on these GPUs are unknown")


@pytest.mark.parametrize(("tool", "is_judged"), [("rocprof-csv", False), ("unitrace", False), ("nsys-sqlite", True)])
def test_the_warp_of_32_threads_is_of_nvidia(tool: str, is_judged: bool) -> None:
    profile = trace_of(launch(0, MS, block_x=48), sessions=[{**SESSION, "format": tool, "tool": ""}], devices=[])
    verdict = BY_ID["L5"].check(case_of(profile))
    assert isinstance(verdict, NotApplicable) is not is_judged


def test_the_table_that_is_most_wrong_is_named() -> None:
    """Two tables of GPU activities add up to 200%, that of API calls to 90%."""
    rows = [summary_row("gpu", GEMM, 1, MS, time_pct=share) for share in (60.0, 41.5, 100.0)]
    rows += [summary_row("api", "cudaMalloc", 1, MS, time_pct=90.0)]
    verdict = found_by("Q5", make_profile(sessions=[{**SESSION, "format": "nsys-stats"}], summary=rows))
    assert verdict.problem == (
        "The percentages in the table of API calls add up to 90%, not 100%: rows are missing or misread."
    )
    assert verdict.view == "api-calls"


def test_page_faults_are_a_share_of_the_time_of_all_gpus() -> None:
    """Faults take 6 ms of one of two GPUs in a run of 10 ms."""
    faults = {"kind": "um", "name": "[Unified Memory GPU page faults]", "start_ns": 0, "duration_ns": 6 * MS,
              "device": 0}  # fmt: skip
    work = (launch(0, 10 * MS), launch(0, 10 * MS, device=1))
    row = found_by_rule(findings(trace_of(*work, faults, devices=[A100, {**A100, "device": 1}])))["T13"]
    assert row["problem"] == "Page faults of unified memory take 6 ms (30% of the wall time of 2 GPUs)."
    assert (row["cost_ns"], row["cost_pct"], row["cost_basis"]) == (6 * MS, 30.0, "all of it, of 2 GPUs together")


def test_growth_of_memory_needs_the_size_of_the_gpu_that_grows() -> None:
    """GPU 0 of unknown size has twenty iterations, GPU 1 of known size has two."""
    events = [
        {"place": "GPU", "device": device, "start_ns": n * MS + 1, "delta_bytes": 1 << 30, "allocated_bytes": n << 30}
        for device, number in ((0, 20), (1, 2))
        for n in range(number)
    ]
    devices = [A100, {**A100, "device": 1, "memory_bytes": 40 << 30}]
    profile = iterations_of(*[MS] * 20, memory_events=events, devices=devices)
    assert verdict_of("I9", profile) == NotApplicable("unknown GPU memory size")


@pytest.mark.parametrize(
    "name",
    [
        "cudaMalloc", "cudaMallocAsync_v11020", "cudaHostAlloc", "cudaFree", "cuMemAlloc_v2", "cuMemAllocHost_v2",
        "cuMemHostAlloc", "cuMemFreeHost", "cuMemCreate", "cuMemRelease", "hipMalloc", "hipHostMalloc",
        "hipExtMallocWithFlags", "zeMemAllocDevice", "zeMemFree", "aclrtMalloc", "aclrtFree",
    ],
)  # fmt: skip
def test_calls_that_allocate_in_the_loop(name: str) -> None:
    steps = [step_range(n, n * 10 * MS, 10 * MS) for n in range(3)]
    calls = tuple(call(n * 10 * MS + MS, 2 * MS, name) for n in range(3))
    verdict = found_by("A8", with_calls(launch_with_call(0, MS, 0, 10, 1), calls=calls, ranges=steps))
    assert (verdict.numbers["calls"], verdict.cost_ns) == (2, 4 * MS)


@pytest.mark.parametrize("name", ["cuMemGetInfo_v2", "cudaMemcpy", "cudaCreateTextureObject", "cuMemMap"])
def test_calls_that_do_not_allocate(name: str) -> None:
    steps = [step_range(n, n * 10 * MS, 10 * MS) for n in range(3)]
    calls = tuple(call(n * 10 * MS + MS, 2 * MS, name) for n in range(3))
    assert (
        clean_by("A8", with_calls(launch_with_call(0, MS, 0, 10, 1), calls=calls, ranges=steps)).numbers["calls"] == 0
    )


def test_the_size_of_a_message_is_that_of_its_larger_end() -> None:
    gathered = {**sized_collective(0, MS, 0), "arguments": "In msg nelems: 100; Out msg nelems: 800; Dtype: BFloat16"}
    profile = trace_of(gathered, launch(MS, MS))
    assert sized_collectives(case_of(profile))["bytes"].to_list() == [1600]
    texts = ("In msg nelems: 5; Dtype: Unsigned Long", "In msg nelems: 5; Dtype: int64", "In msg nelems: 5; Dtype: odd")
    work = trace_of(*(launch(n * MS, MS, NCCL, arguments=text) for n, text in enumerate(texts)))
    sizes = message_sizes(work["activities"]["arguments"]).sort("element_type", descending=True)
    assert sizes.select("element_type", "message_bytes").rows() == [("odd", None), ("int64", 40), ("Unsigned Long", 40)]


@pytest.mark.parametrize(
    ("vendor_format", "variable"),
    [
        ("nsys-sqlite", "CUDA_LAUNCH_BLOCKING"),
        ("rocprof-csv", "HIP_LAUNCH_BLOCKING"),
        ("ascend", "ASCEND_LAUNCH_BLOCKING"),
    ],
)
def test_launch_blocking_has_the_variable_of_the_vendor(vendor_format: str, variable: str) -> None:
    work = [launch_with_call(n * 100 * US, 50 * US, n * 100 * US, 5 * US, n + 1) for n in range(100)]
    calls = tuple(call(n * 100 * US + 10 * US, 60 * US, "cudaDeviceSynchronize") for n in range(100))
    profile = with_calls(*work, calls=calls, sessions=[{**SESSION, "format": vendor_format, "tool": ""}], devices=[])
    assert found_by_rule(findings(profile))["A13"]["recommendation"] == (
        f"Remove synchronize calls that were added for debugging or timing, and unset {variable} if it is set."
    )


def test_half_precision_without_a_known_framework_has_no_setting() -> None:
    op = {"op": 0, "name": "vllm::rocm_unquantized_gemm", "start_ns": 0, "duration_ns": 10, "pid": 1, "tid": 1,
          "input_shapes": "[[4096, 4096], [4096, 4096]]", "input_types": '["bfloat16", "bfloat16"]',
          "op_source": "recorded"}  # fmt: skip
    profile = trace_of(launch(0, 50 * MS, op=0, op_join="launch"), ops=[op])
    assert case_of(profile).framework == ""
    assert found_by("P14", profile).advice == (
        "Speed up `vllm::rocm_unquantized_gemm` first: half precision or shapes that are multiples of 64."
    )


def test_facts_of_other_vendors_gpus_cannot_be_named() -> None:
    """``--gpu`` knows only GPUs of NVIDIA."""
    session = {**SESSION, "format": "rocprofv3-json", "tool": "rocprofv3"}
    device = {"device": 0, "name": "AMD Instinct MI999X"}
    profile = make_profile(
        sessions=[session], devices=[device], activities=[launch(0, MS), transfer(MS, MS), launch(2 * MS, MS)]
    )
    reasons = {rule: verdict_of(rule, profile) for rule in ("L5", "L7", "Q1", "T5")}
    assert reasons == {
        "L5": NotApplicable("not applicable: the rule is about warps of 32 threads, which NVIDIA's GPUs have"),
        "L7": NotApplicable("unknown register limit of this GPU"),
        "Q1": NotApplicable("unknown memory bandwidth of this GPU"),
        "T5": NotApplicable("unknown host link bandwidth of this GPU"),
    }


def test_iterations_without_times_are_recorded() -> None:
    rows = [launch(n * MS, MS, iteration=7) for n in range(30)]
    for number in (2, 30):
        profile = make_profile(sessions=[{**SESSION, "iteration_source": "Step Id"}], activities=rows[:number])
        assert verdict_of("I1", profile) == NotApplicable("times of iterations are not recorded")


def test_a_step_trace_of_a_folder_has_no_line_numbers() -> None:
    figures = [
        {"tool": "Ascend", "section": "Step trace", "name": f"step 5: {part}", "value": value}
        for part, value in (("Computing", 10.0 * MS), ("Communication(Not Overlapped)", 20.0 * MS), ("Free", 70.0 * MS))
    ]
    profile = make_profile(sessions=[SESSION], devices=[A100], activities=[launch(0, MS)], tool_figures=figures)
    assert verdict_of("C10", profile) == NotApplicable("start times are recorded: C1 and U1 use them")
    assert case_of(profile).steps["total_ns"].to_list() == [100 * MS]


def test_totals_name_no_single_ops() -> None:
    profile = make_profile(sessions=[SESSION], summary=[summary_row("op", "aten::mm", 1, MS)])
    assert verdict_of("P9", profile) == NotApplicable("single ops and ranges are not recorded")


def test_totals_without_the_longest_call_do_not_show_the_start() -> None:
    row = summary_row("api", "cudaLaunchKernel", 2, MS)
    assert verdict_of("A10", make_profile(sessions=[SESSION], summary=[row])) == NotApplicable(
        "durations of the longest API calls are not recorded"
    )


def test_metrics_of_scopes_do_not_show_what_limits_a_kernel() -> None:
    sessions = [{"session": 0, "format": "proton", "tool": "Proton"}]
    metrics = [{"kernel": "step", "metric": "flops8", "avg": 5.0, "invocations": 1}]
    profile = make_profile(sessions=sessions, summary=[summary_row("gpu", "k", 2, 10 * MS)], metrics=metrics)
    assert found_by("P10", profile).advice == "Optimize `k`. ncu --set full shows what limits it."


def test_one_iteration_is_no_trend() -> None:
    profile = make_profile(sessions=[SESSION], activities=[launch(0, MS)], ranges=[step_range(0, 0, MS)])
    assert verdict_of("I4", profile) == NotApplicable("not enough data: a trend needs 8 iterations, there is 1")


@pytest.mark.parametrize("rule", ["A1", "A8", "A9", "T8"])
def test_calls_without_durations_are_not_called_short(rule: str) -> None:
    names = ("cudaDeviceSynchronize", "cudaMalloc", "cuModuleLoadData", "cudaMemcpy")
    steps = [step_range(n, n * 10 * MS, 10 * MS) for n in range(3)]
    untimed = tuple({**call(n * MS, 0, name), "duration_ns": None} for n, name in enumerate(names))
    profile = with_calls((launch(20 * MS, MS), {**call(0, 0), "duration_ns": None}), calls=untimed, ranges=steps)
    assert verdict_of(rule, profile) == NotApplicable("durations of API calls are not recorded")


@pytest.mark.parametrize("name", ["cuModuleLoadData", "hipModuleLoad", "zeModuleCreate", "opCompile"])
def test_loading_calls_of_every_vendor(name: str) -> None:
    """50 of 100 ms."""
    profile = trace_of(launch(0, MS), launch(99 * MS, MS), api_calls=[call(MS, 50 * MS, name)])
    assert found_by("A9", profile).numbers == {"load_ns": 50 * MS, "share_pct": 50.0}


def test_module_loads_without_start_times_count() -> None:
    """50 of 100 ms."""
    load = {**call(0, 50 * MS, "cuModuleLoadData"), "start_ns": None}
    profile = trace_of(launch(0, MS), launch(99 * MS, MS), api_calls=[load])
    assert found_by("A9", profile).numbers == {"load_ns": 50 * MS, "share_pct": 50.0}


@pytest.mark.parametrize("rule", ["A1", "A9", "T8"])
def test_calls_that_a_printed_table_omits_are_not_called_absent(rule: str) -> None:
    rows = [summary_row("gpu", "gemm", 1, MS, time_pct=60.0), summary_row("api", "cudaLaunchKernel", 1, US)]
    assert verdict_of(rule, make_profile(summary=rows)) == NotApplicable("rows of the printed table are missing")
    complete = [{**row, "time_pct": 100.0} for row in rows]
    assert clean_by(rule, make_profile(summary=complete)).numbers["share_pct"] == 0.0


def test_copies_and_memsets_without_their_calls_are_not_called_harmless() -> None:
    pageable = {"src_memory": "pageable", "dst_memory": "device"}
    copied = transfer(0, 10 * MS, **pageable)
    asynchronous = call(0, 5 * MS, "cudaMemcpyAsync", correlation=1)
    reason = "the calls that launched the copies are not recorded"
    assert verdict_of("T7", with_calls((copied, asynchronous))) == NotApplicable(reason)
    assert found_by("T7", with_calls(({**copied, "correlation": 1}, asynchronous))).numbers["copies"] == 1
    unknown = transfer(0, 10 * MS, dst_memory="device", correlation=1)
    assert verdict_of("T7", with_calls((unknown, asynchronous))) == NotApplicable(
        "pageable or pinned memory is not recorded"
    )
    memset = {"kind": "memset", "name": "[CUDA memset]", "start_ns": 0, "duration_ns": MS, "device": 0}
    blocking = with_calls(({**memset, "dst_memory": "pinned"}, call(0, MS, "cudaMemset", correlation=1)))
    assert verdict_of("T9", blocking) == NotApplicable("the memsets of blocking calls are not recorded")


@pytest.mark.parametrize(("pid", "tid", "is_found"), [(1, 1, True), (None, 1, True), (1, None, False)])
def test_read_backs_are_matched_with_waits_of_their_thread(pid: int | None, tid: int | None, *, is_found: bool) -> None:
    thread = {"pid": pid, "tid": tid}
    pairs = [
        (
            transfer(n * 10 * MS, US, "DtoH", size=4, correlation=n, iteration=n),
            call(n * 10 * MS, US, "cudaMemcpyAsync", correlation=n, **thread),
        )
        for n in range(4)
    ]
    waits = tuple(call(n * 10 * MS + 2 * US, 5 * US, "cudaStreamSynchronize", **thread) for n in range(4))
    steps = [step_range(n, n * 10 * MS, 10 * MS) for n in range(4)]
    profile = with_calls(*pairs, launch_with_call(35 * MS, MS, 34 * MS, 10, 9), calls=waits, ranges=steps)
    verdict = verdict_of("T11", profile)
    if is_found:
        assert isinstance(verdict, Found)
        assert verdict.numbers == {"readbacks": 4, "per_iteration": 1.0, "wait_ns": 20 * US}
    else:
        assert verdict == NotApplicable("the calls of the read-backs, or their threads, are not recorded")


def test_streams_are_judged_only_where_kernels_have_them() -> None:
    for rule in ("A11", "A12"):
        unnamed = trace_of(launch(0, MS, stream=None), transfer(0, MS))
        assert verdict_of(rule, unnamed) == NotApplicable("streams of kernels are not recorded")
    assert verdict_of("A11", trace_of(transfer(0, MS))) == NotApplicable("no kernels are recorded")
