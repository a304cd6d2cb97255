"""GPUs that the input lists twice or with zeros."""

from __future__ import annotations

import polars as pl

from tui.analysis.occupancy import occupancy
from tui.analysis.tensor_core_use import kernel_verdicts
from tui.loaders.collector import Collector


def test_a_gpu_has_one_row_and_0_is_unknown() -> None:
    collector = Collector("a.db")
    collector.open_session("dlprof-database", None)
    gpus = [(0, None, "7.0", 0), (0, "Tesla V100-SXM2-16GB", None, 80), (1, "Graphics 3000", "0.0", -1)]
    schema = {"device": pl.Int32, "name": pl.String, "compute_capability": pl.String, "sm_count": pl.Int32}
    collector.add_frame("devices", pl.DataFrame(gpus, schema=schema, orient="row"))
    collector.add_device(1, "Graphics 3000")
    shape = {f"{shape_name}_{axis}": 1 for shape_name in ("grid", "block") for axis in "xyz"}
    launch = {"kind": "kernel", "name": "volta_h884gemm", "duration_ns": 5, "registers": 8, "shared_bytes": 0, **shape}
    collector.add_frame("activities", pl.DataFrame([{**launch, "device": device} for device in (0, 1)]))
    profile = collector.profile()
    assert profile["devices"].select("device", "name", "compute_capability", "sm_count").rows() == [
        (0, "Tesla V100-SXM2-16GB", "7.0", 80),
        (1, "Graphics 3000", None, None),
    ]
    # Otherwise each launch on a GPU counts as often as the GPU is told, and waves are without end.
    assert kernel_verdicts(profile).sort("device").select("device", "launches", "uses_tensor_core").rows() == [
        (0, 1, True),
        (1, 1, True),
    ]
    assert occupancy(profile).sort("device").select("device", "calls", "waves").rows() == [
        (0, 1, 1 / (32 * 80)),
        (1, 1, None),
    ]
