"""Reads a text log: sessions and tables of several formats, with program output between them."""

from __future__ import annotations

import queue
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from polars.exceptions import PolarsError

from tui.fmt import brief_size
from tui.loaders.base import keep_going
from tui.loaders.collector import Collector
from tui.loaders.input_issues import kind_by_name, text_kind
from tui.loaders.text.block import Cues
from tui.loaders.text.csv_table import detect_semicolons
from tui.loaders.text.line_tags import find_tag, rank_in_tag
from tui.loaders.text.lines import decode_notebook, is_notebook
from tui.loaders.text.section import BulkSection
from tui.model.errors import FORMATS_HINT, NoProfileError, ProftuiError, first_line
from tui.runtime import BLOCK_BYTES, keep_freed_memory
from tui.text_width import clip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from tui.loaders.base import Format, ProgressCallback
    from tui.loaders.collector import Session
    from tui.loaders.input_file import InputFile
    from tui.loaders.text.block import Block, Line
    from tui.loaders.text.csv_table import Semicolons
    from tui.loaders.text.section import Section, TextFormat, TextReader
    from tui.model.profile import Profile


Item = TypeVar("Item")

_CHECK_EVERY_S: Final = 0.1
"""Seconds between two checks of a waiting thread for a stop."""


def prefetch(items: Iterable[Item], give_up: Callable[[], None]) -> Iterator[Item]:
    """Produce items in a thread, one ahead of the consumer.

    The thread ends with the items, with an exception (which is raised here), or when this generator is closed or
    interrupted.

    Args:
        items: The items, produced one at a time.
        give_up: Called if the consumer stops early; it must make the producer stop waiting.
    """
    ready: queue.Queue[list[Item] | BaseException] = queue.Queue(maxsize=1)
    unwanted = threading.Event()

    def put(value: list[Item] | BaseException) -> bool:
        while not unwanted.is_set():
            try:
                ready.put(value, timeout=_CHECK_EVERY_S)
            except queue.Full:
                continue
            return True
        return False

    def make() -> None:
        try:
            for item in items:
                if not put([item]):
                    return
            put([])
        except BaseException as error:
            put(error)

    maker = threading.Thread(target=make, name="read-ahead", daemon=True)
    maker.start()

    def take() -> list[Item] | BaseException:
        while True:
            try:
                # With Polars' signal handler, Ctrl+C does not interrupt a wait without timeout.
                return ready.get(timeout=_CHECK_EVERY_S)
            except queue.Empty:
                continue

    is_unfinished = True
    try:
        while result := take():
            if isinstance(result, BaseException):
                raise result
            yield result[0]
        is_unfinished = False
    finally:
        unwanted.set()
        if is_unfinished:
            give_up()
        maker.join()


_BAD_ROW: Final = (ValueError, OverflowError, PolarsError)
"""The exceptions of readers for rows that do not fit their table."""

_MIN_BULK_LINES: Final = 256
"""Lines; a bulk read of fewer lines costs more than it gains."""
_FIRST_SEARCH_LINES: Final = 1024
"""Lines that are searched for cues at first if no table is open."""
_MAX_SINGLE_LINES: Final = 8192
"""The maximum number of lines that are read one by one before the next bulk read."""
_LINES_BETWEEN_REPORTS: Final = 256
"""Lines that are read one by one before the next check whether to stop."""


class TextLogLoader:
    """Reads text logs with any number of formats in them."""

    def __init__(self, text_formats: Sequence[TextFormat]) -> None:
        self._text_formats = tuple(text_formats)

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats that it recognizes."""
        return tuple(text_format.format for text_format in self._text_formats)

    @cached_property
    def _cues(self) -> Cues:
        return Cues(text_format.cue for text_format in self._text_formats)

    def probe(self, head: bytes, name: str) -> float:
        """Return a high confidence if the head contains a cue, a low one for other text, 0 for binary input."""
        if not looks_like_text(head):
            return 0.0
        head = decode_notebook(head) if is_notebook(head) else head
        if (tag := find_tag(head)) is not None:
            head = tag.remove_from(head)
        return 0.9 if self._cues.match(head) or detect_semicolons(head, self._cues) is not None else 0.1

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Read the whole text.

        Raises:
            ProftuiError: No format found a table in it.
        """
        source.set_on_progress(on_progress)
        collector = Collector(source.name, source.preview)
        readings: list[_LogReader] = []
        semicolons = detect_semicolons(source.head, self._cues)
        with keep_freed_memory(BLOCK_BYTES):
            for block in prefetch(source.blocks(), source.give_up):
                blocks = [
                    process_block if semicolons is None else semicolons.convert(process_block)
                    for process_block in (block, *block.other_processes)
                ]
                readings += [self._new_reader(source, collector) for _ in blocks[len(readings) :]]
                continues = [
                    reading.read(process_block) for reading, process_block in zip(readings, blocks, strict=True)
                ]
                if not all(continues):
                    break
        collector.is_in_table = any(reading.is_in_table for reading in readings)
        # A byte order mark alone gives no block.
        readings = readings or [self._new_reader(source, collector)]
        for reading in readings:
            reading.finish()
        reading = readings[0]
        if semicolons is not None and collector.sessions:
            collector.session = None
            collector.issue("info", None, "", semicolons.issue_text)
        collector.add_issues(source.notes)
        if not collector.sessions:
            raise self._no_profile_error(source, reading, semicolons)
        if source.open_line is not None and not source.stopped:
            collector.open_line = source.open_line
        return collector.profile(text=source.text(), partial=_partial(source, reading.bytes_done))

    def _new_reader(self, source: InputFile, collector: Collector) -> _LogReader:
        return _LogReader(source, collector, [form.reader(collector) for form in self._text_formats], self._cues)

    def _no_profile_error(self, source: InputFile, reading: _LogReader, semicolons: Semicolons | None) -> ProftuiError:
        if source.stopped:
            return ProftuiError(
                f"{source.display_name}: {_partial(source, reading.bytes_done)} before a profile was found"
            )
        if semicolons is not None:
            return NoProfileError(f"{source.display_name}: no profile found", semicolons.issue_text)
        if (kind := text_kind(source.head) or kind_by_name(source.name)) is not None:
            return NoProfileError(f"{source.display_name}: this is {kind.title}, not supported", kind.hint)
        titles = [form.format.title for form in self._text_formats]
        looked_for = f"; looked for {titles[0]}" if len(titles) == 1 else ""
        if reading.first_line:
            holds = f"it begins with “{clip(reading.first_line, 80)}”"
        elif source.head:
            holds = "it has only blank lines" if source.head.strip(b"\0") else "it has only zero bytes"
        else:
            holds = "it has only a byte order mark"
        return NoProfileError(
            f"{source.display_name}: no profile found{looked_for}; {holds}", source.cut_short or FORMATS_HINT
        )


class _LogReader:
    """The state of reading the lines of one process, usually all of a text: at most one section is open."""

    def __init__(self, source: InputFile, collector: Collector, readers: Sequence[TextReader], cues: Cues) -> None:
        self.first_line = ""
        """The first line that is not blank."""
        self.bytes_done = 0
        """Bytes of the input, as stored, that the lines until now take."""
        self._source = source
        self._collector = collector
        self._readers = readers
        self._cues = cues
        self._cue_lines: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._searched = 0
        self._next_search_lines = _FIRST_SEARCH_LINES
        self._section: Section | None = None
        self._bulk: BulkSection | None = None
        self._session: Session | None = None
        """The current session of the process."""
        self._last_line = 0
        self._single_line_count = 0
        self._single_lines = 0

    @property
    def is_in_table(self) -> bool:
        """Whether the last line read is within a table."""
        return self._section is not None

    def read(self, block: Block) -> bool:
        """Read a block; False when asked to stop.

        After a stop while waiting for a silent pipe, the received text is still read.
        """
        self._collector.session, session_count = self._session, len(self._collector.sessions)
        try:
            return self._read(block)
        finally:
            self._session = self._collector.session
            if (rank := rank_in_tag(block.tag)) is not None:
                for session in self._collector.sessions[session_count:]:
                    session.facts.setdefault("rank", rank)

    def _read(self, block: Block) -> bool:
        was_stopped = self._source.stopped
        index = looked_up = 0
        self._cue_lines, self._searched, self._next_search_lines = np.zeros(0, np.int64), 0, _FIRST_SEARCH_LINES
        bytes_before, self.bytes_done = self.bytes_done, block.bytes_read
        while index < block.line_count:
            if index - looked_up >= _LINES_BETWEEN_REPORTS:
                looked_up = index
                if not self._source.keep_going(self._collector.row_count) and not was_stopped:
                    self.bytes_done = bytes_before + (self.bytes_done - bytes_before) * index // block.line_count
                    return False
            index = (
                self._offer_next(block, index)
                if self._section is None
                else self._continue_section(self._section, block, index)
            )
        if not self.first_line:
            self.first_line = next((line for i in range(block.line_count) if (line := block.line(i).text.strip())), "")
        return self._source.keep_going(self._collector.row_count)

    def finish(self) -> None:
        """Finish at the end of the text."""
        self._collector.session = self._session
        self._close()
        for reader in self._readers:
            self._call_guarded(reader.finish)

    def _offer_next(self, block: Block, index: int) -> int:
        """Offer the next line with a cue to the readers; returns the index after it."""
        while (position := int(np.searchsorted(self._cue_lines, index))) == len(self._cue_lines):
            # A table may begin soon and take the rest of the block, so few lines are searched at first.
            search_start = max(index, self._searched)
            if search_start == block.line_count:
                return search_start
            self._searched = min(search_start + self._next_search_lines, block.line_count)
            self._next_search_lines *= 8
            self._cue_lines = self._cues.indices(block, search_start, self._searched)
        index = int(self._cue_lines[position])
        line = block.line(index)
        self._last_line = line.number
        for reader in self._readers:
            opened = self._begin(reader, line)
            if opened is False:
                continue
            if opened is not True:
                self._section = opened
                self._bulk = (
                    opened if isinstance(opened, BulkSection) else None
                )  # isinstance is too slow for every line
                self._single_line_count = self._single_lines = 0
            break
        return index + 1

    def _begin(self, reader: TextReader, line: Line) -> Section | bool:
        try:
            return reader.begin(line)
        except _BAD_ROW as error:
            self._bad_row(line, error)
            return True

    def _continue_section(self, section: Section, block: Block, index: int) -> int:
        """Continue a section; returns the index of the next line."""
        if self._single_lines:
            self._single_lines -= 1
        elif self._bulk is not None:
            index = self._take_bulk(self._bulk, block, index)
            if index == block.line_count:
                return index
        line = block.line(index)
        try:
            is_read = section.take(line)
        except _BAD_ROW as error:
            self._bad_row(line, error)
            is_read = True
        if is_read:
            self._last_line = line.number
            return index + 1
        self._close()
        return index

    def _take_bulk(self, section: BulkSection, block: Block, index: int) -> int:
        """Read many lines at once; returns the index of the first line that must be read alone.

        Each bulk read scans the rest of the block; if it stops often, lines are read one by one for a while.
        """
        try:
            stop = section.take_block(block, index)
        except _BAD_ROW as error:
            self._collector.issue(
                "warning",
                block.first_line + index,
                block.line(index).text,
                f"the lines below could not be read as a table ({first_line(error)}): read one by one",
            )
            self._single_lines = block.line_count - index
            return index
        self._last_line = block.first_line + stop - 1
        self._single_line_count = (
            0 if stop - index >= _MIN_BULK_LINES else min(2 * self._single_line_count + 1, _MAX_SINGLE_LINES)
        )
        self._single_lines = self._single_line_count
        return stop

    def _close(self) -> None:
        section, self._section = self._section, None
        if section is not None:
            self._call_guarded(section.close)

    def _call_guarded(self, function: Callable[[], None]) -> None:
        """Call a function of a section or reader; an exception for bad rows becomes an issue."""
        try:
            function()
        except _BAD_ROW as error:
            self._collector.issue(
                "error", self._last_line, "", f"the table that ends here could not be used ({first_line(error)})"
            )

    def _bad_row(self, line: Line, error: Exception) -> None:
        self._collector.issue("error", line.number, line.text, f"not a valid row of its table ({first_line(error)})")


def looks_like_text(head: bytes) -> bool:
    """Return whether an input that begins with ``head`` is likely text, with few control characters."""
    controls = head.translate(None, bytes(code for code in range(256) if code >= 32 or code in b"\0\a\b\t\n\f\r\x1b"))
    return len(controls) <= 0.01 * len(head)


def _partial(source: InputFile, bytes_done: int) -> str:
    if source.stopped:
        if source.size:
            return f"stopped at {100 * bytes_done // source.size}%"
        return f"stopped after {brief_size(bytes_done)}"
    return source.cut_short
