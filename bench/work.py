"""The measured functions; each takes a path and returns the number of rows, and seconds if only a part counts."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from tui.analysis.found_profiles import find_profiles
from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.ops.op_costs import recorded_ops
from tui.loaders.chrome_trace.read_trace import read_trace
from tui.loaders.input_file import InputFile
from tui.loaders.kineto.events import WANTED_ARGS
from tui.loaders.registry import load, load_input
from tui.model.profile import Profile, merge_profiles
from tui.model.schema import NAME
from tui.tables import table


def read_bytes(path: str) -> int:
    """Read a file's bytes, 4 MiB at a time."""
    with Path(path).open("rb", buffering=0) as file:
        while file.read(4 << 20):
            pass
    return 0


def read_csv(path: str) -> int:
    """Read a clean CSV with Polars, types inferred."""
    return pl.read_csv(path).height


def load_profile(path: str) -> int:
    """Open a log as proftui does, up to the checked frames."""
    profile = load_input(path)
    return profile["activities"].height + profile["api_calls"].height


def _first_look(path: str, table_name: str, change: Callable[[Profile], Profile] | None = None) -> tuple[int, float]:
    """The rows of a table, and the seconds when its view is first opened.

    Args:
        path: The file.
        table_name: The table.
        change: Changes the profile to one that feeds the view.
    """
    profile = load_input(path)
    profile = with_iterations(profile if change is None else change(profile))
    recorded_ops(profile)  # as opening the file does
    began = time.perf_counter()
    table(table_name).rows(profile)
    return profile["activities"].height, time.perf_counter() - began


def critical_paths(path: str) -> tuple[int, float]:
    """The critical paths of all iterations."""
    return _first_look(path, "critical_paths")


def critical_path(path: str) -> tuple[int, float]:
    """The critical path of one iteration, with slack and the savings of halving its work."""
    return _first_look(path, "critical_path")


def roofline(path: str) -> tuple[int, float]:
    """FLOPs and bytes of all ops by shape."""
    return _first_look(path, "op_work_by_shape")


def group_ops(path: str) -> tuple[int, float]:
    """The tree of modules, with forward and backward."""
    return _first_look(path, "op_forest")


def flame(path: str) -> tuple[int, float]:
    """The flame graph of groups, ops and kernels."""
    return _first_look(path, "flame")


def server_steps(path: str) -> tuple[int, float]:
    """Steps of a server by phase: half of them prefill."""
    named = pl.col("name").cast(pl.String)
    even = pl.col("iteration") % 2 == 0
    step = (
        pl.when(even)
        .then(pl.lit("execute_context_1(512)_generation_0(0)"))
        .otherwise(pl.lit("execute_context_0(0)_generation_32(32)"))
    )

    def as_server(profile: Profile) -> Profile:
        name = pl.when(pl.col("iteration").is_not_null()).then(step).otherwise(named).cast(NAME)
        return _with_frames(profile, ranges=profile["ranges"].with_columns(name.alias("name")))

    return _first_look(path, "phases", as_server)


def graphs(path: str) -> tuple[int, float]:
    """Graphs with their replays: each step is one."""

    def as_graphs(profile: Profile) -> Profile:
        first = pl.col("correlation").first().over("session", "iteration")
        activities = profile["activities"].sort("start_ns", maintain_order=True).with_columns(first)
        name = pl.lit("cudaGraphLaunch", dtype=pl.String).cast(NAME)
        launches = pl.col("correlation").is_in(activities["correlation"].unique().implode())
        calls = profile["api_calls"].with_columns(pl.when(launches).then(name).otherwise("name").alias("name"))
        return _with_frames(profile, activities=activities, api_calls=calls)

    return _first_look(path, "cuda_graphs", as_graphs)


def loops(path: str) -> tuple[int, float]:
    """Nested loops and candidate keys of iterations, without marked steps."""

    def unmarked(profile: Profile) -> Profile:
        none = pl.lit(None, pl.Int32).alias("iteration")
        return _with_frames(
            profile, **{name: profile[name].with_columns(none) for name in ("activities", "ops", "ranges")}
        )

    return _first_look(path, "key_choices", unmarked)


def collectives(path: str) -> tuple[int, float]:
    """Collectives of two ranks with the activity of the last rank: the trace twice, every twentieth kernel as one."""

    def as_ranks(profile: Profile) -> Profile:
        name = pl.lit("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", dtype=pl.String).cast(NAME)
        is_one = (pl.col("kind") == "kernel") & (pl.int_range(pl.len()) % 20 == 0)
        activities = profile["activities"].with_columns(pl.when(is_one).then(name).otherwise("name").alias("name"))
        sessions = profile["sessions"]
        return merge_profiles(
            [
                _with_frames(
                    profile,
                    activities=activities,
                    sessions=sessions.with_columns(pl.lit(rank, pl.Int32).alias("rank")),
                )
                for rank in range(2)
            ]
        )

    return _first_look(path, "collectives", as_ranks)


def _with_frames(profile: Profile, **frames: pl.DataFrame) -> Profile:
    return replace(profile, frames={**profile.frames, **frames})


def home(path: str) -> tuple[int, float]:
    """The list of profiles in the folder of a file and below it."""
    began = time.perf_counter()
    found = find_profiles(str(Path(path).parent))
    return len(found.profiles), time.perf_counter() - began


def read_trace_events(path: str) -> int:
    """Read all events of a trace with the arguments that the loader needs."""
    return read_trace(InputFile.open(path), WANTED_ARGS).complete.height


def parse_with_orjson(path: str) -> tuple[int, float]:
    """Parse a document that was read before."""
    import orjson

    data = Path(path).read_bytes()
    began = time.perf_counter()
    document = orjson.loads(data)
    return len(document["traceEvents"]), time.perf_counter() - began


def parse_with_json(path: str) -> tuple[int, float]:
    """The same without orjson."""
    data = Path(path).read_bytes()
    began = time.perf_counter()
    document = json.loads(data)
    return len(document["traceEvents"]), time.perf_counter() - began


def load_together(path: str) -> int:
    """Open a folder of ranks as proftui does."""
    profile, errors = load([path])
    assert profile is not None
    assert not errors
    return profile["activities"].height + profile["api_calls"].height


def load_one_by_one(path: str) -> int:
    """The same files, one after the other."""
    profile = merge_profiles([load_input(str(file)) for file in sorted(Path(path).iterdir())])
    return profile["activities"].height + profile["api_calls"].height
