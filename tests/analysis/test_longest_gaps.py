"""The longest gaps are the first rows of the table of all gaps."""

from __future__ import annotations

import pytest
from polars.testing import assert_frame_equal

from tests.analysis.frames import kernel, make_profile
from tests.profiles import SAMPLES, load_one
from tui.analysis.gpu_time.idle_gaps import gaps, longest_gaps


@pytest.mark.parametrize(
    "name", ["caffe_conv1.nvprof.log", "resnet50_training.pt.trace.json.gz", "gpt_cudagraph.nsys.sqlite.gz"]
)
@pytest.mark.parametrize("count", [1, 6])
def test_the_longest_gaps_are_the_first_of_all_gaps(name: str, count: int) -> None:
    profile = load_one(str(SAMPLES / name))
    assert_frame_equal(longest_gaps(profile, count), gaps(profile).head(count))


def test_gaps_of_several_gpus_are_sorted_together() -> None:
    rows = [
        kernel("k", 10, start_ns=start, device=device) for device, start in ((0, 0), (0, 30), (1, 0), (1, 15), (1, 100))
    ]
    calls = [
        {"name": "cudaFree", "start_ns": 26, "duration_ns": 50},
        {"name": "cudaMalloc", "start_ns": 0, "duration_ns": 9},
    ]
    profile = make_profile(activities=rows, api_calls=calls)
    assert_frame_equal(longest_gaps(profile, 3), gaps(profile).head(3))
    assert longest_gaps(profile, 2).select("device", "duration_ns", "cpu_in").rows() == [
        (1, 75, "memory call"),
        (0, 20, "outside API calls"),
    ]
    assert longest_gaps(make_profile(), 3).is_empty()
