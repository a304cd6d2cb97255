"""What is measured; each takes a path and returns how many rows it read, and the seconds where not all of it counts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import polars as pl

from tui.analysis.iterations.iteration_table import with_iterations
from tui.analysis.ops.op_costs import recorded_ops
from tui.loaders.chrome_trace.read_trace import read_trace
from tui.loaders.kineto.events import WANTED
from tui.loaders.registry import load, load_one
from tui.loaders.source import Source
from tui.model.profile import joined
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
    profile = load_one(path)
    return profile["activities"].height + profile["api_calls"].height


def _first_look(path: str, table_name: str) -> tuple[int, float]:
    """Rows of a table and the seconds that they take when its view is first opened."""
    profile = with_iterations(load_one(path))
    recorded_ops(profile)  # as opening the file does
    began = time.perf_counter()
    table(table_name).rows(profile)
    return profile["activities"].height, time.perf_counter() - began


def critical_paths(path: str) -> tuple[int, float]:
    """The critical paths of all iterations."""
    return _first_look(path, "critical_paths")


def critical_path(path: str) -> tuple[int, float]:
    """The critical path of one iteration, with slack and what half of its work saves."""
    return _first_look(path, "critical_path")


def roofline(path: str) -> tuple[int, float]:
    """FLOPs and bytes of all ops by shape."""
    return _first_look(path, "op_work_by_shape")


def group_ops(path: str) -> tuple[int, float]:
    """The tree of modules, with forward and backward."""
    return _first_look(path, "op_forest")


def read_trace_events(path: str) -> int:
    """Read all events of a trace with the arguments that a load asks for."""
    return read_trace(Source.open(path), WANTED).complete.height


def parse_with_orjson(path: str) -> tuple[int, float]:
    """Parse a document whose bytes have been read."""
    import orjson

    data = Path(path).read_bytes()
    began = time.perf_counter()
    document = orjson.loads(data)
    return len(document["traceEvents"]), time.perf_counter() - began


def parse_with_json(path: str) -> tuple[int, float]:
    """The same where there is no orjson."""
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
    profile = joined([load_one(str(file)) for file in sorted(Path(path).iterdir())])
    return profile["activities"].height + profile["api_calls"].height
