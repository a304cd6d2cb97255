"""Reads a trace: decodes its events in batches and builds frames from them."""

from __future__ import annotations

import gc
import json
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.loaders.base import keep_going
from tui.loaders.chrome_trace.decoder import Answer, DecoderPool, DecodeTask, PackingDecoder, max_workers
from tui.loaders.chrome_trace.event_batches import (
    NO_TEXT,
    PLACE,
    WHOLE,
    Anomalies,
    Anomaly,
    Arg,
    ArgKind,
    PackedBatch,
    PackedRows,
    Trace,
)
from tui.loaders.chrome_trace.stream import (
    BlockReader,
    Decompressor,
    EventBlock,
    OverlongEvent,
    Slot,
    Stream,
    object_members,
)
from tui.loaders.chrome_trace.tolerant_parser import scan
from tui.loaders.chrome_trace.untyped_events import batch_from_objects
from tui.loaders.digits import NULL
from tui.loaders.input_issues import InputIssue, size_text
from tui.loaders.text.lines import as_utf8, detect_encoding
from tui.loaders.worker_process import FileRange
from tui.model.errors import ProftuiError
from tui.runtime import release_freed_memory, run_together, thread_limit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from tui.loaders.base import Report
    from tui.loaders.chrome_trace.event_batches import EventSplit
    from tui.loaders.input_file import InputFile

    Codes = npt.NDArray[np.int32]
    Ints = npt.NDArray[np.int64]


_AXES: Final = ("x", "y", "z")
_PART_ROWS: Final = 1 << 18
"""Events in a chunk of the frames."""
_WATCHED_ROWS: Final = 1 << 16
"""Events in a chunk if ``watch`` receives the chunks."""
_BUILDERS: Final = 4
"""Threads that build frames on a machine with several cores."""


class TraceBuilder:
    """Builds the frames of a trace, chunk by chunk, from its batches in file order."""

    def __init__(
        self,
        args: Sequence[Arg],
        split: EventSplit | None = None,
        watch: Callable[[str, pl.DataFrame], None] | None = None,
    ) -> None:
        """Start without batches.

        Args:
            args: Which arguments are wanted.
            split: The parts of complete events, if any.
            watch: Called with the name of a part and each new chunk of it.
        """
        self._texts = _TextTable()
        threads = ThreadPoolExecutor(_BUILDERS, thread_name_prefix="build") if thread_limit() > 1 else None
        own = [arg.column for arg in args]
        timed = (*PLACE, "start_ns", "duration_ns", "line")
        every = {WHOLE: (*timed, *own)} if split is None else split.columns
        kinds = {arg.column: arg.kind for arg in args}
        self._complete = {
            part: _FrameBuilder(
                self._texts, [name for name in (*timed, *own) if name in columns], kinds, part, watch, threads
            )
            for part, columns in every.items()
        }
        self._instants = _FrameBuilder(self._texts, [*PLACE, "start_ns", "line", *own], kinds)
        self._flows = _FrameBuilder(self._texts, ["phase", *PLACE, "number", "start_ns"], {})
        self._names: list[tuple[str | None, str | None, str, str]] = []
        self._codes: dict[object, Codes] = {}
        self._categories: Counter[str | None] = Counter()
        self._seen: set[str] = set()
        self._first_ns: int | None = None
        """The earliest start of complete events."""
        self.rows = 0
        """The number of events added."""
        self.events = 0
        """The number of events added or omitted."""

    def add(self, batch: PackedBatch, lines_before: int, packer: object = None) -> None:
        """Add the next batch, which must not be used afterwards.

        Args:
            batch: The batch.
            lines_before: The number of newlines before its text.
            packer: The packer of the batch; codes continue over the batches of one packer.
        """
        codes = self._texts.codes_of(batch.new_texts)
        if not batch.is_first:
            codes = np.concatenate([self._codes[packer], codes])
        self._codes[packer] = codes
        # `NO_TEXT` is -1: the last entry.
        codes = np.append(codes, np.int32(NO_TEXT))
        self.rows += batch.rows
        self.events += batch.events
        self._categories.update(batch.categories)
        self._seen |= batch.seen
        if batch.first_ns is not None:
            self._first_ns = batch.first_ns if self._first_ns is None else min(self._first_ns, batch.first_ns)
        for rows, frame in (
            *((rows, self._complete[part]) for part, rows in batch.complete.items()),
            (batch.instants, self._instants),
            (batch.flows, self._flows),
        ):
            if rows.height:
                frame.add(rows, codes, lines_before)
        self._names += batch.names

    def trace(self, metadata: Mapping[str, Any], notes: Sequence[InputIssue], partial: str) -> Trace:
        """Return the trace of all batches."""
        self._texts.categories()
        frames = (*self._complete.values(), self._instants, self._flows)
        *whole, instants, flows = run_together(*(frame.whole for frame in frames))
        complete = dict(zip(self._complete, whole, strict=True))
        flows = flows.rename({"phase": "ph", "number": "id"})
        others = [first for frame in (self._instants, self._flows) if (first := frame.first_ns()) is not None]
        origin_ns = min(others, default=0) if self._first_ns is None else self._first_ns
        schema = {"pid": pl.Categorical, "tid": pl.Categorical, "name": pl.String, "value": pl.String}
        return Trace(
            metadata=metadata,
            complete=_relative_to(origin_ns, complete.pop(WHOLE, pl.DataFrame())),
            parts={part: _relative_to(origin_ns, rows) for part, rows in complete.items()},
            categories=self._categories,
            seen=self._seen,
            instants=_relative_to(origin_ns, instants),
            flows=_relative_to(origin_ns, flows),
            names=pl.DataFrame(self._names, schema=schema, orient="row"),
            origin_ns=origin_ns,
            notes=notes,
            partial=partial,
        )


def _relative_to(origin_ns: int, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col("start_ns") - origin_ns) if "start_ns" in frame.columns else frame


@dataclass(frozen=True, slots=True)
class _Categories:
    """The texts of codes; thread-safe."""

    all: pl.Series

    def categorical(self, name: str, codes: Codes) -> pl.Series:
        """Return codes as a categorical column."""
        return self.all.gather(_null_where(name, codes, NO_TEXT).cast(pl.UInt32)).alias(name)

    def triples(self, codes: Codes) -> Ints:
        """Return the three numbers of each code; each distinct text is parsed once."""
        is_used = np.zeros(len(self.all) + 1, np.bool_)
        is_used[codes] = True
        used = np.flatnonzero(is_used[:-1])
        table = np.full((len(is_used), 3), NULL, np.int64)
        texts = self.categorical("", used.astype(np.int32)).cast(pl.String)
        for code, text in zip(used.tolist(), texts, strict=True):
            table[code] = _numbers(text)
        return table[codes]


class _TextTable:
    """The codes of all distinct texts."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._new: list[str] = []
        self._categories = _Categories(pl.Series([], dtype=pl.Categorical))

    def codes_of(self, texts: Sequence[str]) -> Codes:
        """Return the code of each text."""
        known = len(self._code)
        codes = [self._code.setdefault(text, len(self._code)) for text in texts]
        self._new += [text for text, code in zip(texts, codes, strict=True) if code >= known]
        return np.array(codes, np.int32)

    def categories(self) -> _Categories:
        """Return the texts of all codes until now."""
        if self._new:
            new = pl.Series(self._new, dtype=pl.Categorical)
            self._categories = _Categories(self._categories.all.clone().append(new))
            self._new = []
        return self._categories


class _FrameBuilder:
    """Builds one frame, chunk by chunk."""

    def __init__(
        self,
        texts: _TextTable,
        columns: Sequence[str],
        kinds: Mapping[str, ArgKind],
        part: str = WHOLE,
        watch: Callable[[str, pl.DataFrame], None] | None = None,
        threads: ThreadPoolExecutor | None = None,
    ) -> None:
        self._texts = texts
        self._columns = columns
        self._kinds = kinds
        self._part = part
        self._watch = watch
        self._threads = threads
        self._most_rows = _PART_ROWS if watch is None else _WATCHED_ROWS
        self._waiting: list[PackedRows] = []
        self._height = 0
        self._building: deque[Future[pl.DataFrame]] = deque()
        self._parts: list[pl.DataFrame] = []

    def add(self, rows: PackedRows, codes: Codes, lines_before: int) -> None:
        """Add rows, which must not be used afterwards.

        Args:
            rows: The rows.
            codes: Translates their codes to those of `_TextTable`.
            lines_before: The number to add to their lines.
        """
        for name, values in rows.columns.items():
            if values.dtype == np.int32:
                rows.columns[name] = codes[values]
        if "line" in rows.columns:
            rows.columns["line"] = rows.columns["line"] + np.uint32(lines_before & 0xFFFFFFFF)
        self._waiting.append(rows)
        self._height += rows.height
        if self._height >= self._most_rows:
            self._build(self._threads)
        while self._building and self._building[0].done():
            self._take(self._building.popleft().result())

    def whole(self) -> pl.DataFrame:
        """Return all rows."""
        while self._building:
            self._take(self._building.popleft().result())
        if self._height or not self._parts:
            self._build(None)
        return pl.concat(self._parts, rechunk=False)

    def first_ns(self) -> int | None:
        """Return the earliest start; call it after `whole`."""
        first = pl.concat([part.select("start_ns") for part in self._parts])["start_ns"].min()
        return first if isinstance(first, int) else None

    def _build(self, threads: ThreadPoolExecutor | None) -> None:
        builder = _PartBuilder(self._columns, self._kinds, self._texts.categories(), self._waiting, self._height)
        self._waiting, self._height = [], 0
        if threads is None:
            self._take(builder.frame())
        else:
            self._building.append(threads.submit(builder.frame))

    def _take(self, frame: pl.DataFrame) -> None:
        if self._watch is not None and frame.height:
            self._watch(self._part, frame)
        self._parts.append(frame)


@dataclass(frozen=True, slots=True)
class _PartBuilder:
    """Builds the next chunk of a frame."""

    columns: Sequence[str]
    kinds: Mapping[str, ArgKind]
    categories: _Categories
    waiting: list[PackedRows]
    height: int

    def frame(self) -> pl.DataFrame:
        """Return the chunk; this empties ``waiting``."""
        columns: list[pl.Series] = []
        missing: list[pl.Expr] = []
        for name in self.columns:
            if any(name in rows.columns for rows in self.waiting):
                columns += self._column(name)
            else:  # a literal takes no memory
                kind = self.kinds.get(name)
                dtype = _BASE[name] if kind is None else _DTYPES[kind]
                missing += [pl.lit(None, dtype).alias(column) for column in self._names_of(name)]
        self.waiting.clear()
        order = [column for name in self.columns for column in self._names_of(name)]
        if columns:
            return pl.DataFrame(columns).with_columns(missing).select(order)
        return pl.select(missing).clear().select(order)

    def _names_of(self, name: str) -> list[str]:
        return _axes(name) if self.kinds.get(name) is ArgKind.TRIPLE else [name]

    def _column(self, name: str) -> list[pl.Series]:
        dtype = next(rows.columns[name].dtype for rows in self.waiting if name in rows.columns)
        null = _NULLS[dtype.type]
        values = np.empty(self.height, dtype)
        begin = 0
        for rows in self.waiting:
            values[begin : begin + rows.height] = rows.columns.pop(name, null)
            begin += rows.height
        if dtype == np.float64:
            return [pl.Series(name, values, nan_to_null=True)]
        if dtype != np.int32:
            return [_null_where(name, values, null)]
        if self.kinds.get(name) is not ArgKind.TRIPLE:
            return [self.categories.categorical(name, values)]
        triples = self.categories.triples(values)
        return [_null_where(axis, triples[:, index], NULL) for index, axis in enumerate(_axes(name))]


_NULLS: Final[dict[type, Any]] = {np.int32: NO_TEXT, np.int64: NULL, np.float64: np.nan, np.uint32: 0}
_BASE: Final = {
    **dict.fromkeys(("phase", *PLACE), pl.Categorical),
    **dict.fromkeys(("start_ns", "duration_ns", "number"), pl.Int64),
    "line": pl.UInt32,
}
_DTYPES: Final = {
    ArgKind.INTEGER: pl.Int64,
    ArgKind.NUMBER: pl.Float64,
    ArgKind.TEXT: pl.Categorical,
    ArgKind.TRIPLE: pl.Int64,
}


def _axes(name: str) -> list[str]:
    return [f"{name}_{axis}" for axis in _AXES]


def _null_where(name: str, values: npt.NDArray[Any], null: int) -> pl.Series:
    series = pl.Series(name, values)
    has = values != null
    if has.all():
        return series
    return pl.select(pl.when(pl.Series(has)).then(series).alias(name)).to_series()


def _numbers(text: str | None) -> tuple[int, int, int]:
    """Return the three whole numbers of a JSON list of up to three; missing ones are 1.

    >>> _numbers("[128]")
    (128, 1, 1)
    """
    nothing = (NULL, NULL, NULL)
    if text is None:
        return nothing
    try:
        values = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return nothing
    if not isinstance(values, list) or not 1 <= len(values) <= len(_AXES):
        return nothing
    if not all(isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 for value in values):
        return nothing
    x, y, z = [*values, 1, 1][:3]
    return x, y, z


_SMALL_BLOCK: Final = 1 << 20
"""Bytes of a block that is decoded in this process without blocking the screen."""
_BLOCK: Final = 4 << 20
_BLOCKS_HERE: Final = 8
"""Blocks that are decoded in this process before worker processes take over."""
_BLOCKS_LEFT: Final = 48
"""The minimum number of further blocks for worker processes: fewer are decoded before the processes have started."""
_LARGE: Final = 64 << 20
_LARGE_PACKED: Final = 8 << 20
"""Bytes of a file on the disk above which worker processes start with the first block."""
_SHOWN: Final = 200
_CHECK_EVERY_S: Final = 0.1
_NEXT_DOCUMENT: Final = re.compile(rb"\}\s*+(\{)")
"""After the list: the end of a document and the beginning of another one."""

PoolMaker = Callable[[DecodeTask, int], DecoderPool]


def read_trace(
    source: InputFile,
    args: Sequence[Arg],
    report: Report = keep_going,
    *,
    split: EventSplit | None = None,
    flow_categories: Collection[str] | None = None,
    watch: Callable[[str, pl.DataFrame], None] | None = None,
    make_pool: PoolMaker | None = DecoderPool,
) -> Trace:
    """Read a file of trace events.

    Args:
        source: The input, not yet read.
        args: The arguments of events that become columns.
        report: Called with the progress; when it returns False, reading ends, and the part that was read is returned.
        split: Splits complete events into parts.
        flow_categories: The categories of the wanted flow events; None for all.
        watch: Called with the name of a part and each new chunk of it.
        make_pool: Starts the processes that decode a large input; with None it is decoded in this process.

    Raises:
        ProftuiError: The file holds no trace events.
    """
    source.report_to(report)
    task = DecodeTask(tuple(args), split, None if flow_categories is None else frozenset(flow_categories))
    return _TraceReader(source, task, TraceBuilder(args, split, watch), make_pool).trace()


class _TraceReader:
    """Reads one input."""

    def __init__(self, source: InputFile, task: DecodeTask, builder: TraceBuilder, make_pool: PoolMaker | None) -> None:
        self._source = source
        self._task = task
        self._make_pool = make_pool
        self._builder = builder
        self._anomalies = Anomalies()
        self._notes: list[InputIssue] = []
        self._partial = ""
        self._decoder = PackingDecoder(task)
        self._decompressor: Decompressor | None = None
        self._line = 0
        """Newlines before the next block."""
        self._given = 0
        """The number of blocks read from the stream."""
        self._carried: list[bytes] = []
        """Text that begins with an event whose end has not been read."""
        self._enough = 0
        """The number of carried bytes at which to parse again."""

    def trace(self) -> Trace:
        try:
            metadata = self._document(Stream(self._content()))
        finally:
            if self._decompressor is not None:
                self._decompressor.close()
        if self._source.stopped:
            size = self._source.size
            self._partial = f"stopped at {100 * self._source.bytes_read // size}%" if size else "stopped before its end"
        notes = [*self._notes, *self._anomalies.notes()]
        return self._builder.trace(metadata, notes, self._partial or self._source.cut_short)

    def _content(self) -> Iterator[bytes]:
        """Yield the text of the input as UTF-8, until a report asks to stop."""
        chunks = self._source.chunks()
        first = next(chunks, b"")

        def all_chunks() -> Iterator[bytes]:
            yield first
            yield from chunks

        for chunk in as_utf8(detect_encoding(first), all_chunks()):
            yield chunk
            if not self._source.keep_going(self._builder.rows):
                return

    def _document(self, stream: Stream) -> dict[str, Any]:
        """Read all events; return the members outside the list of events."""
        metadata: dict[str, Any] = {}
        lists = 0
        is_whole = True
        while True:
            before, opens = stream.before_list(may_be_bare=not lists)
            if not lists and not opens and not before.lstrip().startswith(b"{"):
                raise ProftuiError(
                    f"{self._source.called}: not a JSON document with trace events",
                    "export one with torch.profiler's export_chrome_trace",
                )
            if lists and (second := _NEXT_DOCUMENT.search(before)) is not None:
                metadata |= object_members(before[: second.start() + 1])[0]
                self._notes.append(_second_document(self._line + 1 + before.count(b"\n", 0, second.start(1))))
                break
            key = before.rfind(b'"traceEvents"') if opens else len(before)
            is_bare = key < 0
            found, has_all = object_members(before[:key]) if not is_bare else ({}, True)
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
                f"{self._source.called}: truncated or damaged before its event list (traceEvents)",
                "copy it again, or record it again and let the program finish",
            )
        if not is_whole and not self._source.stopped:
            self._notes.append(
                InputIssue(
                    "warning",
                    None,
                    "",
                    "damaged JSON outside the event list: only part of it was read",
                )
            )
        return metadata

    def _list(self, stream: Stream, *, may_be_open: bool) -> bool:
        """Read a list of events; return whether it was closed, so that more may follow."""
        blocks = BlockReader(stream, self._source, _SMALL_BLOCK)
        started = pool = None
        waiting: deque[tuple[EventBlock, Future[Answer] | None]] = deque()
        try:
            while self._source.keep_going(self._builder.rows):
                if not self._given and self._is_large:
                    started = self._new_pool(stream)
                if self._given == self._blocks_here and started is None:
                    started = self._new_pool(stream)
                if self._given == self._blocks_here and pool is not started and started is not None:
                    pool = started
                    blocks.use_file_ranges(_BLOCK)
                    self._decompressor = self._decompressor or blocks.use_decompressor(2 * pool.size + 1)
                while len(waiting) < (1 if pool is None else 2 * pool.size) and (block := blocks.next()):
                    self._given += 1
                    waiting.append((block, None if pool is None else _submit(block, pool)))
                if not waiting:
                    break
                block, batch = waiting.popleft()
                if isinstance(block.content, OverlongEvent):
                    self._report_overlong(block.content)
                    continue
                events = self._builder.events
                rest = self._take(block, batch)
                blocks.learn(block.size, self._builder.events - events)
                if isinstance(block.content, Slot) and self._decompressor is not None:
                    self._decompressor.free(block.content)
                if rest is not None:
                    blocks.come_from_stream()
                    stream.push_back(b"".join([rest, *(self._text(block) for block, _ in waiting)]))
                    return True
        finally:
            if started is not None:
                started.close()
                release_freed_memory()  # of the workers' answers
        if not self._source.stopped:
            self._note_end(sum(map(len, self._carried)), may_be_open=may_be_open)
        return False

    @property
    def _is_large(self) -> bool:
        """Whether the worker processes start with the first block."""
        size = self._source.size or 0
        return size >= (_LARGE if self._source.compression is None else _LARGE_PACKED)

    @property
    def _blocks_here(self) -> int:
        """The number of blocks after which worker processes take over; a pipe may end at any time."""
        if self._is_large:  # they start with the first block
            return 1
        return _BLOCKS_HERE if self._source.size else _BLOCKS_HERE + _BLOCKS_LEFT

    def _new_pool(self, stream: Stream) -> DecoderPool | None:
        """Return new worker processes; None if they would take longer than decoding in this process."""
        left = self._source.size if self._source.compression is None else None
        if self._given and self._source.size:
            text_size = self._source.size * stream.text_read // max(1, self._source.bytes_read)
            left = text_size - stream.position
            if left < _BLOCKS_LEFT * _SMALL_BLOCK:
                return None
        workers = max_workers(left)
        return None if self._make_pool is None or not workers else self._make_pool(self._task, workers)

    def _text(self, block: EventBlock) -> bytes:
        content = block.content
        if isinstance(content, Slot):
            return content.read()
        if isinstance(content, FileRange):
            return self._source.read_at(content.begin, content.end)
        return content if isinstance(content, bytes) else b""

    def _report_overlong(self, lost: OverlongEvent) -> None:
        """Count an overlong event; it may begin in the carried text."""
        begun = b"".join(self._carried)
        self._carried, self._enough = [], 0
        text = begun or lost.text
        event = text.lstrip()
        line = self._line + 1 + text.count(b"\n", 0, len(text) - len(event))
        self._anomalies.add(Anomaly.TOO_LONG, line=line, text=event[:_SHOWN].decode("utf-8", "replace"))
        self._line += begun.count(b"\n") + lost.newlines

    def _take(self, block: EventBlock, answer: Future[Answer] | None) -> bytes | None:
        """Add the events of a block; return the text after the list if it ends in the block, else None."""
        if not self._carried and not block.is_last:
            batch, packer = self._decode(self._text(block)) if answer is None else self._wait_for(answer)
            # A block that can be decoded ends after an event, so the next one begins with an event.
            if batch is not None:
                self._add(batch, batch.newlines, packer)
                return None
        self._carried.append(self._text(block))
        if not block.is_last and sum(map(len, self._carried)) < self._enough:
            return None
        with _no_collection():
            return self._scan(b"".join(self._carried), block.is_last)

    def _scan(self, data: bytes, is_last: bool) -> bytes | None:
        text = data.decode("utf-8", "surrogateescape")
        anomalies = Anomalies()
        found = scan(text, anomalies, is_last=is_last)
        batch = batch_from_objects(found.events, found.lines, self._task.args, anomalies)
        self._add(self._decoder.pack(batch), text.count("\n", 0, found.end), self._decoder)
        rest = text[found.end :].encode("utf-8", "surrogateescape")
        self._carried = [] if found.is_closed or not rest else [rest]
        self._enough = 2 * len(rest)
        return rest if found.is_closed else None

    def _decode(self, data: bytes) -> Answer:
        with _no_collection():
            return self._decoder.decode(data), self._decoder

    def _wait_for(self, answer: Future[Answer]) -> Answer:
        while True:
            try:
                return answer.result(_CHECK_EVERY_S)
            except NotDoneError:
                self._source.keep_going(self._builder.rows)

    def _add(self, batch: PackedBatch, newlines: int, packer: object) -> None:
        self._anomalies.add_all(batch.anomalies, lines_before=self._line)
        self._builder.add(batch, self._line, packer)
        self._line += newlines

    def _note_end(self, lost: int, *, may_be_open: bool) -> None:
        """Note that the list of events was not closed."""
        if may_be_open and not lost:  # the format allows it
            return
        count = self._builder.events
        events = "1 event" if count == 1 else f"{count:,} events"
        left = f"; {size_text(lost)} of a truncated event are skipped" if lost else ""
        self._partial = f"truncated after {events}"
        shown = f"{events} {'is' if count == 1 else 'are'} shown"
        self._notes.append(InputIssue("error", None, "", f"the file ends inside its event list: {shown}{left}"))


def _second_document(line: int) -> InputIssue:
    reason = (
        "a second trace begins on this line: only the first is read, because their times and threads are "
        "unrelated; split the file, one trace each: jq -c . FILE | split -l 1"
    )
    return InputIssue("error", line, "", reason)


def _submit(block: EventBlock, pool: DecoderPool) -> Future[Answer] | None:
    """Have a worker decode the block; None if it must be parsed in this process."""
    return None if block.is_last or isinstance(block.content, OverlongEvent) else pool.decode(block.content)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable the garbage collector, which would scan the growing number of objects again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
