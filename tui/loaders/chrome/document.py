"""What a document of trace events looks like, and what it says beside them."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from tui.loaders.chrome.repair import TOLERANT
from tui.loaders.chrome.scanning import cleaned

LIST: Final = re.compile(rb'"traceEvents"\s*+:\s*+\[')
"""What opens the list of events."""
BARE_LIST: Final = re.compile(rb"\s*+\[")
"""A document that is the list and nothing else."""

_MOST_FAILURES: Final = 200
"""Members that cannot be read; where there are more, what follows is no document."""
_PROBED_KEY: Final = re.compile(rb'"traceEvents"\s*:')
_PROBED_EVENT: Final = re.compile(rb'\s*\[\s*(?:\{\s*\}\s*,\s*)*\{[^\]]{0,4000}?"ph"\s*:\s*"', re.DOTALL)
_MEMBER: Final = re.compile(r'"((?:[^"\\]|\\.){0,200})"\s*+:\s*+')
LONGEST_BESIDE: Final = 64 << 20
"""Bytes of what stands beside the events; of more than that, nothing is read."""


def looks_like_trace(head: bytes) -> bool:
    """Whether an input that begins so is a document of trace events.

    >>> looks_like_trace(b'{"schemaVersion": 1, "traceEvents": ['), looks_like_trace(b'[{"name": "a", "ph": "X"')
    (True, True)
    >>> looks_like_trace(b'{"nodes": []}')
    False
    """
    start = head.lstrip()[:1]
    if start == b"{":
        return _PROBED_KEY.search(head) is not None
    return start == b"[" and _PROBED_EVENT.match(head) is not None


def members(data: bytes) -> tuple[dict[str, Any], bool]:
    """The members of an object, of which the text is only a part.

    Args:
        data: What stands before or after a member that was taken out; its braces, quotes or commas may be missing.

    Returns:
        The members, and whether nothing of the text was lost.
    """
    if len(data) > LONGEST_BESIDE:
        return {}, False
    text = data.decode("utf-8", "replace").strip().removeprefix("{").removesuffix("}").strip().strip(",").strip()
    if not text:
        return {}, True
    try:
        found, is_whole = dict(json.loads("{" + text + "}", strict=False, parse_constant=lambda _: None)), True
    except (ValueError, RecursionError):
        found, is_whole = _one_by_one(text), False
    return cleaned(found), is_whole


def _one_by_one(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = failures = 0
    while member := _MEMBER.search(text, at):
        try:
            value, at = TOLERANT.raw_decode(text, member.end())
        except (ValueError, RecursionError):
            failures += 1
            if failures == _MOST_FAILURES:
                break
            at = member.end()
            continue
        found[member[1]] = value
    return found
