"""A process that decodes events for another one: ``python -m tui.loaders.chrome.worker``.

It reads frames from standard input, each its size in eight bytes and so many bytes: first the wanted arguments, then
texts of events after a byte `TEXT`, or pickled `Range`s of a file that holds them after a byte `RANGE`. For each it
answers with a frame that holds the pickled `Piece`, or None.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from typing import BinaryIO, Final

from tui.loaders.chrome.decoding import Decoder

SIZE_BYTES: Final = 8
TEXT, RANGE = b"T", b"R"
_NICENESS: Final = 5
"""The screen comes first."""


def main() -> None:
    """Answer until standard input ends."""
    os.nice(_NICENESS)
    gc.disable()  # no cycles are made, but millions of objects
    asked = sys.stdin.buffer
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may come between the answers
    settings = _frame(asked)
    if settings is None:
        return
    decoder = Decoder(pickle.loads(settings))
    while (kind := asked.read(1)) and (data := _frame(asked)) is not None:
        text = pickle.loads(data).read() if kind == RANGE else data
        answer = pickle.dumps(decoder.decode(text), pickle.HIGHEST_PROTOCOL)
        del data, text
        answers.write(len(answer).to_bytes(SIZE_BYTES, "little"))
        answers.write(answer)
        answers.flush()


def _frame(stream: BinaryIO) -> bytes | None:
    header = stream.read(SIZE_BYTES)
    if len(header) < SIZE_BYTES:
        return None
    size = int.from_bytes(header, "little")
    data = stream.read(size)
    return data if len(data) == size else None


if __name__ == "__main__":
    main()
