"""Parses a list of events one by one, in any layout and past damage: slower, and linear in the size of the text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from json import JSONDecodeError
from typing import TYPE_CHECKING, Any, Final

from tui.loaders.chrome_trace.event_batches import MAX_EVENT_TEXT, Anomalies, Anomaly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LONGEST_INTEGER: Final = 300
"""Digits; a longer number is read as a float."""


class ExactFloat(float):
    """A float that keeps its text."""

    text: str

    def __new__(cls, text: str) -> ExactFloat:
        """Parse a number."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        return self.text


def _integer(text: str) -> int | float:
    return int(text) if len(text) <= _LONGEST_INTEGER else float(text)


def _reject_constant(constant: str) -> None:
    """Reject NaN and Infinity, which Python's parser accepts."""
    raise ValueError(f"{constant} is not valid JSON")


STRICT: Final = json.JSONDecoder(parse_float=ExactFloat, parse_int=_integer, parse_constant=_reject_constant)
"""Accepts valid JSON only."""
TOLERANT: Final = json.JSONDecoder(
    parse_float=ExactFloat, parse_int=_integer, parse_constant=_reject_constant, strict=False
)
"""Accepts control characters in strings too."""


def repair(text: str) -> tuple[dict[str, Any] | None, set[Anomaly]]:
    """Repair an event in invalid JSON; return it with the repairs, or None if that is impossible.

    Raises:
        RecursionError: It is nested too deep.
    """
    keyed = _restore_key_quotes(text)
    if keyed != text and (value := _parse(keyed)) is not None:
        return value, {Anomaly.KEY}
    repairs: set[Anomaly] = set()
    if comment := _COMMENT.match(text):
        text = text[comment.end() :]
        repairs.add(Anomaly.COMMENT)
        if (value := _parse(text)) is not None:
            return value, repairs
    for kind, repair in _REPAIRS:
        repaired = repair(text)
        if repaired != text:
            text = repaired
            repairs.add(kind)
        if (value := _parse(text)) is not None:
            return value, repairs or {Anomaly.CONTROL}
    return None, repairs


def _parse(text: str) -> dict[str, Any] | None:
    """Parse a text that is exactly one event; else None."""
    try:
        value, end = TOLERANT.raw_decode(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) and not text[end:].strip(" \t\r\n,") else None


_COMMENT: Final = re.compile(r"(?:\s*+(?:\.{3}|\N{HORIZONTAL ELLIPSIS}|//[^\n]*+),?)++\s*+(?=\{)")
"""Comments and ellipses, which people put where they cut events out of a trace."""
_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NOT_A_NUMBER: Final = re.compile(
    rf"({_STRING})|(?<=[:\[,\s])[-+]?(?:nan(?:\(\w*\))?|inf(?:inity)?|n/a|none|undefined)(?=\s*[,}}\]])",
    re.IGNORECASE | re.DOTALL,
)
_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])|,(?=\s*,)", re.DOTALL)
_KEY: Final = re.compile(rf'({_STRING})|(?<=[{{,])(\s*+)(\w++"\s*+:)', re.DOTALL)
"""A key without its first quotation mark, as in flow events of PyTorch 1.5."""
_ESCAPE: Final = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|)')
_UNESCAPED_QUOTE: Final = re.compile(r'(?<!\\)"')
_OPENS: Final = re.compile(r'[{,:\[]\s*"')
_QUOTE_CLOSES: Final = re.compile(r'"(?=\s*(?:,\s*["{\[0-9\-tfnNiI]|[:}\]]|,?\s*$))')
_CLOSES_VALUE: Final = re.compile(r'"(?=\s*+(?:,\s*+"[^"\\]*+"\s*+:|\}|,?\s*+$))')
"""The closing quotation mark of a member of an object; another member or a brace follows."""


def _replace_invalid_numbers(text: str) -> str:
    return _NOT_A_NUMBER.sub(lambda match: match[1] or "null", text)


def _remove_extra_commas(text: str) -> str:
    return _COMMA.sub(lambda match: match[1] or "", text)


def _restore_key_quotes(text: str) -> str:
    return _KEY.sub(lambda match: match[1] or f'{match[2]}"{match[3]}', text)


def _escape_backslashes(text: str) -> str:
    """Double the backslashes in strings with an invalid escape: in these, all backslashes are literal."""
    parts = []
    for is_string, part in _split_strings(text):
        if is_string and any(match[1] is None for match in _ESCAPE.finditer(part)):
            part = re.sub(r'\\\\|\\"|\\', lambda match: match[0] if len(match[0]) > 1 else r"\\", part)
        parts.append(part)
    return "".join(parts)


def _escape_quotes(text: str) -> str:
    """Escape quotation marks within strings: a string ends where the following text may follow a string."""
    parts = []
    position = 0
    while opening := _OPENS.search(text, position):
        closing = (_CLOSES_VALUE if opening[0][0] == ":" else _QUOTE_CLOSES).search(text, opening.end())
        if closing is None:
            break
        content = _UNESCAPED_QUOTE.sub(lambda _: r"\"", text[opening.end() : closing.start()])
        parts += [text[position : opening.end()], content]
        position = closing.start()
        parts.append(text[position : position + 1])
        position += 1
    return "".join([*parts, text[position:]])


def _split_strings(text: str) -> Iterator[tuple[bool, str]]:
    position = 0
    for match in re.finditer(_STRING, text, re.DOTALL):
        yield False, text[position : match.start()]
        yield True, match[0]
        position = match.end()
    yield False, text[position:]


_REPAIRS: Final[tuple[tuple[Anomaly, Callable[[str], str]], ...]] = (
    (Anomaly.CONTROL, lambda text: text),
    (Anomaly.NOT_A_NUMBER, _replace_invalid_numbers),
    (Anomaly.COMMA, _remove_extra_commas),
    (Anomaly.BACKSLASH, _escape_backslashes),
    (Anomaly.QUOTES, _escape_quotes),
)
"""Applied one after the other, each to the result of those before."""


MAX_REPAIRED_LENGTH: Final = 1 << 20
"""Characters; a longer damaged event is not repaired."""

_KEYS: Final = "ph|name|cat|pid|tid|ts|dur|id|args|bp|s|tts|tdur|sf|cname"
BOUNDARY: Final = re.compile(rf'\}}\s*+,(?=\s*+\{{\s*+(?:\}}|"(?:{_KEYS})"))')
"""A likely boundary between two events; it may also be within a string or between nested objects."""
BOUNDARY_IN_BYTES: Final = re.compile(BOUNDARY.pattern.encode())

_NEXT_EVENT: Final = re.compile(BOUNDARY.pattern.removeprefix(r"\}\s*+"))
"""The boundary after an event, damaged or not."""
_CLOSES: Final = re.compile(r"\}\s*+(?=\](?!\s*+[}\"]?\s*+,\s*+\{))")
"""The likely end of the last event."""
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")
"""Invalid UTF-8 after decoding with surrogateescape."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""The same, and lone surrogates in JSON (``\\ud800``), which UTF-8 cannot encode."""
_SPACE: Final = re.compile(r"[\s,]*+")
_LIST_CONTINUES: Final = re.compile(r"\]\s*+,?\s*+\{")
"""A bracket that does not close the list, because another event follows."""
_LONGEST_LOOKAHEAD: Final = 1 << 24
"""Characters; an incomplete event of this length is damaged if other events seem to begin within it."""
_CUT_TOLERANCE: Final = 16
"""Characters; an error so near the end of the text may be due to a cut word."""
_MAX_REPARSED: Final = 4
"""Multiples of the length of the text that may be parsed in vain; above it, each event is parsed up to its boundary."""


@dataclass(slots=True)
class Scan:
    """The events in a text."""

    end: int
    """The position where scanning stopped: the end, after the closing bracket, or before an incomplete event."""
    is_closed: bool = False
    """Whether the list was closed."""
    events: list[dict[str, Any]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """The line of each event in the text, from 1."""


def scan(text: str, anomalies: Anomalies, *, is_last: bool) -> Scan:
    """Parse the events of a text that begins within a list, before or after a comma.

    Args:
        text: Events; the last one may be truncated.
        anomalies: Counts repairs and damage.
        is_last: Whether the text ends the input.
    """
    result = Scan(0)
    position = counted_to = event_text_begin = boundary = 0
    event_text = ""
    line = 1
    may_reparse = _MAX_REPARSED * len(text)
    is_clean = text.isascii() or _NOT_UTF8.search(text) is None
    while True:
        position = result.end = _SPACE.match(text, position).end()  # type: ignore[union-attr]
        if position == len(text):
            return result
        line += text.count("\n", counted_to, position)
        counted_to = position
        if text[position] == "]" and _LIST_CONTINUES.match(text, position) is None:
            result.end, result.is_closed = position + 1, True
            return result
        if position >= boundary:
            event_text_begin, boundary = position, _next_boundary(text, position)
            event_text = text[event_text_begin:boundary]
        try:
            value, end = STRICT.raw_decode(event_text, position - event_text_begin)
            end += event_text_begin
        except (ValueError, RecursionError) as error:
            parse_error: Exception = error
            is_cut = _is_cut_off(error, len(event_text))
            value = end = None
            if is_cut and boundary < len(text) and may_reparse > 0:
                # The boundary may be within this event.
                try:
                    value, end = STRICT.raw_decode(text, position)
                except (ValueError, RecursionError) as longer_error:
                    parse_error = longer_error
                    may_reparse -= len(text)
                    is_cut = _is_cut_off(longer_error, len(text))
            if end is None:
                if is_cut and _is_single_event(text, position, boundary, is_last=is_last):
                    return result
                end = boundary if boundary < len(text) else _end_of_last_event(text, position)
                value = _repair_and_count(
                    text[position:end], line, anomalies, too_deep=isinstance(parse_error, RecursionError)
                )
            if value is None:
                position = max(end, position + 1)
                continue
        if not is_clean and _NOT_UTF8.search(text, position, end):
            anomalies.add(Anomaly.NOT_UTF8, line=line, text=_clean(text[position:end]))
            value = replace_surrogates(value)
        if isinstance(value, dict):
            result.events.append(value)
            result.lines.append(line)
        else:
            anomalies.add(Anomaly.NOT_AN_EVENT, line=line, text=text[position:end])
        position = max(end, position + 1)


def replace_surrogates(value: Any) -> Any:
    """Return a JSON value whose strings can be encoded: without invalid UTF-8 and lone surrogates.

    Changes ``value`` in place, without recursion: the parser allows deeper nesting than Python code.
    """
    root = [value]
    pending: list[list[Any] | dict[str, Any]] = [root]
    while pending:
        container = pending.pop()
        inner: Iterable[Any]
        if isinstance(container, dict):
            members = [(_clean(key), _clean_text(value)) for key, value in container.items()]
            container.clear()
            container.update(members)
            inner = container.values()
        else:
            inner = container[:] = [_clean_text(value) for value in container]
        pending += [value for value in inner if isinstance(value, list | dict)]
    return root[0]


def _clean_text(value: Any) -> Any:
    return _clean(value) if isinstance(value, str) else value


def _clean(text: str) -> str:
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def _next_boundary(text: str, position: int) -> int:
    """Return the position of the comma before the next likely event."""
    match = _NEXT_EVENT.search(text, position)
    return len(text) if match is None else match.start()


def _is_cut_off(error: Exception, length: int) -> bool:
    """Return whether a text of ``length`` characters failed to parse because it is truncated."""
    return isinstance(error, JSONDecodeError) and (
        error.msg.startswith("Unterminated string") or error.pos >= length - _CUT_TOLERANCE
    )


def _is_single_event(text: str, position: int, boundary: int, *, is_last: bool) -> bool:
    """Return whether the rest of the text is likely one incomplete event, though it may look like several."""
    if boundary == len(text):
        return _CLOSES.search(text, position) is None
    if not is_last:
        return len(text) - position < _LONGEST_LOOKAHEAD
    # After the boundary is either the next event, or an object within this one.
    begin = text.find("{", boundary)
    try:
        next_value = STRICT.raw_decode(text[begin : _next_boundary(text, begin)])[0] if begin >= 0 else {}
    except (ValueError, RecursionError):
        return False
    return "ph" not in next_value or ("ts" not in next_value and next_value["ph"] != "M")


def _end_of_last_event(text: str, position: int) -> int:
    """Return the end of the damaged last event: before the bracket that likely closes the list."""
    match = _CLOSES.search(text, position)
    return len(text) if match is None else match.start() + 1


def _repair_and_count(text: str, line: int, anomalies: Anomalies, *, too_deep: bool) -> dict[str, Any] | None:
    """Return a damaged event repaired, or None; either is counted."""
    value, kinds = None, set[Anomaly]()
    if not too_deep and len(text) <= MAX_REPAIRED_LENGTH:
        try:
            value, kinds = repair(_clean(text))
        except RecursionError:
            too_deep = True
    if value is None:
        anomalies.add(Anomaly.TOO_DEEP if too_deep else Anomaly.DAMAGED, line=line, text=_clean(text[:MAX_EVENT_TEXT]))
    else:
        for kind in kinds:
            anomalies.add(kind, line=line, text=_clean(text[:MAX_EVENT_TEXT]))
    return value
