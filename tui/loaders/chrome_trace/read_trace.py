"""Reads a trace: decodes its events in batches and builds frames from them."""

from __future__ import annotations

import gc
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotDoneError
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from tui.fmt import brief_size
from tui.loaders.base import keep_going
from tui.loaders.chrome_trace.arg_columns import parse_triple
from tui.loaders.chrome_trace.decoder import Answer, DecoderPool, DecodeTask, PackingDecoder, max_workers
from tui.loaders.chrome_trace.event_batches import (
    ALL_EVENTS,
    EVENT_KEYS,
    MAX_EVENT_TEXT,
    NO_TEXT,
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
from tui.loaders.input_issues import InputIssue
from tui.loaders.text.lines import as_utf8, detect_encoding
from tui.loaders.worker_process import FileRange
from tui.model.errors import ProftuiError
from tui.runtime import release_freed_memory, run_concurrently, thread_limit
from tui.text import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from tui.loaders.base import ProgressCallback
    from tui.loaders.chrome_trace.event_batches import EventSplit
    from tui.loaders.input_file import InputFile

    Codes = npt.NDArray[np.int32]
    Ints = npt.NDArray[np.int64]


_AXES: Final = ("x", "y", "z")
_CHUNK_ROWS: Final = 1 << 18
"""Events in a chunk of the frames."""
_WATCHED_CHUNK_ROWS: Final = 1 << 16
"""Events in a chunk if ``watch`` receives the chunks."""


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
        threads = ThreadPoolExecutor(thread_limit(), thread_name_prefix="build") if thread_limit() > 1 else None
        arg_columns = [arg.column for arg in args]
        event_columns = (*EVENT_KEYS, "start_ns", "duration_ns", "line")
        columns_by_part = {ALL_EVENTS: (*event_columns, *arg_columns)} if split is None else split.columns
        kinds = {arg.column: arg.kind for arg in args}
        self._complete = {
            part: _FrameBuilder(
                self._texts,
                [name for name in (*event_columns, *arg_columns) if name in columns],
                kinds,
                part,
                watch,
                threads,
            )
            for part, columns in columns_by_part.items()
        }
        self._instants = _FrameBuilder(self._texts, [*EVENT_KEYS, "start_ns", "line", *arg_columns], kinds)
        self._flows = _FrameBuilder(self._texts, ["phase", *EVENT_KEYS, "number", "start_ns"], {})
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
        # `NO_TEXT` is -1: the last entry.
        codes = np.append(self.add_texts(batch, packer), np.int32(NO_TEXT))
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

    def add_texts(self, batch: PackedBatch, packer: object) -> Codes:
        """Add only the texts of a batch, to which later batches of its packer refer; return the code of each."""
        codes = self._texts.codes(batch.new_texts)
        if not batch.is_first:
            codes = np.concatenate([self._codes[packer], codes])
        self._codes[packer] = codes
        return codes

    def trace(self, metadata: Mapping[str, Any], notes: Sequence[InputIssue], partial: str) -> Trace:
        """Return the trace of all batches."""
        self._texts.categories()
        frames = (*self._complete.values(), self._instants, self._flows)
        *complete_frames, instants, flows = run_concurrently(*(frame.frame for frame in frames))
        complete = dict(zip(self._complete, complete_frames, strict=True))
        flows = flows.rename({"phase": "ph", "number": "id"})
        other_starts = [
            first_ns for frame in (self._instants, self._flows) if (first_ns := frame.first_start_ns()) is not None
        ]
        origin_ns = min(other_starts, default=0) if self._first_ns is None else self._first_ns
        schema = {"pid": pl.Categorical, "tid": pl.Categorical, "name": pl.String, "value": pl.String}
        return Trace(
            metadata=metadata,
            complete=_relative_to(origin_ns, complete.pop(ALL_EVENTS, pl.DataFrame())),
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
    if "start_ns" not in frame.columns:
        return frame
    # An expression would write out the columns that are all null.
    return frame.clone().replace_column(frame.get_column_index("start_ns"), frame["start_ns"] - origin_ns)


@dataclass(frozen=True, slots=True)
class _Categories:
    """The texts of codes; thread-safe."""

    texts: pl.Series

    def categorical(self, name: str, codes: Codes) -> pl.Series:
        """Return codes as a categorical column."""
        return self.texts.gather(_series_with_nulls(name, codes, NO_TEXT).cast(pl.UInt32)).alias(name)

    def triples(self, codes: Codes) -> Ints:
        """Return the three numbers of each code; each distinct text is parsed once."""
        is_used = np.zeros(len(self.texts) + 1, np.bool_)
        is_used[codes] = True
        used_codes = np.flatnonzero(is_used[:-1])
        table = np.full((len(is_used), 3), NULL, np.int64)
        texts = self.categorical("", used_codes.astype(np.int32)).cast(pl.String)
        for code, text in zip(used_codes.tolist(), texts, strict=True):
            table[code] = parse_triple(text)
        return table[codes]


class _TextTable:
    """The codes of all distinct texts."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}
        self._pending: list[str] = []
        self._categories = _Categories(pl.Series([], dtype=pl.Categorical))

    def codes(self, texts: Sequence[str]) -> Codes:
        """Return the code of each text."""
        known_count = len(self._code)
        codes = [self._code.setdefault(text, len(self._code)) for text in texts]
        self._pending += [text for text, code in zip(texts, codes, strict=True) if code >= known_count]
        return np.array(codes, np.int32)

    def categories(self) -> _Categories:
        """Return the texts of all codes until now."""
        if self._pending:
            pending_texts = pl.Series(self._pending, dtype=pl.Categorical)
            self._categories = _Categories(self._categories.texts.clone().append(pending_texts))
            self._pending = []
        return self._categories


class _FrameBuilder:
    """Builds one frame, chunk by chunk."""

    def __init__(
        self,
        texts: _TextTable,
        columns: Sequence[str],
        kinds: Mapping[str, ArgKind],
        part: str = ALL_EVENTS,
        watch: Callable[[str, pl.DataFrame], None] | None = None,
        threads: ThreadPoolExecutor | None = None,
    ) -> None:
        self._texts = texts
        self._columns = columns
        self._kinds = kinds
        self._part = part
        self._watch = watch
        self._threads = threads
        self._chunk_rows = _CHUNK_ROWS if watch is None else _WATCHED_CHUNK_ROWS
        self._pending: list[_PendingRows] = []
        self._height = 0
        self._futures: deque[Future[pl.DataFrame]] = deque()
        self._chunks: list[pl.DataFrame] = []

    def add(self, rows: PackedRows, codes: Codes, lines_before: int) -> None:
        """Add rows, which must not be used afterwards.

        Args:
            rows: The rows.
            codes: Translates their codes to those of `_TextTable`.
            lines_before: The number to add to their lines.
        """
        self._pending.append(_PendingRows(rows, codes, lines_before))
        self._height += rows.height
        if self._height >= self._chunk_rows:
            self._build(self._threads)
        while self._futures and self._futures[0].done():
            self._add_chunk(self._futures.popleft().result())

    def frame(self) -> pl.DataFrame:
        """Return all rows."""
        while self._futures:
            self._add_chunk(self._futures.popleft().result())
        if self._height or not self._chunks:
            self._build(None)
        return pl.concat(self._chunks, rechunk=False)

    def first_start_ns(self) -> int | None:
        """Return the earliest start; call it after `frame`."""
        start_ns = pl.concat([chunk.select("start_ns") for chunk in self._chunks])["start_ns"].min()
        return start_ns if isinstance(start_ns, int) else None

    def _build(self, threads: ThreadPoolExecutor | None) -> None:
        builder = _ChunkBuilder(self._columns, self._kinds, self._texts.categories(), self._pending, self._height)
        self._pending, self._height = [], 0
        if threads is None:
            self._add_chunk(builder.frame())
        else:
            self._futures.append(threads.submit(builder.frame))

    def _add_chunk(self, frame: pl.DataFrame) -> None:
        if self._watch is not None and frame.height:
            self._watch(self._part, frame)
        self._chunks.append(frame)


@dataclass(frozen=True, slots=True)
class _PendingRows:
    """Rows that are not yet in a chunk."""

    rows: PackedRows
    codes: Codes
    """Translates the codes of the rows to those of `_TextTable`."""
    lines_before: int
    """The number to add to the lines of the rows."""

    def pop_column(self, name: str, null: Any) -> npt.NDArray[Any]:
        """Remove a column, and return its values with the codes and lines of the file; null if it is missing."""
        if name not in self.rows.columns:
            return np.asarray(null)
        values: npt.NDArray[Any] = self.rows.columns.pop(name)
        if values.dtype == np.int32:
            values = self.codes[values]
        elif name == "line":
            values += np.uint32(self.lines_before & 0xFFFFFFFF)
        return values


@dataclass(frozen=True, slots=True)
class _ChunkBuilder:
    """Builds the next chunk of a frame."""

    columns: Sequence[str]
    kinds: Mapping[str, ArgKind]
    categories: _Categories
    pending: list[_PendingRows]
    height: int

    def frame(self) -> pl.DataFrame:
        """Return the chunk; this empties ``pending``."""
        columns: list[pl.Series] = []
        missing: list[pl.Expr] = []
        for name in self.columns:
            if any(name in pending.rows.columns for pending in self.pending):
                columns += self._column(name)
            else:  # a literal takes no memory
                kind = self.kinds.get(name)
                dtype = _EVENT_DTYPES[name] if kind is None else _ARG_DTYPES[kind]
                missing += [pl.lit(None, dtype).alias(column) for column in self._column_names(name)]
        self.pending.clear()
        order = [column for name in self.columns for column in self._column_names(name)]
        if columns:
            return pl.DataFrame(columns).with_columns(missing).select(order)
        return pl.select(missing).clear().select(order)

    def _column_names(self, name: str) -> list[str]:
        return _axes(name) if self.kinds.get(name) is ArgKind.TRIPLE else [name]

    def _column(self, name: str) -> list[pl.Series]:
        """Take a column out of the pending rows; a triple becomes three columns."""
        columns = [pending.rows.columns for pending in self.pending]
        dtype = next(values[name].dtype for values in columns if name in values)
        null = _NULLS[dtype.type]
        values = np.empty(self.height, dtype)
        begin = 0
        for pending in self.pending:
            end = begin + pending.rows.height
            values[begin:end] = pending.pop_column(name, null)
            begin = end
        if dtype == np.float64:
            return [pl.Series(name, values, nan_to_null=True)]
        if dtype != np.int32:
            return [_series_with_nulls(name, values, null)]
        if self.kinds.get(name) is not ArgKind.TRIPLE:
            return [self.categories.categorical(name, values)]
        triples = self.categories.triples(values)
        return [_series_with_nulls(axis, triples[:, index], NULL) for index, axis in enumerate(_axes(name))]


_NULLS: Final[dict[type, Any]] = {np.int32: NO_TEXT, np.int64: NULL, np.float64: np.nan, np.uint32: 0}
_EVENT_DTYPES: Final = {
    **dict.fromkeys(("phase", *EVENT_KEYS), pl.Categorical),
    **dict.fromkeys(("start_ns", "duration_ns", "number"), pl.Int64),
    "line": pl.UInt32,
}
_ARG_DTYPES: Final = {
    ArgKind.INTEGER: pl.Int64,
    ArgKind.NUMBER: pl.Float64,
    ArgKind.TEXT: pl.Categorical,
    ArgKind.TRIPLE: pl.Int64,
}


def _axes(name: str) -> list[str]:
    return [f"{name}_{axis}" for axis in _AXES]


def _series_with_nulls(name: str, values: npt.NDArray[Any], null: int) -> pl.Series:
    series = pl.Series(name, values)
    has_value = values != null
    if has_value.all():
        return series
    return pl.select(pl.when(pl.Series(has_value)).then(series).alias(name)).to_series()


_SMALL_BLOCK: Final = 1 << 20
"""Bytes of a block that is decoded in this process without blocking the screen."""
_BLOCK: Final = 4 << 20
_LOCAL_BLOCKS: Final = 8
"""Blocks that are decoded in this process before worker processes take over."""
_MIN_POOL_BLOCKS: Final = 48
"""The minimum number of further blocks for worker processes: fewer are decoded before the processes have started."""
_LARGE_BYTES: Final = 64 << 20
_LARGE_COMPRESSED_BYTES: Final = 8 << 20
"""Bytes of a file on the disk above which worker processes start with the first block."""
_CHECK_EVERY_S: Final = 0.1
_SECOND_DOCUMENT: Final = re.compile(rb"\}\s*+(\{)")
"""After the list: the end of a document and the beginning of another one."""
_ONLY_THE_FIRST: Final = (
    "a second trace begins on this line: only the first is read, because their times and threads are unrelated; "
    "split the file, one trace each: jq -c . FILE | split -l 1"
)

PoolMaker = Callable[[DecodeTask, int], DecoderPool]


def read_trace(
    source: InputFile,
    args: Sequence[Arg],
    on_progress: ProgressCallback = keep_going,
    *,
    split: EventSplit | None = None,
    flow_categories: Collection[str] | None = None,
    watch: Callable[[str, pl.DataFrame], None] | None = None,
    make_pool: PoolMaker | None = DecoderPool,
    is_one_trace: bool = False,
) -> Trace:
    """Read a file of trace events.

    Args:
        source: The input, not yet read.
        args: The arguments of events that become columns.
        on_progress: Called with the progress; when it returns False, reading ends with the part that was read.
        split: Splits complete events into parts.
        flow_categories: The categories of the wanted flow events; None for all.
        watch: Called with the name of a part and each new chunk of it.
        make_pool: Starts the processes that decode a large input; with None it is decoded in this process.
        is_one_trace: Whether further documents in the file are parts of the trace.

    Raises:
        ProftuiError: The file holds no trace events.
    """
    source.set_on_progress(on_progress)
    task = DecodeTask(tuple(args), split, None if flow_categories is None else frozenset(flow_categories))
    return _TraceReader(source, task, TraceBuilder(args, split, watch), make_pool, is_one_trace).trace()


class _TraceReader:
    """Reads one input."""

    def __init__(
        self,
        source: InputFile,
        task: DecodeTask,
        builder: TraceBuilder,
        make_pool: PoolMaker | None,
        is_one_trace: bool,
    ) -> None:
        self._source = source
        self._is_one_trace = is_one_trace
        self._task = task
        self._make_pool = make_pool
        self._builder = builder
        self._anomalies = Anomalies()
        self._notes: list[InputIssue] = []
        self._partial = ""
        self._decoder = PackingDecoder(task)
        self._decompressor: Decompressor | None = None
        self._newlines_before = 0
        """Newlines before the next block."""
        self._blocks_read = 0
        """The number of blocks read from the stream."""
        self._carried: list[bytes] = []
        """Text that begins with an event whose end has not been read."""
        self._next_scan_bytes = 0
        """The number of carried bytes at which to parse again."""

    def trace(self) -> Trace:
        """Return the trace, or the part of it that was read before it ended or reading was stopped."""
        try:
            metadata = self._read_document(Stream(self._content()))
        finally:
            if self._decompressor is not None:
                self._decompressor.close()
        if self._source.stopped:
            size = self._source.size
            self._partial = f"stopped at {100 * self._source.bytes_read // size}%" if size else "stopped before its end"
        notes = [*self._notes, *self._anomalies.notes()]
        return self._builder.trace(metadata, notes, self._partial or self._source.cut_short)

    def _content(self) -> Iterator[bytes]:
        """Yield the text of the input as UTF-8, until the progress callback asks to stop."""
        chunks = self._source.chunks()
        first_chunk = next(chunks, b"")
        for chunk in as_utf8(detect_encoding(first_chunk), chain((first_chunk,), chunks)):
            yield chunk
            if not self._source.keep_going(self._builder.rows):
                return

    def _read_document(self, stream: Stream) -> dict[str, Any]:
        """Read all events; return the members outside the list of events."""
        metadata: dict[str, Any] = {}
        lists = 0
        is_complete = True
        while True:
            text_before, has_list = stream.read_to_list(may_be_list_only=not lists)
            if not lists and not has_list and not text_before.lstrip().startswith(b"{"):
                raise ProftuiError(
                    f"{self._source.display_name}: not a JSON document with trace events",
                    "export one with torch.profiler's export_chrome_trace",
                )
            second_document = _SECOND_DOCUMENT.search(text_before) if lists else None
            # In the text of a member, it begins no document.
            if second_document is not None and not object_members(text_before)[1]:
                begin = second_document.start(1)
                self._newlines_before += text_before.count(b"\n", 0, begin)
                if not self._is_one_trace:
                    metadata |= object_members(text_before[: second_document.start() + 1])[0]
                    self._notes.append(InputIssue("error", self._newlines_before + 1, "", _ONLY_THE_FIRST))
                    break
                text_before = text_before[begin:]
            key = text_before.rfind(b'"traceEvents"') if has_list else len(text_before)
            is_bare = key < 0
            members, is_object_complete = object_members(text_before[:key]) if not is_bare else ({}, True)
            metadata |= members
            is_complete &= is_object_complete
            self._newlines_before += text_before.count(b"\n")
            if not has_list:
                break
            lists += 1
            if not self._read_list(stream, may_be_open=is_bare):
                break
        if not is_complete and not lists and not self._source.stopped:
            raise ProftuiError(
                f"{self._source.display_name}: truncated or damaged before its event list (traceEvents)",
                "copy it again, or record it again and let the program finish",
            )
        if not is_complete and not self._source.stopped:
            reason = "damaged JSON outside the event list: only part of it was read"
            self._notes.append(InputIssue("warning", None, "", reason))
        return metadata

    def _read_list(self, stream: Stream, *, may_be_open: bool) -> bool:
        """Read a list of events; return whether it was closed, so that more may follow."""
        blocks = BlockReader(stream, self._source, _SMALL_BLOCK)
        new_pool = pool = None
        queue: deque[tuple[EventBlock, Future[Answer] | None]] = deque()
        try:
            while self._source.keep_going(self._builder.rows):
                # The processes of a large file start while this one decodes the first block.
                if self._blocks_read == (0 if self._is_large else self._local_blocks):
                    new_pool = self._new_pool(stream)
                if self._blocks_read == self._local_blocks and new_pool is not None:
                    pool = new_pool
                    blocks.use_file_ranges(_BLOCK)
                    self._decompressor = self._decompressor or blocks.use_decompressor(2 * pool.size + 1)
                while len(queue) < (1 if pool is None else 2 * pool.size) and (block := blocks.next()):
                    self._blocks_read += 1
                    queue.append((block, None if pool is None else _submit(block, pool)))
                if not queue:
                    break
                block, batch = queue.popleft()
                if isinstance(block.content, OverlongEvent):
                    self._report_overlong(block.content)
                    continue
                events = self._builder.events
                text_after = self._add_block(block, batch)
                blocks.note_event_density(block.size, self._builder.events - events)
                if isinstance(block.content, Slot) and self._decompressor is not None:
                    self._decompressor.free(block.content)
                if text_after is not None:
                    blocks.resume_stream()
                    stream.push_back(b"".join([text_after, *(self._text(block) for block, _ in queue)]))
                    return True
        finally:
            if new_pool is not None:
                new_pool.close()
                release_freed_memory()  # of the workers' answers
        if not self._source.stopped:
            self._note_end(sum(map(len, self._carried)), may_be_open=may_be_open)
        return False

    @property
    def _is_large(self) -> bool:
        """Whether the worker processes start with the first block."""
        return (self._source.size or 0) >= (_LARGE_COMPRESSED_BYTES if self._source.compression else _LARGE_BYTES)

    @property
    def _local_blocks(self) -> int:
        """The number of blocks after which worker processes take over; a pipe may end at any time."""
        if self._is_large:
            return 1
        return _LOCAL_BLOCKS if self._source.size else _LOCAL_BLOCKS + _MIN_POOL_BLOCKS

    def _new_pool(self, stream: Stream) -> DecoderPool | None:
        """Return new worker processes; None if they would take longer than decoding in this process."""
        bytes_left = self._source.size if self._source.compression is None else None
        if self._blocks_read and self._source.size:
            text_size = self._source.size * stream.text_read // max(1, self._source.bytes_read)
            bytes_left = text_size - stream.position
            if bytes_left < _MIN_POOL_BLOCKS * _SMALL_BLOCK:
                return None
        workers = max_workers(bytes_left)
        return None if self._make_pool is None or not workers else self._make_pool(self._task, workers)

    def _text(self, block: EventBlock) -> bytes:
        content = block.content
        if isinstance(content, Slot):
            return content.read()
        if isinstance(content, FileRange):
            return self._source.read_at(content.begin, content.end)
        return content if isinstance(content, bytes) else b""

    def _report_overlong(self, overlong: OverlongEvent) -> None:
        """Count an overlong event; it may begin in the carried text."""
        carried_text = b"".join(self._carried)
        self._carried, self._next_scan_bytes = [], 0
        text = carried_text or overlong.text
        event = text.lstrip()
        line = self._newlines_before + 1 + text.count(b"\n", 0, len(text) - len(event))
        self._anomalies.add(Anomaly.TOO_LONG, line=line, text=event[:MAX_EVENT_TEXT].decode("utf-8", "replace"))
        self._newlines_before += carried_text.count(b"\n") + overlong.newlines

    def _add_block(self, block: EventBlock, future: Future[Answer] | None) -> bytes | None:
        """Add the events of a block; return the text after the list if it ends in the block, else None."""
        if future is not None or not (self._carried or block.is_last):
            batch, packer = self._decode(self._text(block)) if future is None else self._wait_for(future)
            # A block that can be decoded ends after an event, so the next one begins with an event.
            if batch is not None and not self._carried:
                self._add(batch, batch.newlines, packer)
                return None
            if batch is not None:  # its events are parsed again, after the carried text
                self._builder.add_texts(batch, packer)
        self._carried.append(self._text(block))
        if not block.is_last and sum(map(len, self._carried)) < self._next_scan_bytes:
            return None
        with _no_collection():
            return self._scan(b"".join(self._carried), block.is_last)

    def _scan(self, data: bytes, is_last: bool) -> bytes | None:
        """Add the events of a text by the slow path, and carry its rest; return the text after the list, or None."""
        text = data.decode("utf-8", "surrogateescape")
        anomalies = Anomalies()
        result = scan(text, anomalies, is_last=is_last)
        batch = batch_from_objects(result.events, result.lines, self._task.args, anomalies)
        self._add(self._decoder.pack(batch), text.count("\n", 0, result.end), self._decoder)
        rest_bytes = text[result.end :].encode("utf-8", "surrogateescape")
        self._carried = [] if result.is_closed or not rest_bytes else [rest_bytes]
        self._next_scan_bytes = 2 * len(rest_bytes)
        return rest_bytes if result.is_closed else None

    def _decode(self, data: bytes) -> Answer:
        with _no_collection():
            return self._decoder.decode(data), self._decoder

    def _wait_for(self, future: Future[Answer]) -> Answer:
        while True:
            try:
                return future.result(_CHECK_EVERY_S)
            except NotDoneError:
                self._source.keep_going(self._builder.rows)

    def _add(self, batch: PackedBatch, newlines: int, packer: object) -> None:
        self._anomalies.add_counts(batch.anomalies, lines_before=self._newlines_before)
        self._builder.add(batch, self._newlines_before, packer)
        self._newlines_before += newlines

    def _note_end(self, lost: int, *, may_be_open: bool) -> None:
        """Note that the list of events was not closed."""
        if may_be_open and not lost:  # the format allows it
            return
        events = plural(self._builder.events, "event")
        lost_text = f"; {brief_size(lost)} of a truncated event are skipped" if lost else ""
        self._partial = f"truncated after {events}"
        shown_text = f"{events} {'is' if self._builder.events == 1 else 'are'} shown"
        self._notes.append(
            InputIssue("error", None, "", f"the file ends inside its event list: {shown_text}{lost_text}")
        )


def _submit(block: EventBlock, pool: DecoderPool) -> Future[Answer] | None:
    """Have a worker decode the block; None if it must be parsed in this process."""
    return None if block.is_last or isinstance(block.content, OverlongEvent) else pool.decode(block.content)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable the garbage collector, which would scan the growing number of objects again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
