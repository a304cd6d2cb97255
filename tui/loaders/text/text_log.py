"""Reads a text log: sessions and tables of several formats, with program output between them."""

from __future__ import annotations

import queue
import threading
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
from polars.exceptions import PolarsError

from tui.loaders.base import keep_going
from tui.loaders.collector import Collector
from tui.loaders.input_issues import size_text
from tui.loaders.text.block import Cues
from tui.loaders.text.csv_table import detect_semicolons
from tui.loaders.text.lines import decode_notebook, find_tag, is_notebook, rank_in_tag
from tui.loaders.text.section import BulkSection
from tui.model.errors import FORMATS_HINT, NoProfileError, ProftuiError
from tui.runtime import BLOCK_BYTES, keep_freed_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from tui.loaders.base import Format, Report
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

    def put(made: list[Item] | BaseException) -> bool:
        while not unwanted.is_set():
            try:
                ready.put(made, timeout=_CHECK_EVERY_S)
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

    wanted = True
    try:
        while made := take():
            if isinstance(made, BaseException):
                raise made
            yield made[0]
        wanted = False
    finally:
        unwanted.set()
        if wanted:
            give_up()
        maker.join()


_BAD_ROW: Final = (ValueError, OverflowError, PolarsError)
"""The exceptions of readers for rows that do not fit their table."""

_GOOD_BULK: Final = 256
"""Lines; a bulk read of fewer lines costs more than it gains."""
_FIRST_SEARCH: Final = 1024
"""Lines that are searched for cues at first if no table is open."""
_LONGEST_WAIT: Final = 8192
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

    def load(self, source: InputFile, report: Report = keep_going) -> Profile:
        """Read the whole text.

        Raises:
            ProftuiError: No format found a table in it.
        """
        source.report_to(report)
        collector = Collector(source.name, source.preview)
        readings: list[_LogReader] = []
        semicolons = detect_semicolons(source.head, self._cues)
        with keep_freed_memory(BLOCK_BYTES):
            for block in prefetch(source.blocks(), source.give_up):
                blocks = [
                    own if semicolons is None else semicolons.convert(own) for own in (block, *block.other_processes)
                ]
                readings += [self._reading(source, collector) for _ in blocks[len(readings) :]]
                goes_on = [reading.read(own) for reading, own in zip(readings, blocks, strict=True)]
                if not all(goes_on):
                    break
        for reading in readings:
            reading.finish()
        reading = readings[0]
        if semicolons is not None and collector.sessions:
            collector.session = None
            collector.issue("info", None, "", semicolons.words)
        for note in source.notes:
            collector.issue(note.severity, note.line, note.text, note.reason)
        if not collector.sessions:
            raise self._nothing_found(source, reading, semicolons)
        if source.open_line is not None and not source.stopped:
            collector.open_line = source.open_line
        return collector.profile(text=source.text(), partial=_partial(source, reading.bytes_done))

    def _reading(self, source: InputFile, collector: Collector) -> _LogReader:
        return _LogReader(source, collector, [form.reader(collector) for form in self._text_formats], self._cues)

    def _nothing_found(self, source: InputFile, reading: _LogReader, semicolons: Semicolons | None) -> ProftuiError:
        if source.stopped:
            return ProftuiError(f"{source.called}: {_partial(source, reading.bytes_done)} before a profile was found")
        if semicolons is not None:
            return NoProfileError(f"{source.called}: no profile found", semicolons.words)
        titles = [form.format.title for form in self._text_formats]
        looked_for = f"; looked for {titles[0]}" if len(titles) == 1 else ""
        if reading.first_line:
            holds = f"it begins with “{cut(reading.first_line)}”"
        else:
            holds = "it has only blank lines" if source.head.strip(b"\0") else "it has only zero bytes"
        return NoProfileError(
            f"{source.called}: no profile found{looked_for}; {holds}", source.cut_short or FORMATS_HINT
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
        self._with_cue: npt.NDArray[np.int64] = np.zeros(0, np.int64)
        self._searched = 0
        self._search_next = _FIRST_SEARCH
        self._section: Section | None = None
        self._bulk: BulkSection | None = None
        self._session: Session | None = None
        """The current session of the process."""
        self._last_line = 0
        self._wait = 0
        self._alone = 0

    def read(self, block: Block) -> bool:
        """Read a block; False when asked to stop.

        After a stop while waiting for a silent pipe, the received text is still read.
        """
        self._collector.session, before = self._session, len(self._collector.sessions)
        try:
            return self._read(block)
        finally:
            self._session = self._collector.session
            if (rank := rank_in_tag(block.tag)) is not None:
                for session in self._collector.sessions[before:]:
                    session.facts.setdefault("rank", rank)

    def _read(self, block: Block) -> bool:
        asked_before = self._source.stopped
        index = looked_up = 0
        self._with_cue, self._searched, self._search_next = np.zeros(0, np.int64), 0, _FIRST_SEARCH
        begun_at, self.bytes_done = self.bytes_done, block.bytes_read
        while index < block.line_count:
            if index - looked_up >= _LINES_BETWEEN_REPORTS:
                looked_up = index
                if not self._source.keep_going(self._collector.row_count) and not asked_before:
                    self.bytes_done = begun_at + (self.bytes_done - begun_at) * index // block.line_count
                    return False
            index = self._outside(block, index) if self._section is None else self._inside(self._section, block, index)
        if not self.first_line:
            self.first_line = next((line for i in range(block.line_count) if (line := block.line(i).text.strip())), "")
        return self._source.keep_going(self._collector.row_count)

    def finish(self) -> None:
        """Finish at the end of the text."""
        self._collector.session = self._session
        self._close()
        for reader in self._readers:
            self._call_guarded(reader.finish)

    def _outside(self, block: Block, index: int) -> int:
        """Offer the next line with a cue to the readers; returns the index after it."""
        while (position := int(np.searchsorted(self._with_cue, index))) == len(self._with_cue):
            # A table may begin soon and take the rest of the block, so few lines are searched at first.
            first = max(index, self._searched)
            if first == block.line_count:
                return first
            self._searched = min(first + self._search_next, block.line_count)
            self._search_next *= 8
            self._with_cue = self._cues.indices(block, first, self._searched)
        index = int(self._with_cue[position])
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
                self._wait = self._alone = 0
            break
        return index + 1

    def _begin(self, reader: TextReader, line: Line) -> Section | bool:
        try:
            return reader.begin(line)
        except _BAD_ROW as error:
            self._bad_row(line, error)
            return True

    def _inside(self, section: Section, block: Block, index: int) -> int:
        """Continue a section; returns the index of the next line."""
        if self._alone:
            self._alone -= 1
        elif self._bulk is not None:
            index = self._in_bulk(self._bulk, block, index)
            if index == block.line_count:
                return index
        line = block.line(index)
        try:
            taken = section.take(line)
        except _BAD_ROW as error:
            self._bad_row(line, error)
            taken = True
        if taken:
            self._last_line = line.number
            return index + 1
        self._close()
        return index

    def _in_bulk(self, section: BulkSection, block: Block, index: int) -> int:
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
                f"the lines below could not be read as a table ({_short_message(error)}): read one by one",
            )
            self._alone = block.line_count - index
            return index
        self._last_line = block.first_line + stop - 1
        self._wait = 0 if stop - index >= _GOOD_BULK else min(2 * self._wait + 1, _LONGEST_WAIT)
        self._alone = self._wait
        return stop

    def _close(self) -> None:
        section, self._section = self._section, None
        if section is not None:
            self._call_guarded(section.close)

    def _call_guarded(self, hand_over: Callable[[], None]) -> None:
        """Call a function of a section or reader; an exception for bad rows becomes an issue."""
        try:
            hand_over()
        except _BAD_ROW as error:
            self._collector.issue(
                "error", self._last_line, "", f"the table that ends here could not be used ({_short_message(error)})"
            )

    def _bad_row(self, line: Line, error: Exception) -> None:
        self._collector.issue(
            "error", line.number, line.text, f"not a valid row of its table ({_short_message(error)})"
        )


def looks_like_text(head: bytes) -> bool:
    """Return whether an input that begins with ``head`` is likely text, with few control characters."""
    controls = head.translate(None, bytes(code for code in range(256) if code >= 32 or code in b"\0\a\b\t\n\f\r\x1b"))
    return len(controls) <= 0.01 * len(head)


def cut(text: str, limit: int = 80) -> str:
    """Return a text for a message, cut to ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _short_message(error: Exception) -> str:
    return cut((str(error).splitlines() or [type(error).__name__])[0])


def _partial(source: InputFile, bytes_done: int) -> str:
    if source.stopped:
        if source.size:
            return f"stopped at {100 * bytes_done // source.size}%"
        return f"stopped after {size_text(bytes_done)}"
    return source.cut_short
