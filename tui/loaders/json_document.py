"""A whole JSON document in memory: for formats that are small, unlike traces (`tui.loaders.chrome_trace`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from tui.loaders.input_issues import size_text
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.source import Source

LARGEST_BYTES: Final = 2 << 30
"""A larger document is not read: as Python objects it would take several times its size."""


def read_bytes(source: Source) -> bytes:
    """All that an input holds.

    Raises:
        ProftuiError: It is larger than `LARGEST_BYTES`, or the reading was stopped.
    """
    data = bytearray()
    for chunk in source.chunks():
        data += chunk
        if len(data) > LARGEST_BYTES:
            raise ProftuiError(
                f"{source.called}: larger than {size_text(LARGEST_BYTES)}, the most that is read of this format",
                "record a shorter run",
            )
        if not source.keep_going():
            raise ProftuiError(f"{source.called}: stopped before it was read")
    return bytes(data)


def read_json(source: Source) -> Any:
    """The document that an input holds.

    Raises:
        ProftuiError: It is not JSON, is nested too deep, was cut short, or is larger than `LARGEST_BYTES`.
    """
    data = read_bytes(source)
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = "nested too deep" if isinstance(error, RecursionError) else str(error)
        raise ProftuiError(
            f"{source.called}: not valid JSON: {problem}", source.cut_short or "record it again, or mend the file"
        ) from error
