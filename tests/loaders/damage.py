"""Damages files at random, to test that a loader raises no unexpected exception.

The quick profile of the tests tries a part of the damages, the thorough one (`make test-all`) all of them.
"""

from __future__ import annotations

import contextlib
import io
import random
from typing import TYPE_CHECKING, Final, TypeVar

from hypothesis import settings

from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tui.model.profile import Profile

Case = TypeVar("Case")

_INSERTED = (b"", b"", b"\0", b"\xff" * 9, b"\x80" * 10, b"-", b"1e400", b"\n", b"99999999999999999999", b"[", b'"')
_QUICK: Final = 40
"""The most damages of one content with the quick profile."""
_THOROUGH_EXAMPLES: Final = 100


def sample(cases: Iterable[Case], count: int, seed: object = 5) -> list[Case]:
    """Return at most ``count`` of the cases, the same for the same seed; with the thorough profile all of them."""
    all_cases = list(cases)
    if len(all_cases) <= count or settings().max_examples >= _THOROUGH_EXAMPLES:
        return all_cases
    return random.Random(str(seed)).sample(all_cases, count)


def damaged(content: bytes, count: int, seed: int = 5) -> Iterator[bytes]:
    """Yield contents with up to four damages each, and truncated ones; the same for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        if number % 4 == 0:
            yield content[: rng.randrange(1, len(content))]
            continue
        changed = bytearray(content)
        for _ in range(rng.randrange(1, 5)):
            position = rng.randrange(len(changed))
            if rng.random() < 0.5:
                changed[position] = rng.randrange(256)
            else:
                changed[position : position + rng.choice((0, 1, 1, 8, 60))] = rng.choice(_INSERTED)
        yield bytes(changed)


def load_contents(contents: Sequence[bytes], format_in: str | None = None) -> list[Profile]:
    """Return the profiles of those contents that can be read; any other error than `ProftuiError` is raised."""
    profiles = []
    for content in contents:
        with contextlib.suppress(ProftuiError):
            profiles.append(load_input("-", stream=io.BytesIO(content or b"\0"), format_in=format_in))
    return profiles


def load_damaged(
    content: bytes | str, count: int, *, at_least: float = 0.5, format_in: str | None = None
) -> list[Profile]:
    """Return the profiles that can be read of damaged copies of a content.

    Args:
        content: An intact file.
        count: How many copies; the quick profile takes a sample of them.
        at_least: The share of the copies that must be readable.
        format_in: The name of the format, instead of recognizing it.
    """
    data = content.encode() if isinstance(content, str) else content
    copies = sample(damaged(data, count), _QUICK)
    profiles = load_contents(copies, format_in)
    assert len(profiles) >= at_least * len(copies), f"only {len(profiles)} of {len(copies)} damaged copies were read"
    return profiles
