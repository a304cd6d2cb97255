"""Workers that read ranges of an uncompressed file themselves change nothing but the time."""

from __future__ import annotations

import gzip
import io
import itertools
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tui.loaders.chrome_trace.read_trace
import tui.loaders.chrome_trace.stream
from tests.loaders.chrome_trace.documents import ARGS, kernel, read
from tests.loaders.chrome_trace.test_round_trip import assert_same
from tui.loaders.chrome_trace.decoder import DecoderPool
from tui.loaders.chrome_trace.read_trace import read_trace
from tui.loaders.chrome_trace.stream import Decompressor, RangeCutter, Slot
from tui.loaders.input_file import InputFile
from tui.loaders.worker_process import FileRange

if TYPE_CHECKING:
    from tui.loaders.chrome_trace.event_batches import Trace

pytestmark = pytest.mark.usefixtures("all_cores")
EVENTS = [kernel(name=f"kernel {n % 7}", ts=10 + n, args={"correlation": n}) for n in range(3000)]
DOCUMENT = json.dumps({"traceEvents": EVENTS, "traceName": "x"}, indent=1)


@pytest.fixture(autouse=True)
def given_ranges(monkeypatch: pytest.MonkeyPatch) -> list[FileRange]:
    """Return the list of all ranges that were given to workers."""
    monkeypatch.setattr(tui.loaders.chrome_trace.read_trace, "_SMALL_BLOCK", 1 << 12)
    monkeypatch.setattr(tui.loaders.chrome_trace.read_trace, "_BLOCK", 1 << 15)
    ranges: list[FileRange] = []
    next_range = RangeCutter.next

    def watched(self: RangeCutter, size: int) -> FileRange | None:
        file_range = next_range(self, size)
        if file_range is not None:
            ranges.append(file_range)
        return file_range

    monkeypatch.setattr(RangeCutter, "next", watched)
    return ranges


def read_file(path: Path, document: str, pool: partial[DecoderPool] | type[DecoderPool] = DecoderPool) -> Trace:
    path.write_text(document)
    return read_trace(InputFile.open(str(path)), ARGS, make_pool=pool)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(DOCUMENT, marks=pytest.mark.slow),
        pytest.param("\ufeff" + DOCUMENT, marks=pytest.mark.slow),
        DOCUMENT.replace('"correlation": 1500\n', '"correlation": inf\n'),
        pytest.param(DOCUMENT[: len(DOCUMENT) // 2], marks=pytest.mark.slow),
        pytest.param(
            DOCUMENT.replace('"correlation": 1500\n   }\n  },', '"correlation": 1500\n   }\n  }], "further": ['),
            marks=pytest.mark.slow,
        ),
        pytest.param(DOCUMENT.replace("kernel 3", "k" * 50_000, 1), marks=pytest.mark.slow),
    ],
    ids=["whole", "with a mark", "damaged", "cut", "closed early", "a long name"],
)
def test_a_trace_read_by_file_ranges_equals_one_from_a_pipe(
    document: str, tmp_path: Path, given_ranges: list[FileRange]
) -> None:
    trace, expected = read_file(tmp_path / "trace.json", document), read(document)
    assert_same(trace, expected)
    assert (list(trace.notes), trace.partial) == (list(expected.notes), expected.partial)
    assert trace.metadata == expected.metadata
    assert len(given_ranges) > 2
    assert all(before.end == after.begin for before, after in itertools.pairwise(given_ranges))


def test_a_file_that_ends_when_the_workers_would_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The block before the workers would start is the last but one: what follows has been read already."""
    block = 1 << 17
    monkeypatch.setattr(tui.loaders.chrome_trace.read_trace, "_SMALL_BLOCK", block)
    events: list[str] = []
    size = 0
    while size < 7.5 * block:
        events.append(json.dumps(kernel(ts=10 + len(events), args={"correlation": len(events)})))
        size += len(events[-1]) + 2
    trace = read_file(tmp_path / "trace.json", f'{{"traceEvents": [{", ".join(events)}]}}')
    assert trace.complete["correlation"].to_list() == list(range(len(events)))
    assert (trace.partial, list(trace.notes)) == ("", [])


def test_failing_workers_are_replaced_by_this_process(tmp_path: Path, given_ranges: list[FileRange]) -> None:
    trace = read_file(tmp_path / "trace.json", DOCUMENT, partial(DecoderPool, command=("/bin/false",)))
    assert trace.complete["correlation"].to_list() == list(range(3000))
    assert given_ranges


@pytest.mark.parametrize("happens", ["replaced", "removed"])
def test_a_file_replaced_while_read_is_read_as_it_was_opened(
    happens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given_ranges: list[FileRange]
) -> None:
    path = tmp_path / "trace.json"
    use_file_ranges = tui.loaders.chrome_trace.stream.BlockReader.use_file_ranges

    def changed(self: tui.loaders.chrome_trace.stream.BlockReader, size: int) -> None:
        use_file_ranges(self, size)
        path.unlink()
        if happens == "replaced":
            path.write_text("[" + "{}," * 100_000 + "]")

    monkeypatch.setattr(tui.loaders.chrome_trace.stream.BlockReader, "use_file_ranges", changed)
    trace = read_file(path, DOCUMENT)
    assert trace.complete["correlation"].to_list() == list(range(3000))
    assert given_ranges


def test_a_range_of_a_replaced_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("0123456789")
    status = path.stat()
    assert FileRange(str(path), status.st_dev, status.st_ino, 2, 5).read() == b"234"
    with pytest.raises(FileNotFoundError):
        FileRange(str(path), status.st_dev, status.st_ino + 1, 2, 5).read()


@pytest.mark.parametrize(
    ("document", "cut_bytes"),
    [
        pytest.param(DOCUMENT, 0, marks=pytest.mark.slow),
        pytest.param(DOCUMENT.replace('"correlation": 1500\n', '"correlation": inf\n'), 0, marks=pytest.mark.slow),
        (DOCUMENT.replace('"correlation": 1500\n   }\n  },', '"correlation": 1500\n   }\n  }], "further": ['), 0),
        pytest.param(
            DOCUMENT.replace("kernel 3", "k" * 200_000, 1).replace("kernel 5", "k" * 200_000),
            0,
            marks=pytest.mark.slow,
        ),
        (DOCUMENT, 4000),
    ],
    ids=["whole", "damaged", "closed early", "long names", "cut"],
)
def test_a_compressed_trace_equals_one_from_a_pipe(
    document: str, cut_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tui.loaders.chrome_trace.stream, "SLOT_BYTES", 1 << 15)
    slots: list[Slot] = []
    free = Decompressor.free

    def watched(self: Decompressor, slot: Slot) -> None:
        slots.append(slot)
        free(self, slot)

    monkeypatch.setattr(Decompressor, "free", watched)
    packed = gzip.compress(document.encode())
    packed = packed[: len(packed) - cut_bytes] if cut_bytes else packed
    path = tmp_path / "trace.json.gz"
    path.write_bytes(packed)
    trace = read_trace(InputFile.open(str(path)), ARGS)
    expected_source = InputFile.open("trace.json.gz", stream=io.BytesIO(packed))
    expected = read_trace(expected_source, ARGS, make_pool=None)
    assert_same(trace, expected)
    assert (list(trace.notes), trace.partial) == (list(expected.notes), expected.partial)
    assert trace.metadata == expected.metadata
    assert slots
    assert all(slot.number < 64 for slot in slots)
