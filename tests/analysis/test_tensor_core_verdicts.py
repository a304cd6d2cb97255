"""Verdicts on tensor cores, by precedence: recorded, by GPU, by kernel name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.analysis.frames import Row, copy, kernel, make_profile, summary_row
from tests.corpus import corpus_file, recording_file
from tests.profiles import load_one
from tui.analysis import tensor_core_use
from tui.analysis.kernels import kernels, launches
from tui.analysis.launch_calls import launch_origin
from tui.analysis.ops.op_costs import recorded_ops
from tui.analysis.ops.op_instances import recorded_op_kernels, recorded_op_launches
from tui.analysis.tensor_core_use import (
    AS_RECORDED,
    ASSUMED,
    kernel_verdicts,
    tensor_cores_by_name,
    verdicts_by_name,
)

MEASURED = Path(__file__).parents[1] / "data/measured/tensor_cores_h200.tsv"
HALF = "turing_fp16_s1688cudnn_fp16_256x128_ldg8_relu_f2f_exp_medium_nhwc_tn_v1"
SINGLE = "volta_sgemm_128x32_nn"
BY_NAME = "1688 or 8816: an instruction of Turing's tensor cores"
NO_GEMM = "a gemm without a tensor core instruction in its name"


def verdict_for(row: Row, **device: Any) -> tuple[bool | None, str]:
    profile = make_profile(activities=[{"device": 0, **row}], devices=[{"device": 0, **device}])
    return kernel_verdicts(profile).select("uses_tensor_core", "tensor_core_reason").row(0)


@pytest.mark.parametrize(
    ("row", "device", "expected"),
    [
        (kernel(HALF, 1), {"name": "Tesla T4"}, (True, BY_NAME)),
        (kernel(SINGLE, 1), {"name": "Tesla T4"}, (False, NO_GEMM)),
        (kernel("Kernel", 1), {"name": "Tesla T4"}, (None, "not evident from its name")),
        (kernel(HALF, 1), {"name": "Tesla K40c"}, (False, "compute capability 3.5 has none")),
        (kernel("Kernel", 1), {"compute_capability": "6.1"}, (False, "compute capability 6.1 has none")),
        (kernel(HALF, 1), {"compute_capability": "10.0"}, (True, BY_NAME)),
        (kernel(HALF, 1), {"name": "NVIDIA GeForce GTX 1660 Ti"}, (False, "NVIDIA GeForce GTX 1660 Ti has none")),
        (kernel(HALF, 1), {"name": "GeForce GTX 165"}, (False, "GeForce GTX 165 has none")),
        (kernel(HALF, 1), {"name": "GeForce MX450", "compute_capability": "7.5"}, (False, "GeForce MX450 has none")),
        (kernel(HALF, 1), {"name": "Quadro T2000", "compute_capability": "7.5"}, (False, "Quadro T2000 has none")),
        (kernel(HALF, 1), {"name": "GeForce GTX 1080"}, (False, "compute capability 6.1 has none")),
        (kernel(HALF, 1), {}, (True, ASSUMED.format(BY_NAME))),
        (kernel(SINGLE, 1), {"name": "Graphics 3000"}, (False, ASSUMED.format(NO_GEMM))),
        (kernel("Kernel", 1), {}, (None, "not evident from its name")),
        (
            kernel("Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_MI32x32x8", 1),
            {"name": "AMD Instinct MI250X", "compute_capability": "9.0"},
            (True, "a Tensile matrix instruction (MI)"),
        ),
        # Recorded verdicts take precedence over the GPU and the name.
        (
            kernel(SINGLE, 1, uses_tensor_core=True, tensor_core_reason="ncu: pipe"),
            {"name": "K40c"},
            (True, "ncu: pipe"),
        ),
        (kernel(HALF, 1, uses_tensor_core=False), {"name": "Tesla T4"}, (False, AS_RECORDED)),
        (copy("HtoD", 1), {"name": "Tesla T4"}, (False, "not applicable to memory operations")),
        (
            {"kind": "graph", "name": "g", "duration_ns": 1},
            {"name": "K40c"},
            (None, "CUDA graph recorded as a whole"),
        ),
    ],
)
def test_precedence_of_the_sources(row: Row, device: Row, expected: tuple[bool | None, str]) -> None:
    assert verdict_for(row, **device) == expected


def test_a_kernel_uses_tensor_cores_if_any_launch_on_a_gpu_does() -> None:
    profile = make_profile(
        activities=[kernel(HALF, 5, device=0), kernel(HALF, 90, device=1), kernel(SINGLE, 2, device=1)],
        devices=[{"device": 0, "name": "Tesla T4"}, {"device": 1, "name": "Tesla K40c"}],
    )
    rows = kernel_verdicts(profile).sort("name", "device")
    assert rows.select("device", "launches", "total_ns", "uses_tensor_core").rows() == [
        (0, 1, 5, True),
        (1, 1, 90, False),
        (1, 1, 2, False),
    ]
    assert verdicts_by_name(profile).sort("name").rows() == [
        (0, "kernel", HALF, True, BY_NAME),
        (0, "kernel", SINGLE, False, "compute capability 3.5 has none"),
    ]
    assert kernels(profile).select("name", "uses_tensor_core").rows() == [(HALF, True), (SINGLE, False)]
    assert launches(profile, session=0, name=HALF)["uses_tensor_core"].to_list() == [True, False]


def test_a_kernel_with_unmeasured_launches_is_unknown_unless_one_uses_tensor_cores() -> None:
    def verdict_over(*values: bool | None) -> bool | None:
        profile = make_profile(activities=[kernel("Kernel", 1, uses_tensor_core=value) for value in values])
        return kernels(profile)["uses_tensor_core"].item()

    assert [
        verdict_over(True, None),
        verdict_over(False, None),
        verdict_over(False, False),
        verdict_over(True, False),
    ] == [
        True,
        None,
        False,
        True,
    ]


def test_printed_totals_have_verdicts() -> None:
    rows = [summary_row("gpu", HALF, 2, 10), summary_row("gpu", "[CUDA memcpy HtoD]", 1, 5)]
    profile = make_profile(
        summary=rows, devices=[{"device": 0, "name": "Tesla K40c"}, {"device": 1, "name": "Tesla K40m"}]
    )
    assert kernels(profile).select("name", "uses_tensor_core", "tensor_core_reason").rows() == [
        (HALF, False, "compute capability 3.5 has none"),
        ("[CUDA memcpy HtoD]", False, "not applicable to memory operations"),
    ]
    two_generations = make_profile(
        summary=rows, devices=[{"device": 0, "name": "Tesla K40c"}, {"device": 1, "name": "Tesla T4"}]
    )
    assert kernels(two_generations)["tensor_core_reason"].to_list()[0] == ASSUMED.format(BY_NAME)


def test_the_gpu_option_decides_in_all_tables() -> None:
    unknown_gpu = make_profile(activities=[kernel(HALF, 1, op=0)], ops=[{"op": 0, "name": "aten::conv2d"}])
    kepler = replace(unknown_gpu, gpu="Tesla K40c")
    for profile, uses, reason in (
        (unknown_gpu, True, ASSUMED.format(BY_NAME)),
        (kepler, False, "compute capability 3.5 has none"),
    ):
        assert kernels(profile)["tensor_core_reason"].to_list() == [reason]
        assert launches(profile, session=0, name=HALF)["tensor_core_reason"].to_list() == [reason]
        origin = launch_origin(profile, 0)
        assert (origin.uses_tensor_core, origin.tensor_core_reason) == (uses, reason)
        assert recorded_ops(profile)["uses_tensor_core"].to_list() == [uses]
        op_key = {"session": 0, "op": "aten::conv2d"}
        assert recorded_op_kernels(profile, **op_key)["uses_tensor_core"].to_list() == [uses]
        launch_key = {"kind": "kernel", "name": HALF, "launched_by": "aten::conv2d"}
        assert recorded_op_launches(profile, **op_key, **launch_key)["uses_tensor_core"].to_list() == [uses]


def test_the_users_rules_take_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tensor_cores.toml"
    path.write_text("[[rule]]\nverdict = 'yes'\npattern = '^my_mma'\nreason = 'I wrote it'\n")
    monkeypatch.setattr(tensor_core_use, "tensor_core_rules_path", lambda: path)
    assert verdict_for(kernel("my_mma_kernel", 1), name="Tesla T4") == (True, "I wrote it")
    assert verdict_for(kernel(HALF, 1), name="Tesla T4") == (True, BY_NAME)


def test_kernels_of_a_kepler_log_use_no_tensor_cores() -> None:
    rows = kernels(load_one(corpus_file("seeds/000_eb78dec59201d654.txt")))
    assert set(rows.filter(pl.col("kind") == "kernel").select("uses_tensor_core", "tensor_core_reason").rows()) == {
        (False, "compute capability 3.5 has none")
    }


def test_single_precision_uses_tensor_cores_if_tf32_is_allowed() -> None:
    def shares(name: str) -> tuple[float, float]:
        """Return the percentages of kernel time with tensor cores and with unknown use."""
        rows = kernels(load_one(recording_file(name))).filter(pl.col("kind") == "kernel")
        by_verdict = dict(rows.group_by("uses_tensor_core").agg(pl.col("total_ns").sum()).rows())
        total_ns = sum(by_verdict.values())
        return round(100 * by_verdict[True] / total_ns, 1), 100 * by_verdict.get(None, 0) / total_ns

    for name, expected_pct in (("resnet50_amp", 30.3), ("resnet50_fp32", 31.4)):
        use_pct, unknown_pct = shares(f"{name}.pt.trace.json.gz")
        assert use_pct == expected_pct
        assert unknown_pct < 0.5


def test_names_agree_with_measurements_on_an_h200() -> None:
    """The measurements are matrix instructions of two training steps (PyTorch 2.11, Nsight Compute 2025.3)."""
    measured = pl.read_csv(MEASURED, separator="\t")
    by_name = tensor_cores_by_name(measured["kernel"]).with_columns(pl.col("name").cast(pl.String))
    compared = measured.join(by_name, left_on="kernel", right_on="name", how="left")
    differing = compared.filter(pl.col("uses_tensor_core_right").ne_missing(pl.col("uses_tensor_core") == "yes"))
    assert measured["uses_tensor_core"].value_counts(sort=True).rows() == [("no", 46), ("yes", 11)]
    assert differing["kernel"].to_list() == []
