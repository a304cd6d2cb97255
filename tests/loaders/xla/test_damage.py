"""Any values in an event: the trace opens or gets one clear line."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders import test_tf_timeline as timeline
from tests.loaders.xla.test_trace import DERIVED, EVENTS, NAMES, event, read
from tui.model.errors import ProftuiError
from tui.model.schema import FRAMES

ALL = (*NAMES, *EVENTS, *DERIVED)

odd_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=8),
    st.sampled_from(
        ["regs:99999999999 grid:1,2 block:", "kind_src:", "train", "/device:GPU:99999999999", "$$", [], {}]
    ),
)


@given(st.data())
def test_any_value_in_any_event_raises_no_exception(data: st.DataObject) -> None:
    events = damaged(data, ALL)
    with contextlib.suppress(ProftuiError):
        profile = read(*events)
        assert {name: profile[name].schema for name in FRAMES} == dict(FRAMES)
        assert profile["activities"].height <= len(EVENTS)


@pytest.mark.parametrize("far_us", [8_000_000_000_000_000, -8_000_000_000_000_000])
def test_an_event_far_from_all_others_affects_only_itself(far_us: int) -> None:
    far = event(701, 3, "far away", far_us, 5)
    profile = read(*ALL, far)
    near = read(*ALL)
    assert profile["activities"].drop("line").equals(near["activities"].drop("line"))
    assert profile["ranges"].drop("line").equals(near["ranges"].drop("line"))
    reason = "1 event skipped: its start is more than a week from the median start"
    assert profile["issues"]["reason"].to_list().count(reason) == 1


@given(st.data())
def test_any_value_in_any_timeline_row_raises_no_exception(data: st.DataObject) -> None:
    events = damaged(data, timeline.ROWS)
    with contextlib.suppress(ProftuiError):
        profile = timeline.read(*events)
        assert {name: profile[name].schema for name in FRAMES} == dict(FRAMES)
        assert profile["activities"].height <= len(timeline.ROWS)


def damaged(data: st.DataObject, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events with other values, or none, at some positions."""
    events = [{**row, "args": dict(row["args"])} for row in rows]
    for _ in range(data.draw(st.integers(1, 8))):
        event = data.draw(st.sampled_from(events))
        args = event.get("args")
        into = args if isinstance(args, dict) and args and data.draw(st.booleans()) else event
        key = data.draw(st.sampled_from(sorted(into)))
        if data.draw(st.booleans()):
            into[key] = data.draw(odd_values)
        elif key != "args":
            del into[key]
    return events
