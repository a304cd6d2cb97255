"""The escape key, where another key follows at once.

Reason: terminals send escape as the byte that also begins the sequences of other keys. Textual 8.2.8 takes escape and a
key within 0.1 s for that key with alt, and forgets the escape: ``esc :`` only opened the command line, ``esc 1`` typed
an inverted exclamation mark. The explorer has no keys with alt.

Gain: both keys have their effect, in order, and the second one without waiting 0.1 s.

Checked against Textual 8.2.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver

if TYPE_CHECKING:
    from collections.abc import Iterable

ESCAPE: Final = "\x1b"
BEGIN_SEQUENCES: Final = frozenset("[OP]_^X\x1b")
"""What follows an escape that begins a sequence: CSI, SS3, DCS, OSC, APC, PM and SOS."""


class EscapeParser(XTermParser):
    """Reads an escape before another key as a key of its own."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if len(sequence) == 2 and sequence[0] == ESCAPE and sequence[1] not in BEGIN_SEQUENCES:
            yield events.Key("escape", ESCAPE)
            yield from super()._sequence_to_key_events(sequence[1])
            return
        if alt:
            yield events.Key("escape", ESCAPE)
        yield from super()._sequence_to_key_events(sequence)


def use_escape_parser() -> None:
    """Have Textual's driver read keys in this way."""
    linux_driver.XTermParser = EscapeParser  # type: ignore[attr-defined]
