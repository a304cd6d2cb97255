"""Small documents of trace events, and functions to read them."""

from __future__ import annotations

import io
from typing import Any
from unittest.mock import patch

from tui.loaders.chrome_trace.decoder import Decoder
from tui.loaders.chrome_trace.event_batches import Arg, ArgKind, Trace
from tui.loaders.chrome_trace.read_trace import read_trace
from tui.loaders.input_file import InputFile

ARGS = (
    Arg("correlation", ("correlation",), ArgKind.INTEGER),
    Arg("external_id", ("external id",), ArgKind.INTEGER),
    Arg("shapes", ("input dims",), ArgKind.TEXT),
    Arg("occupancy", ("est. achieved occupancy %",), ArgKind.NUMBER),
    Arg("grid", ("grid",), ArgKind.TRIPLE),
)


class Trickle(io.BytesIO):
    """Returns few bytes for each read, as a pipe may."""

    def __init__(self, content: bytes, chunk: int) -> None:
        super().__init__(content)
        self._chunk = chunk

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(min(size or 0, self._chunk))


def read(document: str | bytes, *, chunk: int = 1 << 20, decodes: bool = True) -> Trace:
    """Read a document.

    Args:
        document: Its text.
        chunk: The input gives so many bytes at a time.
        decodes: False to read all of it the tolerant way.
    """
    content = document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document
    source = InputFile.open("trace.json", stream=Trickle(content, chunk))
    if decodes:
        return read_trace(source, ARGS, make_pool=None)
    with patch.object(Decoder, "decode", lambda self, data: None):
        return read_trace(source, ARGS, make_pool=None)


def kernel(**changed: Any) -> dict[str, Any]:
    """Return a kernel as Kineto writes it."""
    event = {
        "ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10, "dur": 2.5,
        "args": {"correlation": 3, "External id": 4, "grid": [8, 2], "est. achieved occupancy %": 40},
    }  # fmt: skip
    return event | changed
