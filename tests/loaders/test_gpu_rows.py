"""GPUs that the input tells twice, or of which it says 0."""

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
    shape = {f"{of}_{axis}": 1 for of in ("grid", "block") for axis in "xyz"}
    launch = {"kind": "kernel", "name": "volta_h884gemm", "duration_ns": 5, "registers": 8, "shared_bytes": 0, **shape}
    collector.add_frame("activities", pl.DataFrame([{**launch, "device": device} for device in (0, 1)]))
    found = collector.profile()
    assert found["devices"].select("device", "name", "compute_capability", "sm_count").rows() == [
        (0, "Tesla V100-SXM2-16GB", "7.0", 80),
        (1, "Graphics 3000", None, None),
    ]
    # Otherwise each launch on a GPU counts as often as the GPU is told, and waves are without end.
    assert kernel_verdicts(found).sort("device").select("device", "launches", "uses_tensor_core").rows() == [
        (0, 1, True),
        (1, 1, True),
    ]
    assert occupancy(found).sort("device").select("device", "calls", "waves").rows() == [
        (0, 1, 1 / (32 * 80)),
        (1, 1, None),
    ]
