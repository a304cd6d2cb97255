"""Anomalies of a trace: each kind is counted and reported once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tui.loaders.input_issues import Note

_SHOWN: Final = 200


class Anomaly(Enum):
    """Kinds of oddities: severity, and the reason for one and for several events."""

    DAMAGED = ("error", "event could not be read: its JSON is damaged; it is left out")
    TOO_DEEP = ("error", "event is nested too deep to be read; it is left out")
    TOO_LONG = ("error", "event is longer than 64 MB; it is left out")
    NOT_AN_EVENT = ("warning", "entry of the list of events is no event; it is left out")
    NO_START = ("warning", "event has no time at which it starts; it is left out")
    NO_DURATION = ("warning", "event has no duration that can be read; it is left out")
    BAD_DURATION = ("warning", "event has a duration that cannot be (negative, or over seven days); it is left out")
    NOT_UTF8 = ("warning", "event holds bytes that are not UTF-8; they are shown as \N{REPLACEMENT CHARACTER}")
    NOT_A_NUMBER = (
        "warning",
        "event holds what is not a number (inf, nan, N/A) where JSON has numbers; it became null",
    )
    BACKSLASH = ("info", "event holds single backslashes, which JSON does not allow; they were taken as they are")
    QUOTES = ("warning", "event holds quotation marks that are not escaped; where its texts end is inferred")
    CONTROL = ("info", "event holds control characters or line ends in its texts; they were taken as they are")
    KEY = ("info", "event holds a key without its first quotation mark, which was added")
    COMMA = ("info", "event holds a comma too many; it was passed over")
    LONG_TEXT = ("warning", "text is longer than any name; only its beginning was read")
    PHASE = (
        "info",
        "event is of a kind that says nothing of GPU work (counters, asynchronous or open intervals); not read",
    )

    @property
    def severity(self) -> str:
        """info, warning or error."""
        return self.value[0]

    def told(self, count: int) -> str:
        """The reason, for so many events."""
        if count == 1:
            return f"1 {self.value[1]}"
        words = self.value[1]
        for one, several in _PLURALS:
            words = words.replace(one, several)
        return f"{count:,} {words}"


_PLURALS: Final = (
    ("event could", "events could"),
    ("event is ", "events are "),
    ("event has", "events have"),
    ("event holds", "events hold"),
    ("its JSON is damaged; it is left out", "their JSON is damaged; they are left out"),
    ("entry of the list of events is no event", "entries of the list of events are no events"),
    (
        "text is longer than any name; only its beginning was read",
        "texts are longer than any name; only their beginnings were read",
    ),
    ("at which it starts", "at which they start"),
    ("a duration that cannot be (", "durations that cannot be ("),
    ("where its texts end", "where their texts end"),
    ("in its texts", "in their texts"),
    ("it became null", "they became null"),
    ("it was passed over", "they were passed over"),
    ("it is left out", "they are left out"),
)


@dataclass(slots=True)
class Found:
    """One kind of oddity: how often, and where first."""

    count: int = 0
    line: int | None = None
    """Of the first, from 1; None where it is not known."""
    text: str = ""
    """What stands there."""


class Anomalies:
    """Counts oddities."""

    def __init__(self) -> None:
        self.found: dict[Anomaly, Found] = {}

    def add(self, kind: Anomaly, count: int = 1, *, line: int | None = None, text: str = "") -> None:
        """Count so many more; ``line`` and ``text`` tell where the first of them is."""
        if not count:
            return
        found = self.found.setdefault(kind, Found(0, line, text[:_SHOWN]))
        found.count += count

    def add_all(self, other: Mapping[Anomaly, Found], *, lines_before: int | None = 0) -> None:
        """Count those of a later part of the file, before which there are so many lines (None: not known)."""
        for kind, found in other.items():
            line = None if found.line is None or lines_before is None else found.line + lines_before
            self.add(kind, found.count, line=line, text=found.text)

    def notes(self) -> Iterator[Note]:
        """One note for each kind, in the order of `Anomaly`."""
        from tui.loaders.input_issues import Note

        for kind in Anomaly:
            if kind in self.found:
                found = self.found[kind]
                yield Note(kind.severity, found.line, found.text, kind.told(found.count))
