"""Finds events in the byte layout that PyTorch writes: each part of an event on a line of its own.

Every byte is verified: a line is either compared with what PyTorch writes, or parsed as JSON by
`tui.loaders.chrome_trace.decoder`. Events in another layout are left to msgspec, which takes 1.6 to 2.9 times as long
for current versions of PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from msgspec import Raw

from tui.loaders.chrome_trace.event_batches import FLOW, LONGEST_TEXT, Event, EventRows, NotProvenError, TextCodes
from tui.loaders.digits import leading_digits, trailing_digits

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Bytes = npt.NDArray[np.uint8]
    Mask = npt.NDArray[np.bool_]


_WIDTHS: Final = (1, 2, 4, 8)
"""Widths of integers, in bytes."""
_MAX_COMPARED_BYTES: Final = 64
"""Bytes compared at once."""
_ZERO: Final = ord("0")
_MAX_DIGITS: Final = 15
"""Digits for which both `leading_digits` and a float are exact."""
_LARGEST_US: Final = 9 * 10**15


def text_slices(data: bytes, begins: Ints, ends: Ints) -> list[bytes]:
    """Return the parts of a text between positions."""
    return [data[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]


def matches_at(text: Bytes, positions: Ints, pattern: bytes) -> Mask:
    """Return whether ``pattern`` is at each position."""
    last_position = len(text) - len(pattern)
    if len(positions) and int(positions.max()) > last_position:
        is_match: Mask = positions <= last_position
        is_match[is_match] = matches_at(text, positions[is_match], pattern)
        return is_match
    is_match = _matches_short(text, positions, pattern[:_MAX_COMPARED_BYTES])
    for offset in range(_MAX_COMPARED_BYTES, len(pattern), _MAX_COMPARED_BYTES):
        is_match &= _matches_short(text, positions + offset, pattern[offset : offset + _MAX_COMPARED_BYTES])
    return is_match


def _matches_short(text: Bytes, positions: Ints, pattern: bytes) -> Mask:
    # Texts with the width of an integer are compared as integers, in half the time.
    dtype = np.dtype(f"<u{len(pattern)}" if len(pattern) in _WIDTHS else f"V{len(pattern)}")
    windows = np.ndarray((max(len(text) - len(pattern) + 1, 0),), dtype, text, strides=(1,))
    is_match: Mask = windows[positions] == np.frombuffer(pattern, dtype)[0]
    return is_match


def is_number(text: Bytes, begins: Ints, digits: Ints) -> Mask:
    """Return which positions begin a whole number in valid JSON, with ``digits`` digits."""
    first_digits = text[np.minimum(begins, len(text) - 1)]
    is_valid: Mask = (digits > 0) & (digits <= _MAX_DIGITS) & ((digits == 1) | (first_digits != _ZERO))
    return is_valid


def nanoseconds(text: Bytes, begins: Ints, ends: Ints) -> tuple[Ints, Mask]:
    """Return microseconds with no or three decimals as nanoseconds, and which parts of the text are such numbers."""
    words = np.ndarray((len(text) - 3,), "<u4", text, strides=(1,))
    last_bytes = words[ends - 4]
    # A point and three digits; each digit becomes a byte with its value.
    has_decimals = (last_bytes & np.uint32(0xF0F0F0FF)) == np.uint32(0x3030302E)
    values = (last_bytes >> np.uint32(8)) & np.uint32(0x0F0F0F)
    has_decimals &= (values + np.uint32(0x060606)) & np.uint32(0x101010) == 0
    thousandths = (
        (values & np.uint32(15)) * np.uint32(100)
        + ((values >> np.uint32(8)) & np.uint32(15)) * np.uint32(10)
        + (values >> np.uint32(16))
    )
    point = np.where(has_decimals, ends - 4, ends)
    integral, digits = trailing_digits(text, point)
    is_valid = (digits == point - begins) & (digits > 0) & (integral < _LARGEST_US)
    is_valid &= (digits == 1) | (text[begins] != _ZERO)
    return integral * 1000 + np.where(has_decimals, thousandths, 0), is_valid


_FLOW_LINES: Final = 4
_PHASE: Final = b'    "ph": "'
_NUMBERS: Final = (b'", "id": ', b', "pid": ', b', "tid": ')
_FLOW_TIME: Final = b', "ts": '

_MAX_SECOND_LINES: Final = 8
"""Distinct second lines of flow events that are searched in a text."""
_MAX_TABLE_VALUE: Final = 1 << 20
_FIRST_LINE_KEYS: Final = frozenset(("ph", "id", "pid", "tid", "ts"))
_MEMBERS: Final = msgspec.json.Decoder(dict[str, Raw])
_EVENT: Final = msgspec.json.Decoder(Event)


@dataclass(slots=True)
class TorchFlows:
    """The flow events of a text that have the layout."""

    event_indices: Ints
    """Their indices among all events."""
    phase: Bytes
    """The letter of the phase of each."""
    number: Ints
    pid: Ints
    tid: Ints
    start_ns: Ints
    second_lines: list[bytes]
    """The distinct second lines, unparsed."""
    second_line_index: Ints
    """The index of the second line of each event."""

    def rows(self, lines: Ints, texts: TextCodes) -> EventRows:
        """Return the events as rows.

        Args:
            lines: The line of the text in which each event begins.
            texts: Assigns the codes of texts.

        Raises:
            msgspec.DecodeError: A second line is invalid JSON.
            UnicodeDecodeError: A second line is not UTF-8.
            RecursionError: A second line is nested too deep.
            NotProvenError: A second line repeats a key of the first line.
        """
        cats, names = np.array([_line_codes(line, texts) for line in self.second_lines], np.int32).reshape(-1, 2).T
        phases = np.zeros(256, np.int32)
        for letter in np.flatnonzero(np.bincount(self.phase)).tolist():
            phases[letter] = texts[chr(letter)]
        return EventRows(
            cats[self.second_line_index],
            names[self.second_line_index],
            _number_codes(self.pid, texts),
            _number_codes(self.tid, texts),
            self.start_ns,
            None,
            lines[self.event_indices],
            phase=phases[self.phase],
            number=self.number,
        )


def find_torch_flows(data: bytes, text: Bytes, begins: Ints, opens: Ints, closes: Ints) -> TorchFlows:
    """Find the flow events of a text.

    Args:
        data: The text.
        text: The same as an array.
        begins: The begin of each line.
        opens: The first line of each event.
        closes: The last line of each event.
    """
    events = np.flatnonzero(closes - opens == _FLOW_LINES - 1)
    line_starts = begins[opens[events] + 1]
    is_flow = matches_at(text, line_starts, _PHASE)
    events, line_starts = events[is_flow], line_starts[is_flow]
    phase = text[line_starts + len(_PHASE)]
    is_flow = _is_letter_in(phase, FLOW)
    position = line_starts + len(_PHASE) + 1
    numbers = []
    for label in _NUMBERS:
        is_flow &= matches_at(text, position, label)
        position = position + len(label)
        number, digits = leading_digits(text, np.minimum(position, len(text) - 16))
        is_flow &= is_number(text, position, digits)
        position = position + digits
        numbers.append(number)
    end = begins[opens[events] + 2] - 2
    is_flow &= matches_at(text, position, _FLOW_TIME) & (text[end] == _COMMA) & (position + len(_FLOW_TIME) <= end)
    start_ns, is_time = nanoseconds(text, np.minimum(position + len(_FLOW_TIME), end), end)
    flows = np.flatnonzero(is_flow & is_time)
    second_rows = opens[events[flows]] + 2
    line_index, second_lines = _distinct_lines(data, text, begins[second_rows], begins[second_rows + 1])
    flows, line_index = flows[line_index >= 0], line_index[line_index >= 0]
    number, pid, tid = (column[flows] for column in numbers)
    return TorchFlows(events[flows], phase[flows], number, pid, tid, start_ns[flows], second_lines, line_index)


def _is_letter_in(letters: Bytes, allowed_letters: frozenset[str]) -> Mask:
    table = np.zeros(256, np.bool_)
    table[[ord(letter) for letter in allowed_letters]] = True
    return table[letters]


def _distinct_lines(data: bytes, text: Bytes, begins: Ints, ends: Ints) -> tuple[Ints, list[bytes]]:
    """Return the index of each line in the list of distinct lines, which is returned too; -1 beyond the limit."""
    indices = np.full(len(begins), -1, np.int64)
    second_lines: list[bytes] = []
    remaining = np.arange(len(begins))
    while len(remaining) and len(second_lines) < _MAX_SECOND_LINES:
        second_line = data[begins[remaining[0]] : ends[remaining[0]]]
        is_same = (ends[remaining] - begins[remaining] == len(second_line)) & matches_at(
            text, begins[remaining], second_line
        )
        indices[remaining[is_same]] = len(second_lines)
        second_lines.append(second_line)
        remaining = remaining[~is_same]
    return indices, second_lines


def _line_codes(second_line: bytes, texts: TextCodes) -> tuple[int, int]:
    """Return the codes of category and name."""
    members = b"{%s}" % second_line
    if len(second_line) > LONGEST_TEXT or _FIRST_LINE_KEYS & _MEMBERS.decode(members).keys():
        raise NotProvenError
    event = _EVENT.decode(members)
    return texts[event.cat], texts[event.name]


def _number_codes(values: Ints, texts: TextCodes) -> npt.NDArray[np.int32]:
    """Return the codes of numbers as texts."""
    largest = int(values.max(initial=0))
    if largest < _MAX_TABLE_VALUE:
        distinct = np.flatnonzero(np.bincount(values))
        codes = np.zeros(largest + 1, np.int32)
        codes[distinct] = [texts[value] for value in distinct.tolist()]
        return codes[values]
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([texts[value] for value in distinct.tolist()], np.int32)[inverse]


_NEWLINE, _COMMA = b"\n,"
_OPENS, _CLOSES, _CLOSES_ARGS = b"  {\n", b"  },", b"    }\n"
_PREFIX, _TIME, _DURATION, _ARGS = b'    "ph": "X", "', b'    "ts": ', b', "dur": ', b'    "args": {\n'
_MIN_LINES: Final = 6
"""The minimum lines of an event with duration and arguments: two braces, prefix, times, two around arguments."""
_MAX_WIDTHS: Final = 4
"""Distinct widths of start times in a text; they differ by a digit at most, rarely."""


@dataclass(slots=True)
class Args:
    """The positions of the arguments of events; all end with `CLOSES` and the end of an event."""

    data: bytes
    text: Bytes
    """The same as an array."""
    begins: Ints
    ends: Ints

    def select(self, rows: Ints) -> Args:
        """Return the arguments of some events."""
        return Args(self.data, self.text, self.begins[rows], self.ends[rows])

    def slices(self) -> list[bytes]:
        """Return the texts of the arguments."""
        return text_slices(self.data, self.begins, self.ends)


@dataclass(slots=True)
class TorchLayout:
    """The events of a text; most have the layout."""

    lines: Ints
    """The line of the text in which each event begins, from 1."""
    newlines: int
    event_indices: Ints
    """The indices of the complete events among all events."""
    prefixes: list[bytes]
    """The members of each before its times, unparsed."""
    start_ns: Ints
    duration_ns: Ints
    args: Args
    """The arguments of each with their braces, unparsed."""
    flows: TorchFlows
    other_indices: Ints
    """The indices of the other events."""
    other_events: list[bytes]
    """Their texts, unparsed."""


def find_torch_layout(data: bytes) -> TorchLayout | None:
    """Find the parts of the events of a text.

    Args:
        data: Events with a comma after each.

    Returns:
        None if they have another layout.
    """
    if not data.startswith(b"\n" + _OPENS) or not data.endswith(b"\n" + _CLOSES):
        return None
    text = np.frombuffer(data, np.uint8)
    begins = np.flatnonzero(text == _NEWLINE) + 1
    length = np.diff(begins, append=len(data) + 1) - 1
    opens = np.flatnonzero(length == len(_OPENS) - 1)
    opens = opens[matches_at(text, begins[opens], _OPENS)]
    closes = np.append(opens[1:], len(begins)) - 1
    if not (length[closes] == len(_CLOSES)).all() or not matches_at(text, begins[closes], _CLOSES).all():
        return None
    events = _complete_events(text, begins, length, opens, closes)
    times = begins[opens[events] + 2]
    start_ns, duration_ns, has_times = _times(text, times, begins[opens[events] + 3] - 2)
    events, start_ns, duration_ns = events[has_times], start_ns[has_times], duration_ns[has_times]
    is_other = np.ones(len(opens), np.bool_)
    is_other[events] = False
    flows = find_torch_flows(data, text, begins, opens, closes)
    is_other[flows.event_indices] = False
    other_indices = np.flatnonzero(is_other)
    first_lines = opens[events]
    return TorchLayout(
        lines=opens + 2,
        newlines=len(begins),
        event_indices=events,
        prefixes=text_slices(data, begins[first_lines + 1], begins[first_lines + 2] - 2),
        start_ns=start_ns,
        duration_ns=duration_ns,
        args=Args(data, text, begins[first_lines + 3] + len(_ARGS) - 2, begins[closes[events]] - 1),
        flows=flows,
        other_indices=other_indices,
        other_events=text_slices(data, begins[opens[other_indices]], begins[closes[other_indices]] + len(_CLOSES) - 1),
    )


def _complete_events(text: Bytes, begins: Ints, length: Ints, opens: Ints, closes: Ints) -> Ints:
    """Return the events with lines for prefix, times and arguments, by the first and last bytes of the lines."""
    events = np.flatnonzero(closes - opens >= _MIN_LINES - 1)
    prefix, args, args_end = opens[events] + 1, opens[events] + 3, closes[events] - 1
    is_complete = (
        (length[prefix] > len(_PREFIX)) & (length[args] == len(_ARGS) - 1) & (length[args_end] == len(_CLOSES_ARGS) - 1)
    )
    is_complete &= matches_at(text, begins[prefix], _PREFIX) & (text[begins[prefix + 1] - 2] == _COMMA)
    is_complete &= matches_at(text, begins[args], _ARGS) & (text[begins[args] - 2] == _COMMA)
    is_complete &= matches_at(text, begins[args_end], _CLOSES_ARGS)
    complete: Ints = events[is_complete]
    return complete


def _times(text: Bytes, begins: Ints, ends: Ints) -> tuple[Ints, Ints, Mask]:
    """Return start and duration on lines, and which lines hold both; ``ends`` are the positions of the commas."""
    begins = begins + len(_TIME)
    middle = np.zeros(len(begins), np.int64)
    remaining = np.flatnonzero(matches_at(text, begins - len(_TIME), _TIME))
    for _ in range(_MAX_WIDTHS):
        if not len(remaining):
            break
        width = int(np.argmax(text[begins[remaining[0]] : ends[remaining[0]] + 1] == _COMMA))
        candidates = np.minimum(begins[remaining] + width, ends[remaining])
        is_match = matches_at(text, candidates, _DURATION)
        middle[remaining[is_match]] = candidates[is_match]
        remaining = remaining[~is_match]
    has_duration = middle > 0
    middle[~has_duration] = begins[~has_duration]
    start_ns, is_start = nanoseconds(text, begins, middle)
    duration_ns, is_duration = nanoseconds(text, np.minimum(middle + len(_DURATION), ends), ends)
    return start_ns, duration_ns, has_duration & is_start & is_duration
