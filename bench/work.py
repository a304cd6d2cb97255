"""What is measured; each takes a path and returns how many rows it read, and the seconds where not all of it counts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import polars as pl

from tui.loaders.chrome_trace.read_trace import read_trace
from tui.loaders.kineto.events import WANTED
from tui.loaders.registry import load, load_one
from tui.loaders.source import Source
from tui.model.profile import joined


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
