"""Generates a PyTorch trace of any size from a recorded one.

The list of events is repeated. As in a longer run, times continue, and correlation ids, ids of ops and flows, sequence
numbers and event numbers increase. Names, shapes, launch configurations and durations repeat, as they mostly do in
training. Metadata events occur once.
"""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

from bench.generate_nvprof import DATA, ROOT

_TIME = re.compile(rb'"ts": (\d+)\.(\d{3})')
_COUNTED = re.compile(
    rb'"(correlation|External id|external id|Sequence number|Ev Idx|id|Record function id)": ([1-9]\d*)'
)
_METADATA = re.compile(rb'\n  \{\n    [^\n]*"ph": "M".*?\n  \},?', re.DOTALL)
_DISTRIBUTED = re.compile(rb'"rank": \d+, "world_size": \d+')


def kineto_trace(size: int) -> Path:
    """A trace of at least ``size`` bytes, in whole repetitions of the recording."""
    recording = _recording()
    path = DATA / f"{recording.name.partition('.')[0]}_{size >> 20}.pt.trace.json"
    if not path.exists():
        data = recording.read_bytes()
        _grow(gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data, size, path)
    return path


def ranks_folder(ranks: int, size: int, *, packed: bool = False) -> Path:
    """A folder with a trace of at least ``size`` bytes for each rank; the recordings of two ranks in turns."""
    folder = DATA / f"ranks_{ranks}_{size >> 20}{'_gz' if packed else ''}"
    folder.mkdir(parents=True, exist_ok=True)
    pair = [gzip.decompress(path.read_bytes()) for path in sorted((ROOT / "sample_logs/ddp_ranks").glob("*.gz"))]
    for rank in range(ranks):
        path = folder / f"rank{rank}.pt.trace.json"
        whole = path.with_suffix(".json.gz") if packed else path
        if whole.exists():
            continue
        said = b'"rank": %d, "world_size": %d' % (rank, ranks)
        _grow(_DISTRIBUTED.sub(said, pair[rank % len(pair)], count=1), size, path)
        if packed:
            whole.write_bytes(gzip.compress(path.read_bytes(), 6))
            path.unlink()
    return folder


def _grow(content: bytes, size: int, path: Path) -> None:
    begin = content.index(b"[", content.index(b'"traceEvents"')) + 1
    end = content.rindex(b"}", 0, content.rindex(b"]")) + 1
    events = content[begin:end]
    again = _METADATA.sub(b"", events).rstrip(b",\n ")
    starts = [int(found[1]) * 1000 + int(found[2]) for found in _TIME.finditer(events)]
    span = max(starts) - min(starts) + 10**9
    step = 1 + max(int(found[2]) for found in _COUNTED.finditer(events))
    DATA.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(content[:begin])
        turn = 0
        while file.tell() < size:
            if turn:
                file.write(b",")
            file.write(_shifted(again, turn * span, turn * step) if turn else events)
            turn += 1
        file.write(content[end:])
    part.rename(path)


def _shifted(events: bytes, shift_ns: int, count_on: int) -> bytes:
    def time(found: re.Match[bytes]) -> bytes:
        moved = int(found[1]) * 1000 + int(found[2]) + shift_ns
        return b'"ts": %d.%03d' % divmod(moved, 1000)

    def number(found: re.Match[bytes]) -> bytes:
        return b'"%s": %d' % (found[1], int(found[2]) + count_on)

    return _COUNTED.sub(number, _TIME.sub(time, events))


def _recording() -> Path:
    """The recorded trace: ``PROFTUI_BENCH_TRACE``, a long one in ``bench/data``, or a sample."""
    places = [
        *([Path(os.environ["PROFTUI_BENCH_TRACE"])] if "PROFTUI_BENCH_TRACE" in os.environ else []),
        DATA / "gpt_long.pt.trace.json.gz",
        *sorted((ROOT / "sample_logs").glob("*.pt.trace.json.gz")),
    ]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        raise SystemExit("nothing to grow: set PROFTUI_BENCH_TRACE to a trace of PyTorch's profiler")
    return path
