"""Damages files at random, for tests that a reader survives them."""

from __future__ import annotations

import contextlib
import io
import random
from typing import TYPE_CHECKING

from tui.loaders.registry import load_one
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tui.model.profile import Profile

_INSERTED = (b"", b"", b"\0", b"\xff" * 9, b"\x80" * 10, b"-", b"1e400", b"\n", b"99999999999999999999", b"[", b'"')


def damaged(content: bytes, count: int, seed: int = 5) -> Iterator[bytes]:
    """Contents with up to four damages each, and contents that are cut; the same for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        if number % 4 == 0:
            yield content[: rng.randrange(1, len(content))]
            continue
        changed = bytearray(content)
        for _ in range(rng.randrange(1, 5)):
            at = rng.randrange(len(changed))
            if rng.random() < 0.5:
                changed[at] = rng.randrange(256)
            else:
                changed[at : at + rng.choice((0, 1, 1, 8, 60))] = rng.choice(_INSERTED)
        yield bytes(changed)


def read_damaged(contents: Sequence[bytes] | Iterator[bytes], format_in: str | None = None) -> list[Profile]:
    """The profiles of those contents that could be read; any other error than `ProftuiError` is raised."""
    read = []
    for content in contents:
        with contextlib.suppress(ProftuiError):
            read.append(load_one("-", stream=io.BytesIO(content or b"\0"), format_in=format_in))
    return read
