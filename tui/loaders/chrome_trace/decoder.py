"""Decodes events to columns in worker processes: the fast path, by PyTorch's byte layout or with msgspec."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from itertools import repeat
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from tui.loaders.chrome_trace.arg_columns import ArgsDecoder, parse_integers, text_codes
from tui.loaders.chrome_trace.event_batches import (
    COMPLETE,
    FLOW_EVENT,
    INSTANT_EVENT,
    KINDS_BY_PHASE,
    LONGEST_TEXT,
    NAME,
    NO_TEXT,
    OTHER,
    Anomalies,
    Anomaly,
    ArgValues,
    Event,
    EventBatch,
    EventRows,
    ExactEvent,
    NotProvenError,
    PackedBatch,
    Packer,
    TextCodes,
    decode_each,
    drop_implausible_times,
    merge_rows,
)
from tui.loaders.chrome_trace.torch_layout import find_torch_layout
from tui.loaders.chrome_trace.untyped_events import metadata_names
from tui.loaders.digits import EXACT_BELOW_US, NULL, us_floats_to_ns, us_texts_to_ns, us_to_ns
from tui.loaders.worker_process import (
    FileRange,
    WorkerLostError,
    WorkerProcess,
    memory_for_loading,
)
from tui.runtime import available_cores, core_limit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from concurrent.futures import Future

    import numpy.typing as npt
    from msgspec import Raw

    from tui.loaders.chrome_trace.event_batches import Arg, EventSplit
    from tui.loaders.chrome_trace.torch_layout import TorchLayout
    from tui.loaders.worker_process import Channel

    Ints = npt.NDArray[np.int64]


_MAX_BYTES: Final = 16 << 20
"""Bytes of all stored prefixes; above it they are discarded, because they rarely repeat."""


class EventPrefixes(dict[bytes, int]):
    """Assigns numbers to distinct prefixes of complete events: the text before the times; each is parsed once."""

    def __init__(self) -> None:
        super().__init__()
        self._decoder = msgspec.json.Decoder(Event)
        self._events: list[Event] = []
        self._bytes = 0

    def __missing__(self, prefix: bytes) -> int:
        event = self._decoder.decode(b"".join((b"{", prefix, b"}")))
        if event.ph != "X" or len(prefix) > LONGEST_TEXT:
            raise NotProvenError
        number = self[prefix] = len(self._events)
        self._events.append(event)
        self._bytes += len(prefix)
        return number

    def rows(
        self, prefixes: list[bytes], start_ns: Ints, duration_ns: Ints, lines: Ints, texts: TextCodes
    ) -> EventRows:
        """Return the rows of events with these prefixes, without arguments.

        Raises:
            msgspec.DecodeError: A prefix is invalid JSON.
            UnicodeDecodeError: A prefix is not UTF-8.
            RecursionError: A prefix is nested too deep.
            NotProvenError: A prefix is not that of a complete event, or too long.
        """
        if self._bytes > _MAX_BYTES:
            self.clear()
            self._events.clear()
            self._bytes = 0
        numbers = np.fromiter(map(self.__getitem__, prefixes), np.int64, len(prefixes))
        used_numbers = np.flatnonzero(np.bincount(numbers, minlength=1))
        row_of_number = np.zeros(len(self._events) or 1, np.int64)
        row_of_number[used_numbers] = np.arange(len(used_numbers))
        prefix_rows = row_of_number[numbers]
        events = [self._events[number] for number in used_numbers.tolist()]
        cat, name, pid, tid = (
            np.array([texts[getattr(event, column)] for event in events], np.int32)[prefix_rows]
            for column in ("cat", "name", "pid", "tid")
        )
        return EventRows(cat, name, pid, tid, start_ns, duration_ns, lines)


_MAX_CATEGORIES: Final = 200
_MAX_INDENTATION: Final = 64
"""The largest indentation of events."""
_NEWLINE, _COMMA, _BRACE = b"\n,{"


@dataclass(slots=True)
class _EventsByPhase:
    """Events by phase, implausible times included."""

    complete_indices: Ints
    """The indices of the complete events among all events."""
    complete: EventRows
    instants: EventRows
    flow_indices: Ints
    flows: EventRows
    names: list[tuple[str | None, str | None, str, str]]


class Decoder:
    """Decodes texts of whole events; it learns the arguments of each category as it decodes."""

    def __init__(self, args: Sequence[Arg]) -> None:
        self._args = tuple(args)
        self._args_decoders: dict[str | None, ArgsDecoder] = {}
        self._is_exact = False
        self._list_decoder = msgspec.json.Decoder(list[Event])
        self._exact_list_decoder = msgspec.json.Decoder(list[ExactEvent])
        self._event_decoder = msgspec.json.Decoder(Event)
        self._exact_event_decoder = msgspec.json.Decoder(ExactEvent)
        self._prefixes = EventPrefixes()

    def decode(self, data: bytes) -> EventBatch | None:
        """Return the columns of events.

        Args:
            data: Events with commas between them; a comma may follow the last.

        Returns:
            None if the text is anything else.
        """
        try:
            layout = find_torch_layout(data)
            batch = None if layout is None else self._decode_layout(layout)
            return self._decode_text(data) if batch is None else batch
        except _NotExactError:
            self._is_exact = True
            return self.decode(data)

    def _decode_layout(self, layout: TorchLayout) -> EventBatch | None:
        """Return the columns of events by their layout; None if a part is not as expected."""
        texts, anomalies = TextCodes(), Anomalies()
        try:
            decoder: msgspec.json.Decoder[Any] = self._exact_event_decoder if self._is_exact else self._event_decoder
            events = decode_each(decoder, layout.other_events)
            other_events = self._split_by_phase(events, layout.lines[layout.other_indices], texts, anomalies)
            flows = layout.flows.rows(layout.lines, texts)
            complete = self._prefixes.rows(
                layout.prefixes, layout.start_ns, layout.duration_ns, layout.lines[layout.event_indices], texts
            )
            complete.args = [
                values
                for decoder, rows in self._rows_by_category(complete, texts)
                for values in decoder.decode_torch_layout(layout.args.select(rows), rows, texts)
            ]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, NotProvenError):
            return None
        other_events.complete = merge_rows(
            (complete, other_events.complete),
            (layout.event_indices, layout.other_indices[other_events.complete_indices]),
        )
        other_events.flows = merge_rows(
            (flows, other_events.flows), (layout.flows.event_indices, layout.other_indices[other_events.flow_indices])
        )
        return _batch(other_events, texts, anomalies, len(layout.lines), layout.newlines)

    def _decode_text(self, data: bytes) -> EventBatch | None:
        """Return the columns of events in any layout of valid JSON, as `decode`."""
        end = len(data)
        while end and data[end - 1] in b", \r\n\t":
            end -= 1
        text = b"".join((b"[", memoryview(data)[:end], b"]"))
        try:
            events: list[Any] = (self._exact_list_decoder if self._is_exact else self._list_decoder).decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        buffer = np.frombuffer(text, np.uint8)
        newlines = np.flatnonzero(buffer == _NEWLINE)
        lines = _starts(buffer, newlines, len(events))
        texts, anomalies = TextCodes(), Anomalies()
        try:
            events_by_phase = self._split_by_phase(events, lines, texts, anomalies)
        except UnicodeDecodeError:  # in an argument
            return None
        # Newlines after the last event are not in ``text``.
        return _batch(events_by_phase, texts, anomalies, len(events), len(newlines) + data.count(b"\n", end))

    def _split_by_phase(
        self, events: Sequence[Any], lines: Ints | None, texts: TextCodes, anomalies: Anomalies
    ) -> _EventsByPhase:
        """Return the columns of events by phase.

        Raises:
            UnicodeDecodeError: In an argument.
            _NotExactError: A time is too large for a float.
        """
        # Column by column: most of the time is spent on operations per event.
        columns = (
            zip(*map(msgspec.structs.astuple, events), strict=True) if events else [()] * len(Event.__struct_fields__)
        )
        phase, cat, name, pid, tid, ts, dur, ids, args = columns
        count = len(events)
        kind = np.fromiter(map(KINDS_BY_PHASE.get, phase, repeat(OTHER)), np.uint8, count)
        codes = [text_codes(column, texts, count) for column in (cat, name, pid, tid)]
        start_ns = self._ns(ts)

        def phase_rows(phase: int) -> tuple[Ints, EventRows]:
            indices = np.flatnonzero(kind == phase)
            phase_codes = [column[indices] for column in codes]
            phase_lines = None if lines is None else lines[indices]
            return indices, EventRows(
                phase_codes[0],
                phase_codes[1],
                phase_codes[2],
                phase_codes[3],
                start_ns[indices],
                duration_ns=None,
                line=phase_lines,
            )

        complete_indices, complete = phase_rows(COMPLETE)
        complete.duration_ns = self._ns([dur[index] for index in complete_indices.tolist()], are_durations=True)
        complete.args = self._arguments(complete, [args[index] for index in complete_indices.tolist()], texts)
        instant_indices, instants = phase_rows(INSTANT_EVENT)
        instants.args = self._arguments(instants, [args[index] for index in instant_indices.tolist()], texts)
        flow_indices, flows = phase_rows(FLOW_EVENT)
        flows.phase = text_codes([phase[index] for index in flow_indices.tolist()], texts, len(flow_indices))
        flows.number = parse_integers([ids[index] for index in flow_indices.tolist()])
        names = [
            name_entry for index in np.flatnonzero(kind == NAME).tolist() for name_entry in _name_args(events[index])
        ]
        for index in np.flatnonzero(kind == OTHER).tolist():
            if phase[index] is not None or name[index] is not None:
                anomalies.add(Anomaly.PHASE, line=None if lines is None else int(lines[index]))
        return _EventsByPhase(complete_indices, complete, instants, flow_indices, flows, names)

    def _arguments(self, rows: EventRows, args: Sequence[Raw | bytes], texts: TextCodes) -> list[ArgValues]:
        """Return the wanted argument values of events.

        Raises:
            msgspec.DecodeError: They are invalid JSON.
            UnicodeDecodeError: A key is not UTF-8.
            RecursionError: They are nested too deep.
            NotProvenError: A text is not the arguments of exactly one event.
        """
        return [
            values
            for decoder, category_rows in self._rows_by_category(rows, texts)
            for values in decoder.decode([args[index] for index in category_rows.tolist()], category_rows, texts)
        ]

    def _rows_by_category(self, rows: EventRows, texts: TextCodes) -> Iterator[tuple[ArgsDecoder, Ints]]:
        """Yield the rows of each category, and the decoder of their arguments."""
        # np.unique would import numpy.ma, which takes longer than decoding a block.
        for code in (np.flatnonzero(np.bincount(rows.cat + 1)) - 1).tolist() if self._args else ():
            cat = None if code == NO_TEXT else texts.all_texts[code]
            decoder = self._args_decoders.get(cat)
            if decoder is None:
                decoder = ArgsDecoder(self._args)
                if len(self._args_decoders) < _MAX_CATEGORIES:
                    self._args_decoders[cat] = decoder
            yield decoder, np.flatnonzero(rows.cat == code)

    def _ns(self, times: Sequence[Any], *, are_durations: bool = False) -> Ints:
        """Return times in nanoseconds, `NULL` for null.

        Raises:
            _NotExactError: A start is too large for a float.
        """
        if self._is_exact:
            return us_texts_to_ns(times)
        try:
            numbers = np.fromiter(times, np.float64, len(times))
        except (TypeError, ValueError):  # some are text or missing
            if any(isinstance(time, float) and abs(time) >= EXACT_BELOW_US for time in times):
                raise _NotExactError from None
            return np.array([us_to_ns(time) for time in times], np.int64)
        missing = np.isnan(numbers)
        numbers[missing] = 0
        if len(numbers) and float(np.abs(numbers).max()) >= EXACT_BELOW_US:
            if not are_durations:
                raise _NotExactError
            numbers = np.clip(numbers, -1, EXACT_BELOW_US - 1)  # implausible either way
        ns = us_floats_to_ns(numbers)
        ns[missing] = NULL
        return ns


def _batch(
    events_by_phase: _EventsByPhase, texts: TextCodes, anomalies: Anomalies, count: int, newlines: int
) -> EventBatch:
    """Return the batch of decoded events; those with implausible times are dropped and counted."""
    batch = EventBatch(
        texts.all_texts,
        drop_implausible_times(events_by_phase.complete, anomalies),
        drop_implausible_times(events_by_phase.instants, anomalies),
        drop_implausible_times(events_by_phase.flows, anomalies),
        events_by_phase.names,
        anomalies.counts,
        count,
        newlines,
    )
    anomalies.add(Anomaly.LONG_TEXT, texts.cut_count)
    anomalies.add(Anomaly.NOT_UTF8, texts.not_utf8_count)
    return batch


class _NotExactError(Exception):
    """A time is too large for a float."""


def _name_args(event: Any) -> list[tuple[str | None, str | None, str, str]]:
    """Return the names in a metadata event, as `metadata_names`; none if its arguments are damaged."""
    try:
        args = msgspec.json.decode(event.args)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return metadata_names({"pid": event.pid, "tid": event.tid, "name": event.name, "args": args})


def _starts(text: npt.NDArray[np.uint8], newlines: Ints, count: int) -> Ints | None:
    """Return the line, from 1, in which each of ``count`` events begins; None if the layout does not show it.

    The text begins with the bracket of the list. If the first event begins on a line of its own, all lines with the
    same indentation and a brace begin events.
    """
    if not len(newlines):
        return np.ones(count, np.int64)
    brace = int(np.argmax(text == _BRACE)) if count else 0
    indentation = text[1:brace]
    if not 0 < len(indentation) < _MAX_INDENTATION or indentation[0] != _NEWLINE or (indentation[1:] == _NEWLINE).any():
        return None
    line_starts = newlines[newlines + brace < len(text)]
    is_start = (text[line_starts + brace - 1] == _BRACE) & ((text[line_starts - 1] == _COMMA) | (line_starts == 1))
    for offset in range(1, brace - 1):
        is_start &= text[line_starts + offset] == indentation[offset]
    lines = np.flatnonzero(is_start) + 2
    return lines if len(lines) == count else None


TIMEOUT_S: Final = 60.0
"""A process that does not answer for so long is lost; decoding a block takes about 0.1 s."""
_KEEP_MEMORY: Final = {"MALLOC_TRIM_THRESHOLD_": str(1 << 28), "MALLOC_MMAP_THRESHOLD_": str(1 << 28)}
"""Has glibc reuse the memory of one block for the next instead of returning it to the system."""
_WORKER_BYTES: Final = 128 << 20
"""The maximum memory of a process, with the block that it decodes and its answer."""
_MIN_BYTES_PER_WORKER: Final = 24 << 20
"""Bytes of text that justify starting another process."""


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """What worker processes are to read from events."""

    args: Sequence[Arg]
    """The arguments that become columns."""
    split: EventSplit | None = None
    flow_categories: Collection[str] | None = None
    """The categories of the wanted flow events; None for all."""


class PackingDecoder:
    """Decodes texts to packed batches in this process."""

    def __init__(self, task: DecodeTask) -> None:
        self._decoder = Decoder(task.args)
        self._packer = Packer(task.args, task.split, task.flow_categories)

    def decode(self, data: bytes) -> PackedBatch | None:
        """Return the packed result of `Decoder.decode`."""
        batch = self._decoder.decode(data)
        return None if batch is None else self._packer.pack(batch)

    def pack(self, batch: EventBatch) -> PackedBatch:
        """Pack a batch from the slow path."""
        return self._packer.pack(batch)


def serve(channel: Channel) -> None:
    """Decode for another process: receive a `DecodeTask`, then texts or `FileRange`s; answer with packed batches."""
    gc.disable()  # decoding creates millions of objects, but no cycles
    decoding = PackingDecoder(channel.receive())
    while True:
        data = channel.receive()
        channel.send(decoding.decode(data.read() if isinstance(data, FileRange) else data))
        del data


class DecoderProcess:
    """One worker process, used by one thread at a time."""

    def __init__(self, task: DecodeTask, command: Sequence[str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        """Start it.

        Raises:
            OSError: It cannot be started.
        """
        self.process = WorkerProcess(f"{__name__}:serve", command=command, env=_KEEP_MEMORY, timeout_s=timeout_s)
        self._task: DecodeTask | None = task

    def decode(self, data: bytes | FileRange) -> PackedBatch | None:
        """Return the packed result for a text or a part of a file, as `PackingDecoder.decode`.

        Raises:
            WorkerLostError: The process has ended or failed.
        """
        if self._task is not None:
            self.process.send(self._task)
            self._task = None
        self.process.send(data)
        batch: PackedBatch | None = self.process.receive(max_bytes=64 * len(data) + (1 << 20))
        return batch


Answer = tuple[PackedBatch | None, object]
"""The decoded batch, and its packer."""


class DecoderPool:
    """Worker processes; if one fails, this process decodes its text."""

    def __init__(
        self,
        task: DecodeTask,
        count: int,
        *,
        command: Sequence[str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        from concurrent.futures import ThreadPoolExecutor  # worker processes import this file, too, and need none

        self.size = count
        self._task = task
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="decode")
        self._free: SimpleQueue[DecoderProcess] = SimpleQueue()
        self._is_closed = False
        self.workers: list[DecoderProcess] = []
        for _ in range(count):
            try:
                worker = DecoderProcess(task, command, timeout_s)
            except OSError:  # too many processes: this process decodes
                break
            self.workers.append(worker)
            self._free.put(worker)

    def decode(self, data: bytes | FileRange) -> Future[Answer]:
        """Return the future result of `PackingDecoder.decode` for a text or a part of a file, and its packer."""
        return self._threads.submit(self._decode, data)

    def _decode(self, data: bytes | FileRange) -> Answer:
        try:
            worker = self._free.get_nowait()
        except Empty:
            return self._decode_locally(data)
        try:
            batch = worker.decode(data)
        except WorkerLostError:
            # After `close` nobody waits for the result.
            return (None, worker) if self._is_closed else self._decode_locally(data)
        self._free.put(worker)
        return batch, worker

    def _decode_locally(self, data: bytes | FileRange) -> Answer:
        decoding = PackingDecoder(self._task)
        try:
            return decoding.decode(data if isinstance(data, bytes) else data.read()), decoding
        except OSError:  # the file was replaced
            return None, decoding

    def close(self) -> None:
        """Kill all processes and end all threads."""
        self._is_closed = True
        for worker in self.workers:
            worker.process.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self.workers:
            worker.process.close()


def max_workers(size: int | None) -> int:
    """Return the number of worker processes for a text, by cores, memory and the size of the text.

    Args:
        size: The approximate number of bytes that are left; None if unknown.

    Returns:
        0 if other processes read other files at the same time and this one has a single core.
    """
    limit = core_limit()
    if limit is not None and limit <= 1:
        return 0
    cores = limit or available_cores()
    useful_workers = cores if size is None else 1 + size // _MIN_BYTES_PER_WORKER
    return max(1, min(cores, useful_workers, memory_for_loading() // _WORKER_BYTES))
