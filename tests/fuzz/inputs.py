"""Small inputs of every format that has a sample, a generator or, beside the checkout, real files."""

from __future__ import annotations

import gzip
import json
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.corpus import SHARED
from tests.loaders.dlprof import twin as dlprof
from tests.loaders.nsys import twin as nsys

SAMPLES = Path(__file__).parents[2] / "sample_logs"
MOST_BYTES = 300_000
MOST_EVENTS = 400
SQLITE = b"SQLite format 3\0"
NO_INPUTS = ("expected.json", "SOURCES.tsv", "INDEX.md", "README.md", "sealed.bin")


@cache
def inputs() -> dict[str, tuple[str, bytes]]:
    """For each input its file name and content."""
    found = {path.name: (path.name, content(path)) for path in sorted(SAMPLES.iterdir()) if path.is_file()}
    with tempfile.TemporaryDirectory() as folder:
        for name, made in (
            ("nsys.sqlite", nsys.write(Path(folder, "nsys.sqlite"), "2023.4")),
            ("dlprof.sqlite", dlprof.write(Path(folder, "dlprof.sqlite"))),
        ):
            found[name] = (name, made.read_bytes())
    return found


def real_inputs() -> list[str]:
    """The paths of the smaller real files beside the checkout, from there; none where there are none."""
    paths = [path for folder in ("corpus", "corpus2") for path in sorted((SHARED / folder).rglob("*"))]
    small = [path for path in paths if path.is_file() and path.stat().st_size <= MOST_BYTES]
    return [str(path.relative_to(SHARED)) for path in small if path.name not in NO_INPUTS]


def content(path: Path) -> bytes:
    """The content of a file, unpacked and, of a trace or a text, not more than a test needs."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        with suppress(EOFError, OSError):  # some are damaged already
            data = gzip.decompress(data)
    if len(data) <= MOST_BYTES or data.startswith(SQLITE):
        return data
    if data.lstrip()[:1] == b"{":
        tree = json.loads(data)
        events = tree.get("traceEvents", [])
        told = [event for event in events if event.get("ph") == "M"]
        tree["traceEvents"] = [
            *told[:MOST_EVENTS],
            *[event for event in events if event.get("ph") != "M"][:MOST_EVENTS],
        ]
        return json.dumps(tree).encode()
    return data[: data.rindex(b"\n", 0, MOST_BYTES) + 1]
