"""What is decoded of each event, and of which kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from tui.loaders.chrome.pieces import FLOW, INSTANT

COMPLETE, INSTANT_EVENT, FLOW_EVENT, NAME, OTHER = range(5)
KIND: Final = {
    "X": COMPLETE,
    "M": NAME,
    **dict.fromkeys(INSTANT, INSTANT_EVENT),
    **dict.fromkeys(FLOW, FLOW_EVENT),
}
_T = TypeVar("_T")
_NO_ARGS: Final = Raw(b"{}")
_ABSENT: Final = Raw(b"")


class Event(msgspec.Struct, gc=False):
    """An event whose times a float can hold."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: float | str | None = None
    dur: float | str | None = None
    id: int | float | str | None = None
    args: Raw = _NO_ARGS


class ExactEvent(msgspec.Struct, gc=False):
    """The same with times as they are written: for those that a float cannot hold."""

    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    ts: Raw = _ABSENT
    dur: Raw = _ABSENT
    id: int | float | str | None = None
    args: Raw = _NO_ARGS


class NotProvenError(Exception):
    """Texts are not one JSON value each, as it seemed."""


def each_of(decoder: msgspec.json.Decoder[_T], texts: Sequence[bytes | Raw]) -> list[_T]:
    """Decode texts that begin with an opening brace and end with a closing one.

    In no JSON a brace opens right after one that closes, so that as many values as texts are one of each.

    Raises:
        msgspec.DecodeError: One of them is no JSON.
        NotProvenError: They are not one value each.
    """
    values = decoder.decode_lines(b"\n".join(texts))
    if len(values) != len(texts):
        raise NotProvenError
    return values
