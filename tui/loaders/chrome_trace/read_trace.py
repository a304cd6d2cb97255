"""Reads a file of Chrome trace events into the frames of a `Trace`."""

from __future__ import annotations

import gc
import re
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDoneError
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from tui.loaders.chrome_trace.anomalies import Anomalies, Anomaly
from tui.loaders.chrome_trace.decoder_pool import Answer, DecoderPool, Decoding, Task, most_workers
from tui.loaders.chrome_trace.frames import Assembly
from tui.loaders.chrome_trace.stream import Block, Blocks, Lost, Stream, looks_like_trace, members
from tui.loaders.chrome_trace.tolerant_parser import scan
from tui.loaders.chrome_trace.unpacker import Slot, Unpacker
from tui.loaders.chrome_trace.untyped_events import batch_of
from tui.loaders.input_issues import Note, size_text
from tui.loaders.progress import keep_going
from tui.loaders.text.lines import as_utf8, encoding_of
from tui.loaders.worker_process import FileRange
from tui.model.errors import ProftuiError
from tui.runtime import release_freed_memory

if TYPE_CHECKING:
    import polars as pl

    from tui.loaders.chrome_trace.event_batches import Arg, PackedBatch, Split, Trace
    from tui.loaders.progress import Report
    from tui.loaders.source import Source

__all__ = ["looks_like_trace", "read_trace"]

_SMALL_BLOCK: Final = 1 << 20
"""Bytes: decoding it here does not hold up the screen."""
_BLOCK: Final = 4 << 20
_BLOCKS_HERE: Final = 8
"""Blocks after which other processes take over; a small file is read before they would have started."""
_LARGE: Final = 32 << 20
_LARGE_PACKED: Final = 4 << 20
"""Bytes of a file on the disk that is worth worker processes in any case."""
_SHOWN: Final = 200
_LOOK_UP_EVERY_S: Final = 0.1
_NEXT_DOCUMENT: Final = re.compile(rb"\}\s*+(\{)")
"""Behind a list: without a comma between, one document has ended and another begins."""

PoolMaker = Callable[[Task, int], DecoderPool]


def read_trace(
    source: Source,
    args: Sequence[Arg],
    report: Report = keep_going,
    *,
    split: Split | None = None,
    flow_categories: Collection[str] | None = None,
    watch: Callable[[str, pl.DataFrame], None] | None = None,
    make_pool: PoolMaker | None = DecoderPool,
) -> Trace:
    """Read a file of trace events.

    Args:
        source: The input, of which nothing has been read.
        args: Which arguments of events become columns.
        report: Told of progress; its False ends the reading, and what was read is kept.
        split: Tells the events that have a duration apart.
        flow_categories: The arrows that are wanted, by their categories; None for all.
        watch: Called with each stretch of a part of ``split`` as it comes.
        make_pool: Starts the processes that decode a large input; None decodes it here.

    Raises:
        ProftuiError: It is no such file.
    """
    source.report_to(report)
    task = Task(tuple(args), split, None if flow_categories is None else frozenset(flow_categories))
    return _Reading(source, task, Assembly(args, split, watch), make_pool).trace()


class _Reading:
    """One input on its way to a trace."""

    def __init__(self, source: Source, task: Task, assembly: Assembly, make_pool: PoolMaker | None) -> None:
        self._source = source
        self._task = task
        self._make_pool = make_pool
        self._assembly = assembly
        self._anomalies = Anomalies()
        self._notes: list[Note] = []
        self._partial = ""
        self._decoding = Decoding(task)
        self._unpacker: Unpacker | None = None
        self._line = 0
        """Newlines before what is read next."""
        self._given = 0
        """Blocks that the stream has given."""
        self._carried: list[bytes] = []
        """Text that begins with an event of which the end is still missing."""
        self._enough = 0
        """Bytes of it at which another try is worth the time."""

    def trace(self) -> Trace:
        try:
            metadata = self._document(Stream(self._content()))
        finally:
            if self._unpacker is not None:
                self._unpacker.close()
        if self._source.stopped:
            size = self._source.size
            self._partial = f"stopped at {100 * self._source.bytes_read // size}%" if size else "stopped before its end"
        notes = [*self._notes, *self._anomalies.notes()]
        return self._assembly.trace(metadata, notes, self._partial or self._source.cut_short)

    def _content(self) -> Iterator[bytes]:
        """The text of the input as UTF-8, until nobody wants it any longer."""
        chunks = self._source.chunks()
        first = next(chunks, b"")

        def all_chunks() -> Iterator[bytes]:
            yield first
            yield from chunks

        for chunk in as_utf8(encoding_of(first), all_chunks()):
            yield chunk
            if not self._source.keep_going(self._assembly.rows):
                return

    def _document(self, stream: Stream) -> dict[str, Any]:
        """Read all events; what stands beside them."""
        metadata: dict[str, Any] = {}
        lists = 0
        is_whole = True
        while True:
            before, opens = stream.before_list(may_be_bare=not lists)
            if not lists and not opens and not before.lstrip().startswith(b"{"):
                raise ProftuiError(
                    f"{self._source.called}: not a JSON document of trace events",
                    "export one with torch.profiler's export_chrome_trace",
                )
            if lists and (second := _NEXT_DOCUMENT.search(before)) is not None:
                metadata |= members(before[: second.start() + 1])[0]
                self._notes.append(_second_document(self._line + 1 + before.count(b"\n", 0, second.start(1))))
                break
            key = before.rfind(b'"traceEvents"') if opens else len(before)
            is_bare = key < 0
            found, has_all = members(before[:key]) if not is_bare else ({}, True)
            metadata |= found
            is_whole &= has_all
            self._line += before.count(b"\n")
            if not opens:
                break
            lists += 1
            if not self._list(stream, may_be_open=is_bare):
                break
        if not is_whole and not lists and not self._source.stopped:
            raise ProftuiError(
                f"{self._source.called}: cut off or damaged before its list of events (traceEvents)",
                "copy it again, or record it again and let the program end",
            )
        if not is_whole and not self._source.stopped:
            self._notes.append(
                Note(
                    "warning",
                    None,
                    "",
                    "damaged JSON outside the list of events: only part of it was read",
                )
            )
        return metadata

    def _list(self, stream: Stream, *, may_be_open: bool) -> bool:
        """Read a list of events; whether it was closed, so that something may follow it."""
        blocks = Blocks(stream, self._source, _SMALL_BLOCK)
        started = pool = None
        waiting: deque[tuple[Block, Future[Answer] | None]] = deque()
        try:
            while self._source.keep_going(self._assembly.rows):
                if self._given == _BLOCKS_HERE or (not self._given and self._is_large):
                    started = started or self._new_pool()
                if self._given == _BLOCKS_HERE and pool is not started and started is not None:
                    pool = started
                    blocks.use_file_ranges(_BLOCK)
                    self._unpacker = self._unpacker or blocks.use_unpacker(2 * pool.size + 1)
                while len(waiting) < (1 if pool is None else 2 * pool.size) and (block := blocks.next()):
                    self._given += 1
                    waiting.append((block, None if pool is None else _decoding(block, pool)))
                if not waiting:
                    break
                block, batch = waiting.popleft()
                if isinstance(block.content, Lost):
                    self._pass_over(block.content)
                    continue
                events = self._assembly.events
                rest = self._take(block, batch)
                blocks.learn(block.size, self._assembly.events - events)
                if isinstance(block.content, Slot) and self._unpacker is not None:
                    self._unpacker.free(block.content)
                if rest is not None:
                    blocks.come_from_stream()
                    stream.push_back(b"".join([rest, *(self._text(block) for block, _ in waiting)]))
                    return True
        finally:
            if started is not None:
                started.close()
                release_freed_memory()  # what the workers' answers took
        if not self._source.stopped:
            self._note_end(sum(map(len, self._carried)), may_be_open=may_be_open)
        return False

    @property
    def _is_large(self) -> bool:
        """Whether a pool can start while the first blocks are decoded here."""
        size = self._source.size or 0
        return size >= (_LARGE if self._source.compression is None else _LARGE_PACKED)

    def _new_pool(self) -> DecoderPool | None:
        size = self._source.size if self._source.compression is None else None
        workers = most_workers(size)
        return None if self._make_pool is None or not workers else self._make_pool(self._task, workers)

    def _text(self, block: Block) -> bytes:
        content = block.content
        if isinstance(content, Slot):
            return content.read()
        if isinstance(content, FileRange):
            return self._source.read_at(content.begin, content.end)
        return content if isinstance(content, bytes) else b""

    def _pass_over(self, lost: Lost) -> None:
        """Tell of an event that is too long to be read; it may have begun in the text that was carried over."""
        begun = b"".join(self._carried)
        self._carried, self._enough = [], 0
        text = begun or lost.text
        event = text.lstrip()
        line = self._line + 1 + text.count(b"\n", 0, len(text) - len(event))
        self._anomalies.add(Anomaly.TOO_LONG, line=line, text=event[:_SHOWN].decode("utf-8", "replace"))
        self._line += begun.count(b"\n") + lost.newlines

    def _take(self, block: Block, decoding: Future[Answer] | None) -> bytes | None:
        """Add the events of the next block; the text behind the list where it ends in there, else None."""
        if not self._carried and not block.is_last:
            batch, packer = self._decoded(self._text(block)) if decoding is None else self._awaited(decoding)
            # That it could be decoded proves that it ends after an event: the next one begins where it should.
            if batch is not None:
                self._add(batch, batch.newlines, packer)
                return None
        self._carried.append(self._text(block))
        if not block.is_last and sum(map(len, self._carried)) < self._enough:
            return None
        with _no_collection():
            return self._scanned(b"".join(self._carried), block.is_last)

    def _scanned(self, data: bytes, is_last: bool) -> bytes | None:
        text = data.decode("utf-8", "surrogateescape")
        anomalies = Anomalies()
        found = scan(text, anomalies, is_last=is_last)
        batch = batch_of(found.events, found.lines, self._task.args, anomalies)
        self._add(self._decoding.pack(batch), text.count("\n", 0, found.end), self._decoding)
        rest = text[found.end :].encode("utf-8", "surrogateescape")
        self._carried = [] if found.is_closed or not rest else [rest]
        self._enough = 2 * len(rest)
        return rest if found.is_closed else None

    def _decoded(self, data: bytes) -> Answer:
        with _no_collection():
            return self._decoding.decode(data), self._decoding

    def _awaited(self, decoding: Future[Answer]) -> Answer:
        while True:
            try:
                return decoding.result(_LOOK_UP_EVERY_S)
            except NotDoneError:
                self._source.keep_going(self._assembly.rows)

    def _add(self, batch: PackedBatch, newlines: int, packer: object) -> None:
        self._anomalies.add_all(batch.odd, lines_before=self._line)
        self._assembly.add(batch, self._line, packer)
        self._line += newlines

    def _note_end(self, lost: int, *, may_be_open: bool) -> None:
        """The list of events was not closed."""
        if may_be_open and not lost:  # the format allows it
            return
        count = self._assembly.events
        events = "1 event" if count == 1 else f"{count:,} events"
        left = f"; {size_text(lost)} of a cut-off event are not" if lost else ""
        self._partial = f"cut off after {events}"
        shown = f"{events} {'is' if count == 1 else 'are'} shown"
        self._notes.append(Note("error", None, "", f"the file ends inside its list of events: {shown}{left}"))


def _second_document(line: int) -> Note:
    reason = (
        "a second trace begins on this line: only the first is read, because times and threads belong to "
        "different runs; keep each in a file of its own (jq -c . FILE | split -l 1)"
    )
    return Note("error", line, "", reason)


def _decoding(block: Block, pool: DecoderPool) -> Future[Answer] | None:
    """The block decoded by others, if it can be."""
    return None if block.is_last or isinstance(block.content, Lost) else pool.decode(block.content)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without the garbage collector, which would look through all the objects again and again as they grow."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
