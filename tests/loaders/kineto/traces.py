"""Small traces written for the tests, as PyTorch's profiler writes them; every figure is made up."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import polars as pl

from tui.loaders.input_file import InputFile
from tui.loaders.kineto.kineto_loader import KinetoLoader

if TYPE_CHECKING:
    from tui.model.profile import Profile

Event = dict[str, Any]

PROCESS = 100
"""The process, and its main thread."""
BASE_NS = 1_700_000_000_000_000_000
"""The Unix time from which the newest traces count."""


def event(cat: str, name: str, ts: float, dur: float, *, tid: object = PROCESS, **args: object) -> Event:
    """Return an event of the process; ``args`` have ``_`` for the spaces in their names, except those of waits."""
    named = {key if key.startswith("wait_on") else key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": cat, "name": name, "pid": PROCESS, "tid": tid, "ts": ts, "dur": dur, "args": named}


def op(name: str, ts: float, dur: float, *, tid: object = PROCESS, **args: object) -> Event:
    return event("cpu_op", name, ts, dur, tid=tid, **args)


def call(correlation: int, ts: float, dur: float = 1, *, name: str = "cudaLaunchKernel", **args: object) -> Event:
    return event("cuda_runtime", name, ts, dur, correlation=correlation, **args)


def kernel(correlation: int | None, ts: float, dur: float = 5, *, name: str = "k", **args: object) -> Event:
    extra = {} if correlation is None else {"correlation": correlation}
    placed = {"device": 0, "context": 1, "stream": 7, **extra, **args}
    return {**event("kernel", name, ts, dur, **placed), "pid": 0, "tid": 7}


def gpu(cat: str, name: str, ts: float, dur: float, **args: object) -> Event:
    return {**event(cat, name, ts, dur, **{"device": 0, "context": 1, "stream": 7, **args}), "pid": 0, "tid": 7}


def flow(
    ph: str, number: int, ts: float, *, cat: str = "fwdbwd", tid: object = PROCESS, pid: object = PROCESS
) -> Event:
    return {"ph": ph, "cat": cat, "name": cat, "id": number, "pid": pid, "tid": tid, "ts": ts}


def document(events: list[Event], **metadata: object) -> bytes:
    """Return a trace of PyTorch 2.2 or later, unless ``metadata`` says baseTimeNanoseconds=None."""
    extra = {"schemaVersion": 1, "baseTimeNanoseconds": BASE_NS, **metadata}
    members = {key: value for key, value in extra.items() if value is not None}
    return json.dumps({**members, "traceEvents": events}).encode()


def read(events: list[Event], *, name: str = "run.pt.trace.json", **metadata: object) -> Profile:
    """Return the profile of such a trace."""
    return read_bytes(document(events, **metadata), name=name)


def read_bytes(content: bytes, *, name: str = "run.pt.trace.json") -> Profile:
    return KinetoLoader().load(InputFile.open(name, stream=io.BytesIO(content)))


def texts(profile: Profile, frame: str, column: str) -> list[str | None]:
    """Return a column of names as text."""
    return profile[frame][column].cast(pl.String).to_list()
