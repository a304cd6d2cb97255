from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.frames import copy, kernel, make_profile
from tests.profiles import load_one
from tui.analysis.gpu_time.breakdown import BREAKDOWN, Category, breakdown, breakdown_by_device
from tui.analysis.gpu_time.host_calls import HostPhase, host_phases_by_name
from tui.analysis.gpu_time.timelines import GpuUse, gpu_uses
from tui.analysis.tensor_core_use import with_verdicts

if TYPE_CHECKING:
    from tui.model.profile import Profile

TENSOR_CORE_KERNEL = (
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel"
)
H100 = {"device": 0, "compute_capability": "9.0", "name": "NVIDIA H100"}
K40 = {"device": 0, "compute_capability": "3.5", "name": "Tesla K40c"}


def times_by_category(profile: Profile, **columns: int) -> dict[str, int | None]:
    frame = breakdown(profile).filter(*(pl.col(column) == value for column, value in columns.items()))
    return dict(frame.select("category", "time_ns").iter_rows())


def reasons_by_category(profile: Profile) -> dict[str, str | None]:
    return dict(breakdown(profile).select("category", "why").iter_rows())


PROFILE = make_profile(
    sessions=[{"session": 0, "format": "pytorch-trace", "start_resolution_ns": 1}],
    devices=[H100],
    activities=[
        kernel(TENSOR_CORE_KERNEL, 100, start_ns=100, device=0, stream=7),
        kernel("volta_sgemm_128x32_nn", 100, start_ns=150, device=0, stream=8),
        copy("HtoD", 100, start_ns=220, device=0),
        {"kind": "graph", "name": "[CUDA graph 3]", "start_ns": 400, "duration_ns": 50, "device": 0},
    ],
    ops=[
        {"op": 0, "name": "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "start_ns": 0,
         "duration_ns": 110},
        {"op": 1, "name": "aten::mm", "start_ns": 310, "duration_ns": 50},
        {"op": 2, "name": "aten::add", "start_ns": 480, "duration_ns": 20},
    ],
    ranges=[{"name": "save checkpoint", "start_ns": 330, "duration_ns": 60}],
    api_calls=[{"name": "cudaLaunchKernel", "start_ns": 395, "duration_ns": 10}],
)  # fmt: skip


def test_each_instant_belongs_to_the_first_active_category() -> None:
    assert times_by_category(PROFILE) == {
        "Using tensor cores": 100,
        "Not using tensor cores": 50,
        "Kernels, tensor cores unknown": 50,
        "Memory": 70,
        "Dataloader": 100,
        "I/O": 60,
        "CPU": 10 + 5 + 20,
        "Other": 5 + 30,
    }
    assert breakdown(PROFILE)["wall_ns"].unique().to_list() == [500]
    assert reasons_by_category(PROFILE)["Kernels, tensor cores unknown"] == "tensor-core use of these kernels unknown"
    assert reasons_by_category(PROFILE)["Other"] is None
    assert BREAKDOWN.columns[0].name == "category"


def test_unknown_categories_are_null_and_their_time_is_in_other() -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": "nvprof-text"}],
        devices=[K40],
        activities=[kernel(TENSOR_CORE_KERNEL, 30, start_ns=0, device=0), kernel("a", 10, start_ns=90, device=0)],
    )
    assert times_by_category(profile) == {
        "Using tensor cores": 0,
        "Not using tensor cores": 40,
        "Memory": 0,
        "Dataloader": None,
        "I/O": None,
        "CPU": None,
        "Other": 60,
    }
    assert reasons_by_category(profile)["Other"] == "includes categories that are not recorded: Dataloader, I/O, CPU"


def test_kernels_of_unknown_tensor_core_use_are_in_no_dlprof_category() -> None:
    profile = make_profile(
        devices=[H100],
        activities=[{"kind": "graph", "name": "[CUDA graph 1]", "duration_ns": 5, "start_ns": 0, "device": 0}],
    )
    times = times_by_category(profile)
    assert (times["Using tensor cores"], times["Not using tensor cores"]) == (None, None)
    assert times["Kernels, tensor cores unknown"] == 5
    assert reasons_by_category(profile)["Using tensor cores"] == "tensor-core use of all kernels unknown"


def test_time_on_tensor_cores_is_unknown_if_no_kernel_is_known_to_use_them_and_some_may() -> None:
    graph = {"kind": "graph", "name": "[CUDA graph 1]", "duration_ns": 400, "start_ns": 0, "device": 0}
    other = kernel("volta_sgemm_128x32_nn", 600, start_ns=400, device=0)
    times = times_by_category(make_profile(devices=[H100], activities=[graph, other]))
    assert [times[name] for name in ("Using tensor cores", "Not using tensor cores")] == [None, 600]
    reasons = reasons_by_category(make_profile(devices=[H100], activities=[graph, other]))
    assert reasons["Using tensor cores"] == "no kernel is known to use them, and for some it is unknown"
    assert reasons["Other"] == "includes categories that are not recorded: Dataloader, I/O, CPU"
    # As little as on the dashboard: it is not mentioned.
    brief = {**other, "duration_ns": 4_000_000}
    assert times_by_category(make_profile(devices=[H100], activities=[graph, brief]))["Using tensor cores"] == 0


def test_recorded_tensor_core_use_takes_precedence() -> None:
    profile = make_profile(
        devices=[H100], activities=[kernel(TENSOR_CORE_KERNEL, 5, start_ns=0, device=0, uses_tensor_core=False)]
    )
    assert times_by_category(profile)["Not using tensor cores"] == 5


@pytest.mark.parametrize("format_name", ["rocprof-csv", "ascend-csv", "perfetto", "proton", "ncu-csv"])
def test_copies_are_unknown_if_the_tool_did_not_record_them(format_name: str) -> None:
    profile = make_profile(
        sessions=[{"session": 0, "format": format_name}],
        activities=[kernel("a", 5, start_ns=0, device=0)],
    )
    assert times_by_category(profile)["Memory"] is None
    assert reasons_by_category(profile)["Memory"] == "only kernels recorded"


def test_sessions_are_separate_and_gpus_of_one_are_averaged() -> None:
    profile = make_profile(
        activities=[
            kernel("volta_sgemm_128x32_nn", 100, start_ns=0, device=0, session=0),
            kernel("volta_sgemm_128x32_nn", 51, start_ns=0, device=1, session=0),
            kernel("volta_sgemm_128x32_nn", 7, start_ns=1000, device=0, session=1),
        ]
    )
    assert times_by_category(profile, session=0)["Not using tensor cores"] == 76  # 75.5, rounded to even
    assert times_by_category(profile, session=0)["Other"] == 24
    assert times_by_category(profile, session=1)["Not using tensor cores"] == 7
    assert breakdown_by_device(profile).filter(pl.col("category") == "Other")["time_ns"].to_list() == [0, 49, 0]


def test_a_profile_without_times_has_no_breakdown() -> None:
    empty = breakdown(make_profile(activities=[kernel("a", 5)]))
    assert empty.is_empty()
    assert empty.columns == ["session", "category", "time_ns", "wall_ns", "wall_pct", "why"]


def test_api_calls_alone_are_cpu_time() -> None:
    profile = make_profile(api_calls=[{"name": "cudaMalloc", "start_ns": 10, "duration_ns": 5},
                              {"name": "cudaFree", "start_ns": 20, "duration_ns": 5}])  # fmt: skip
    times = times_by_category(profile)
    assert (times["CPU"], times["Other"], times["Using tensor cores"], times["Memory"]) == (10, 5, None, None)


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", HostPhase.DATALOADER),
        ("IteratorGetNext", HostPhase.DATALOADER),
        ("get next batch", HostPhase.DATALOADER),
        ("load_batch", HostPhase.DATALOADER),
        ("data_loading", HostPhase.DATALOADER),
        ("save/SaveV2", HostPhase.IO),
        ("saving model", HostPhase.IO),
        ("checkpoint_save", HostPhase.IO),
        ("CheckpointFunction", HostPhase.NONE),
        ("aten::batch_norm", HostPhase.NONE),
        ("aten::_local_scalar_dense", HostPhase.NONE),
        ("iteration 3", HostPhase.NONE),
    ],
)
def test_host_phases_are_recognized_by_name(name: str, phase: HostPhase) -> None:
    assert host_phases_by_name(pl.Series([name])).tolist() == [phase]


@pytest.mark.parametrize("name", ["dlprof/dlprof_dldb.sqlite", "dlprof/w_Relu/dlprof_dldb.sqlite"])
def test_the_breakdown_agrees_with_dlprof(corpus: Callable[[str], str], name: str) -> None:
    profile = load_one(corpus(name))
    figures = profile["tool_figures"].filter(pl.col("section") == "Resource Usage Breakdown")
    dlprof_pct = {title.lower(): value for title, value in figures.select("name", "value").iter_rows()}
    rows = breakdown(profile)
    for category, pct in rows.select("category", "wall_pct").iter_rows():
        assert dlprof_pct[category.lower()] == pytest.approx(pct or 0.0, abs=1e-6)
    wall = profile["tool_figures"].filter(pl.col("name") == "Wall Clock Time")["value"].item()
    assert rows["wall_ns"].unique().to_list() == [int(wall)]


INTERVALS = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 60), st.integers(0, 1)), max_size=8)


@given(INTERVALS, INTERVALS, INTERVALS, INTERVALS)
def test_categories_add_up_to_the_wall_time(
    kernels: list[tuple[int, int, int]],
    memory: list[tuple[int, int, int]],
    ops: list[tuple[int, int, int]],
    calls: list[tuple[int, int, int]],
) -> None:
    kernel_names = (TENSOR_CORE_KERNEL, "volta_sgemm", "who knows")
    profile = make_profile(
        devices=[H100, {**H100, "device": 1}],
        activities=[
            *(kernel(kernel_names[length % 3], length, start_ns=start, device=device)
              for start, length, device in kernels),
            *(copy("HtoD", length, start_ns=start, device=device) for start, length, device in memory),
        ],
        ops=[{"op": number, "name": ("load data", "aten::mm")[name_index], "start_ns": start, "duration_ns": length}
             for number, (start, length, name_index) in enumerate(ops)],
        api_calls=[{"name": "cudaFree", "start_ns": start, "duration_ns": length} for start, length, _ in calls],
    )  # fmt: skip
    for rows, keys in ((breakdown(profile), ["session"]), (breakdown_by_device(profile), ["session", "device"])):
        assert (rows["time_ns"].fill_null(0) >= 0).all()
        sums = rows.group_by(keys).agg(pl.col("time_ns", "wall_pct").sum(), pl.col("wall_ns").first())
        assert sums["time_ns"].to_list() == sums["wall_ns"].to_list()
        for pct, wall in sums.select("wall_pct", "wall_ns").iter_rows():
            assert pct == pytest.approx(100 if wall else 0)
        assert set(rows["category"]) <= set(map(str, Category))


def test_verdicts_by_launch_agree_with_verdicts_by_name() -> None:
    profile = make_profile(
        devices=[H100, {**K40, "device": 1}],
        activities=[
            *(kernel(name, 1, start_ns=0, device=device) for name in (TENSOR_CORE_KERNEL, "volta_sgemm", "who knows")
              for device in (0, 1, None)),
            kernel("told", 1, start_ns=0, device=1, uses_tensor_core=True),
            kernel(TENSOR_CORE_KERNEL, 1, start_ns=0, device=0, uses_tensor_core=False),
            {"kind": "graph", "name": "[CUDA graph 3]", "duration_ns": 1, "device": 1},
            copy("HtoD", 1, device=0),
        ],
    )  # fmt: skip
    verdicts = with_verdicts(profile, profile["activities"])
    use_of_verdict = {True: GpuUse.YES, False: GpuUse.NO, None: GpuUse.UNKNOWN}
    expected = [
        GpuUse.MEMORY if kind == "memcpy" else use_of_verdict[verdict]
        for kind, verdict in verdicts.select("kind", "uses_tensor_core").iter_rows()
    ]
    assert gpu_uses(profile).tolist() == expected
    assert set(expected) == set(GpuUse)
