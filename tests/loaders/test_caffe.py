"""`caffe time`: the network of its log, the layers' times, and the time of passes outside their layers."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

DUMP = """\
name: "small"
input: "data"
input_shape {
  dim: 16
  dim: 4
  dim: 28
  dim: 30
}
layer {
  name: "conv1"
  type: "Convolution"
  bottom: "data"
  top: "conv1"
  convolution_param {
    num_output: 8
    kernel_h: 5
    kernel_w: 3
    group: 2
    bias_term: false
    weight_filler {
      type: "xavier"
    }
  }
}
layer {
  name: "relu 1"
  type: "ReLU"
  bottom: "conv1"
  top: "conv1"
}
layer {
  name: "fc2"
  type: "InnerProduct"
  bottom: "conv1"
  top: "fc2"
  inner_product_param {
    num_output: 10
  }
}
layer {
  name: "up"
  type: "Deconvolution"
  bottom: "conv1"
  top: "up"
  convolution_param {
    num_output: 6
    kernel_size: 4
  }
}
"""

SET_UP = (
    ("conv1", "data", "conv1", "16 8 24 28"),
    ("relu 1", "conv1", "conv1 (in-place)", "16 8 24 28"),
    ("fc2", "conv1", "fc2", "16 10"),
    ("up", "conv1", "up", "16 6 27 31"),
)

TIMES = (
    ("conv1", "1.5", "3.25"),
    ("relu 1", "0.0019584", "0.001"),
    ("fc2", "0.5", "0.75"),
    ("up", "2", "4"),
)


def log(message: str, level: str = "I", pid: int = 77) -> str:
    return f"{level}0412 09:41:15.849504  {pid} caffe.cpp:297] {message}\n"


def set_up() -> str:
    text = log("Initializing net from parameters: ") + DUMP
    for layer, bottom, top, shape in SET_UP:
        text += log(f"Creating Layer {layer}") + log(f"{layer} <- {bottom}") + log(f"{layer} -> {top}")
        text += log(f"Setting up {layer}") + log(f"Top shape: {shape} (1)")
    return text


def times(pid: int = 77, iterations: int = 10) -> str:
    text = log("*** Benchmark begins ***", pid=pid) + log(f"Testing for {iterations} iterations.", pid=pid)
    text += log("Average time per layer: ", pid=pid)
    for layer, forward, backward in TIMES:
        text += log(f"{layer:>10}\tforward: {forward} ms.", pid=pid)
        text += log(f"{layer:>10}\tbackward: {backward} ms.", pid=pid)
    text += log("Average Forward pass: 4.1 ms.", pid=pid) + log("Average Backward pass: 8.001 ms.", pid=pid)
    return text + log("Average Forward-Backward: 12.2 ms.", pid=pid) + log("*** Benchmark ends ***", pid=pid)


def read(text: str) -> Profile:
    return load_input("-", stream=BytesIO(text.encode()))


def reasons(profile: Profile, severity: str) -> list[str]:
    return profile["issues"].filter(pl.col("severity") == severity)["reason"].to_list()


def test_a_layer_has_all_values_of_the_log() -> None:
    layers = read(set_up() + times())["layers"]

    first = layers.row(0, named=True)
    assert first.pop("line") == set_up().count("\n") + 4
    assert first == {
        "session": 0,
        "model": "small",
        "position": 0,
        "layer": "conv1",
        "op_type": "Convolution",
        "phase": "forward",
        "output_shape": "16x8x24x28",
        "filter_shape": "8x2x5x3",
        "params": 240,
        "executor": "caffe",
        "algorithm": None,
        "workspace_bytes": None,
        "time_ns": 1_500_000,
        **dict.fromkeys(("median_ns", "total_ns", "calls")),
        "measured": True,
        "predicted_ns": None,
        "predicted_algorithm": None,
    }


def test_weights_are_reported_where_the_shapes_prove_them() -> None:
    layers = read(set_up() + times())["layers"].filter(phase="backward")

    assert layers.select("position", "layer", "op_type", "filter_shape", "params", "time_ns").rows() == [
        (0, "conv1", "Convolution", "8x2x5x3", 240, 3_250_000),
        (1, "relu 1", "ReLU", None, None, 1_000),
        (2, "fc2", "InnerProduct", "10x5376", 53_770, 750_000),
        (3, "up", "Deconvolution", "8x6x4x4", 774, 4_000_000),
    ]


def test_times_are_exact() -> None:
    layers = read(times())["layers"].filter(phase="forward")

    assert layers["time_ns"].to_list() == [1_500_000, 1_958, 500_000, 2_000_000]


def test_without_a_dump_the_network_stays_unknown() -> None:
    layers = read(times())["layers"]

    assert layers.height == 8
    assert layers.select("model", "op_type", "output_shape", "filter_shape", "params").null_count().row(0) == (8,) * 5


def test_time_of_a_pass_outside_its_layers_is_reported() -> None:
    profile = read(set_up() + times())

    assert reasons(profile, "info") == [
        "4.1 ms forward, an average (iterations: 10); 0.098042 ms outside the layers",
        "8.001 ms backward, an average (iterations: 10); 0 ms outside the layers",
        "12.2 ms forward and backward, an average (iterations: 10); 0.197042 ms outside the layers",
    ]
    assert reasons(profile, "warning") == []


def test_layers_longer_than_their_pass_are_a_warning() -> None:
    profile = read(times().replace("Forward pass: 4.1 ms", "Forward pass: 4.0 ms"))

    assert reasons(profile, "warning") == ["the layers above add up to 0.001958 ms more than this forward pass"]


def test_layers_that_the_cpu_ran_are_told_apart() -> None:
    on_cpu, on_gpu = log("Use CPU.") + times(), log("Use GPU with device ID 0") + times(pid=78)
    profile = read(on_cpu + on_gpu)
    assert profile["layers"].group_by("session", "executor", maintain_order=True).len().rows() == [
        (0, "caffe (CPU)", 8),
        (1, "caffe", 8),
    ]


def test_whole_milliseconds_of_all_iterations_are_no_contradiction() -> None:
    """Without GPU, 10 iterations of 12.0039 to 12.1039 ms are 120 ms: 12 on average."""
    profile = read(times().replace("Forward-Backward: 12.2 ms", "Forward-Backward: 12 ms"))
    assert reasons(profile, "warning") == []
    assert "12 ms forward and backward, an average (iterations: 10); 0 ms outside the layers" in reasons(
        profile, "info"
    )
    profile = read(times().replace("Forward-Backward: 12.2 ms", "Forward-Backward: 11.9 ms"))
    assert reasons(profile, "warning") == [
        "the layers above add up to 0.102958 ms more than this forward and backward pass"
    ]


WITHOUT_PREFIX = """\
$ ./build/tools/caffe time --model=net.prototxt --iterations=50
Average time per layer: \n\
      data   forward: 0.004 ms.
      data   backward: 0.002 ms.
(left out)
block/1x1     forward: 4.5 ms.
block/1x1     backward: 1.25 ms.
Average Forward pass: 5 ms.
Average Backward pass: 1.5 ms.
Average Forward-Backward: 6.5 ms.
Total Time: 325 ms.
*** Benchmark ends ***
"""


@pytest.mark.parametrize("lead", ["", "> ", "    "])
def test_a_log_without_prefixes(lead: str) -> None:
    text = "\n".join(lead + line for line in WITHOUT_PREFIX.splitlines())
    profile = read(text)
    assert profile["layers"].select("layer", "phase", "time_ns", "position", "line").rows() == [
        ("data", "forward", 4_000, 0, 3),
        ("data", "backward", 2_000, 0, 4),
        ("block/1x1", "forward", 4_500_000, 1, 6),
        ("block/1x1", "backward", 1_250_000, 1, 7),
    ]
    assert reasons(profile, "info") == [
        "5 ms forward, an average; 0.496 ms outside the layers",
        "1.5 ms backward, an average; 0.248 ms outside the layers",
        "6.5 ms forward and backward, an average; 0.744 ms outside the layers",
    ]
    assert profile["sessions"]["pid"].to_list() == [None]


def test_times_of_other_programs_are_no_layers() -> None:
    text = WITHOUT_PREFIX.replace("Average time per layer", "Times")
    with pytest.raises(ProftuiError, match="a part of a caffe time log, without layers"):
        read(text)
    with pytest.raises(ProftuiError, match="no profile found"):
        read(text.replace("Average ", "Mean "))


def test_excerpts_with_the_tabs_of_caffe() -> None:
    excerpt = "ours:\nmix1\tforward: 1.5 ms.\nmix1\tbackward: 2 ms.\nAverage Forward-Backward: 8.5 ms.\n"
    profile = read(excerpt + "theirs:\n" + excerpt.replace("1.5", "4"))
    assert profile["layers"].select("session", "layer", "phase", "time_ns").rows() == [
        (0, "mix1", "forward", 1_500_000),
        (0, "mix1", "backward", 2_000_000),
        (1, "mix1", "forward", 4_000_000),
        (1, "mix1", "backward", 2_000_000),
    ]


def test_the_oldest_versions_print_all_iterations_together() -> None:
    text = log("Testing for 4 iterations.", "E")
    text += log("conv1\tforward: 6.0 milli seconds.", "E") + log("fc2\tforward: 2.0 milli seconds.", "E")
    text += log("Forward pass: 8.4 milli seconds.", "E")
    text += log("fc2\tbackward: 4 milliseconds.", "E") + log("conv1\tbackward: 14 milliseconds.", "E")
    text += log("Backward pass: 18 milliseconds.", "E")

    profile = read(text)

    assert profile["layers"].select("layer", "position", "phase", "time_ns").rows() == [
        ("conv1", 0, "forward", 1_500_000),
        ("fc2", 1, "forward", 500_000),
        ("fc2", 1, "backward", 1_000_000),
        ("conv1", 0, "backward", 3_500_000),
    ]
    assert reasons(profile, "info") == [
        "2.1 ms forward, an average (iterations: 4); 0.1 ms outside the layers",
        "4.5 ms backward, an average (iterations: 4); 0 ms outside the layers",
    ]
    assert reasons(profile, "warning") == []


def test_all_iterations_together_without_their_number_stay_unknown() -> None:
    profile = read(log("conv1\tforward: 6.0 milliseconds."))

    assert profile["layers"]["time_ns"].to_list() == [None]
    assert "the log does not record their number" in reasons(profile, "warning")[0]


@pytest.mark.parametrize("time", ["nan", "inf", "-nan", "1e300"])
def test_implausible_times_stay_unknown(time: str) -> None:
    profile = read(times().replace("forward: 1.5 ms", f"forward: {time} ms"))

    assert profile["layers"]["time_ns"].to_list()[:2] == [None, 3_250_000]
    assert "implausible time for a pass: shown as unknown" in reasons(profile, "warning")


def test_a_separate_benchmark_is_a_session() -> None:
    sessions = read("\n" + set_up() + times())["sessions"]

    assert sessions.select("format", "pid", "framework").rows() == [("caffe", 77, "Caffe")]


def test_further_benchmarks_are_further_sessions() -> None:
    profile = read(times() + times() + times(pid=78))

    assert profile["sessions"]["pid"].to_list() == [77, 77, 78]
    assert profile["layers"].group_by("session", maintain_order=True).len().rows() == [(0, 8), (1, 8), (2, 8)]


def test_a_truncated_log_is_reported() -> None:
    truncated = times()[: times().index("I0412", times().index("fc2\tforward"))]

    profile = read(truncated)

    assert profile["layers"].height == 5
    assert reasons(profile, "warning") == ["the log ends before the averages of this benchmark: layers may be missing"]


def test_a_training_log_alone_is_not_a_profile() -> None:
    with pytest.raises(ProftuiError, match="no profile found"):
        read(set_up() + log("Iteration 100, loss = 0.25"))


@given(st.integers(0, len(set_up())), st.text(max_size=40), st.integers(0, 200))
def test_damage_in_the_network_affects_no_time(position: int, inserted: str, removed: int) -> None:
    before = set_up()

    layers = read(before[:position] + inserted + before[position + removed :] + "\n" + times())["layers"]

    assert layers["time_ns"].sum() == 12_002_958


@pytest.mark.parametrize(
    ("name", "rows", "params", "forward_ms", "backward_ms"),
    [
        ("alexnet", 34, 61_100_840, 42.405, 86.2657),
        ("googlenet", 298, 4_422_848, 146.263, 338.261),
        ("overfeat", 34, 145_920_872, 142.054, 287.975),
        ("vgg_a", 50, 132_863_336, 222.822, 457.345),
    ],
)
def test_real_logs(
    corpus: Callable[[str], str], name: str, rows: int, params: int, forward_ms: float, backward_ms: float
) -> None:
    profile = load_input(corpus(f"caffe/convnet_benchmarks_output_{name}.log"))

    layers = profile["layers"]
    assert layers.height == rows
    assert layers.filter(phase="forward")["params"].sum() == params
    assert layers["output_shape"].null_count() == 0
    for phase, whole_ms in (("forward", forward_ms), ("backward", backward_ms)):
        share = layers.filter(phase=phase)["time_ns"].sum() / (whole_ms * 1e6)
        assert 0.99 < share < 1
    assert reasons(profile, "warning") == []


@pytest.mark.parametrize("name", ["convnet_benchmarks_tensorflow_alexnet.log", "convnet_benchmarks_torch7.log"])
def test_benchmarks_of_other_frameworks_are_declined(corpus: Callable[[str], str], name: str) -> None:
    with pytest.raises(ProftuiError, match="no profile found"):
        load_input(corpus(f"caffe/{name}"))


def test_a_damaged_line_within_a_benchmark_is_reported() -> None:
    log = "I1230 17:32:19.{0}  6463 caffe.cpp:363]      conv{0}\tforward: 4.5 ms."
    text = "\n".join([log.format(1), log.format(2).replace("caffe.cpp:363]", "caffe.cpp"), log.format(3)])
    profile = load_input("-", stream=BytesIO(text.encode()))
    assert profile["layers"]["layer"].to_list() == ["conv1", "conv3"]
    assert profile["issues"].filter(line=2)["severity"].to_list() == ["warning"]


@pytest.mark.parametrize("lead", ["> ", "    ", "# ", "2020-05-01T10:11:12.1234567Z "])
def test_a_log_with_quote_marks_or_tags(lead: str) -> None:
    log = [f"I1230 17:32:19.{number}  6463 caffe.cpp:363]      conv{number}\tforward: 4.5 ms." for number in (1, 2)]
    profile = load_input("-", stream=BytesIO("\n".join(lead + line for line in log).encode()))
    assert profile["layers"].select("layer", "time_ns", "line").rows() == [
        ("conv1", 4_500_000, 1),
        ("conv2", 4_500_000, 2),
    ]
