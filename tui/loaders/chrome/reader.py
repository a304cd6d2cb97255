"""Reads a file of Chrome trace events into the frames of a `Trace`, whatever its layout and state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tui.loaders.base import keep_going
from tui.loaders.chrome.document import BARE_LIST, LIST, looks_like_trace, members
from tui.loaders.chrome.frames import Assembly
from tui.loaders.chrome.pieces import piece_of
from tui.loaders.chrome.scanning import BOUNDARY_IN_BYTES, scan
from tui.loaders.chrome.tally import Tally
from tui.loaders.chrome.trace import Arg, Trace
from tui.loaders.encoding import as_utf8, encoding_of
from tui.loaders.source import Note, Source, size_in_words
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.base import Report

__all__ = ["looks_like_trace", "read_trace"]

_PIECE: Final = 4 << 20


def read_trace(source: Source, args: Sequence[Arg], report: Report = keep_going) -> Trace:
    """Read a file of trace events.

    Args:
        source: The input, of which nothing has been read.
        args: Which arguments of events become columns.
        report: Told of progress; its False ends the reading, and what was read is kept.

    Raises:
        ProftuiError: It is no such file.
    """
    source.report_to(report)
    chunks = source.chunks()
    first = next(chunks, b"")

    def text() -> Iterator[bytes]:
        yield first
        yield from chunks

    reading = _Reading(source, args)
    return reading.read(as_utf8(encoding_of(first), text()))


class _Reading:
    def __init__(self, source: Source, args: Sequence[Arg]) -> None:
        self._source = source
        self._args = args
        self._assembly = Assembly(args)
        self._tally = Tally()
        self._notes: list[Note] = []
        self._line = 0

    def read(self, chunks: Iterator[bytes]) -> Trace:
        data = b"".join(self._until_stopped(chunks))
        partial = self._source.cut_short
        bare, found = BARE_LIST.match(data), LIST.search(data)
        metadata: dict[str, Any] = {}
        opening = bare or found
        if opening is None:
            if not data.lstrip().startswith(b"{"):
                raise ProftuiError(f"{self._source.called}: is no JSON document of trace events")
            metadata, _ = members(data)
        else:
            if found and not bare:
                metadata, _ = members(data[: opening.start()])
            self._line = data.count(b"\n", 0, opening.end())
            tail, closed = self._events(data, opening.end())
            if closed:
                metadata |= members(data[tail:])[0]
            else:
                lost = len(data) - tail
                partial = partial or f"the file ends before its list of events does ({size_in_words(lost)} not read)"
                self._notes.append(
                    Note(
                        "error",
                        None,
                        "",
                        f"the file ends before its list of events does: {self._assembly.events:,} events were read, "
                        f"{size_in_words(lost)} of an event that is cut off were not",
                    )
                )
        if self._source.stopped:
            partial = "stopped"
        complete, instants, flows, names, origin_ns = self._assembly.frames()
        notes = [*self._notes, *self._tally.notes()]
        return Trace(metadata, complete, instants, flows, names, origin_ns, notes, partial)

    def _until_stopped(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            yield chunk
            if not self._source.keep_going():
                return

    def _events(self, data: bytes, at: int) -> tuple[int, bool]:
        """Read the events; where reading ended, and whether the list was closed there."""
        size = _PIECE
        while True:
            found = BOUNDARY_IN_BYTES.search(data, at + size)
            end = len(data) if found is None else found.end()
            text = data[at:end].decode("utf-8", "surrogateescape")
            tally = Tally()
            result = scan(text, tally, is_last=end == len(data))
            piece = piece_of(result.events, result.lines, self._args, tally)
            self._assembly.add(piece, self._line)
            self._tally.add_all(tally.found, lines_before=self._line)
            self._line += text.count("\n", 0, result.end)
            at += len(text[: result.end].encode("utf-8", "surrogateescape"))
            if result.is_closed or end == len(data):
                return at, result.is_closed
            size = _PIECE if at >= end else 2 * size
            self._source.keep_going(self._assembly.rows)
