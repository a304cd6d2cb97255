"""Reads ``communication.json`` of Ascend's profilers: when each collective operation ran, and where its time went."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from tui.loaders.ascend.ascend_csv import HCCL
from tui.loaders.base import Format
from tui.loaders.collector import Collector
from tui.loaders.json_document import read_json
from tui.loaders.progress import Report, keep_going
from tui.model.errors import WHAT_OPENS, ProftuiError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tui.loaders.collector import Value
    from tui.loaders.source import Source
    from tui.model.profile import Profile

FORMAT: Final = Format(
    name="ascend-communication",
    title="Ascend communication.json",
    recognized_by='JSON by step, then "p2p" and "collective", with "Communication Time Info"',
    feeds=("sessions", "ranges", "tool_figures", "issues"),
    record_with="torch_npu.profiler.profile(...) of a run on several ranks",
)

_HEAD: Final = re.compile(rb'\s*\{\s*"[^"]{1,40}"\s*:\s*\{\s*"(?:p2p|collective)"\s*:')
_INFO: Final = "Communication Time Info"
_PARTS: Final = ("Transit Time(ms)", "Wait Time(ms)", "Synchronization Time(ms)", "Idle Time(ms)")
_LARGEST: Final = 1 << 53


class AscendCommunicationLoader:
    """Reads the times of collective operations."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The one format."""
        return (FORMAT,)

    def probe(self, head: bytes, name: str) -> float:
        """Sure by the first two keys and the name of the figures."""
        return 0.9 if _HEAD.match(head) and _INFO.encode() in head else 0.0

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read the times.

        Raises:
            ProftuiError: It is not JSON, or no operation in it has a time.
        """
        source.report_to(report)
        found = list(_operations(read_json(source)))
        starts = [start for start, _, _ in found]
        if not found:
            raise ProftuiError(f"{source.called}: no profile found: no operation has a time", WHAT_OPENS)
        collector = Collector(source.name)
        session = collector.open_session(FORMAT.name, None)
        session.facts.update(tool="Ascend", origin_ns=min(starts))
        sums = dict.fromkeys(_PARTS, 0.0)
        for start, name, info in found:
            row: dict[str, Value] = {
                "name": name,
                "domain": HCCL,
                "start_ns": start - min(starts),
                "duration_ns": _number(info, "Elapse Time(ms)", 1_000_000),
                "depth": 0,
            }
            collector.add("ranges", row)
            for part in _PARTS:
                sums[part] += _number(info, part, 1_000_000) or 0
        for part, value in sums.items():
            figure: dict[str, Value] = {"tool": "Ascend", "section": "Communication", "unit": "ns", "value": value}
            collector.add("tool_figures", {**figure, "name": part.removesuffix("(ms)")})
        for note in source.notes:
            collector.issue(note.severity, note.line, note.text, note.reason)
        return collector.profile()


def _operations(document: Any) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Start in nanoseconds, name and figures of each operation; sums over all of them are left out."""
    for step in _values(document):
        for kind in _values(step):
            for name, operation in kind.items() if isinstance(kind, dict) else ():
                info = operation.get(_INFO) if isinstance(operation, dict) else None
                start = _number(info, "Start Timestamp(us)", 1000) if isinstance(info, dict) else None
                if isinstance(info, dict) and start:
                    yield start, str(name).partition("@")[0], info


def _values(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def _number(info: dict[str, Any], key: str, factor: int) -> int | None:
    value = info.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < _LARGEST:
        return None
    # As written: a float times a thousand would lose digits of times since 1970.
    return int((Decimal(str(value)) * factor).to_integral_value())
