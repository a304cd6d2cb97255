"""Random traces: the loader agrees with a comparison of all pairs of events."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.loaders.kineto.traces import call, event, kernel, op, read, texts

Interval = tuple[int, int, int]
"""Thread, start and end."""


@st.composite
def interval_trees(draw: st.DrawFn) -> list[Interval]:
    """Draw intervals of two threads, each within another or apart from it, with distinct bounds."""
    intervals: list[Interval] = []

    def add_intervals(thread: int, start: int, end: int) -> None:
        position = start + 1
        for _ in range(draw(st.integers(0, 3))):
            if end - position < 8:
                break
            first = draw(st.integers(position, position + 3))
            last = draw(st.integers(first + 3, end - 1))
            intervals.append((thread, first, last))
            add_intervals(thread, first, last)
            position = last + 1

    for thread in (1, 2):
        add_intervals(thread, 0, 120)
    return draw(st.permutations(intervals))


def enclosing_intervals(intervals: list[Interval], thread: int, start: int, end: int) -> list[int]:
    """Return the intervals that enclose another, outermost first."""
    inside = [
        number
        for number, (interval_thread, first, last) in enumerate(intervals)
        if interval_thread == thread and first <= start and end <= last and (first, last) != (start, end)
    ]
    return sorted(inside, key=lambda number: intervals[number][1])


@given(tree=interval_trees(), launches=st.lists(st.tuples(st.sampled_from([1, 2]), st.integers(0, 121)), max_size=12))
def test_every_kernel_has_the_innermost_op_that_encloses_its_launch(
    tree: list[Interval], launches: list[tuple[int, int]]
) -> None:
    events: list[dict[str, Any]] = [
        op(f"op{number}", first, last - first, tid=thread) for number, (thread, first, last) in enumerate(tree)
    ]
    for number, (thread, launch_time) in enumerate(launches):
        events += [{**call(number + 1, launch_time, 0.5), "tid": thread}, kernel(number + 1, 200 + number, 0.5)]
    if not events:
        return
    profile = read(events)
    names = texts(profile, "ops", "name")
    op_names = [None if row is None else names[row] for row in profile["activities"]["op"].to_list()]
    expected = []
    for thread, launch_time in launches:
        # A launch at the moment in which an op ends is still of it, unless a later one has begun.
        inside = [
            number
            for number, (op_thread, first, last) in enumerate(tree)
            if op_thread == thread and first <= launch_time <= last
        ]
        inner = max(inside, key=lambda number: tree[number][1], default=None)
        expected.append(None if inner is None else f"op{inner}")
    assert op_names == expected


@given(tree=interval_trees(), kinds=st.lists(st.sampled_from(["op", "range"]), min_size=40, max_size=40))
def test_parents_depths_and_groups_match_the_tree(tree: list[Interval], kinds: list[str]) -> None:
    kind = dict(enumerate(kinds * (1 + len(tree) // 40)))
    events = [op("first", 300, 1)]
    for number, (thread, first, last) in enumerate(tree):
        name, length = f"{kind[number]}{number}", last - first
        added = op(name, first, length, tid=thread)
        events.append(added if kind[number] == "op" else event("user_annotation", name, first, length, tid=thread))
    profile = read(events)
    names = texts(profile, "ops", "name")
    rows = dict(zip(names, profile["ops"]["parent"].to_list(), strict=True))
    groups = dict(zip(names, texts(profile, "ops", "group"), strict=True))
    depths = dict(zip(texts(profile, "ranges", "name"), profile["ranges"]["depth"].to_list(), strict=True))
    for number, (thread, first, last) in enumerate(tree):
        outer = enclosing_intervals(tree, thread, first, last)
        name = f"{kind[number]}{number}"
        if kind[number] == "op":
            ops = [parent for parent in outer if kind[parent] == "op"]
            row = rows[name]
            assert (None if row is None else names[row]) == (f"op{ops[-1]}" if ops else None)
            assert groups[name] == ("/".join(f"{kind[parent]}{parent}" for parent in outer) or None)
        else:
            assert depths[name] == sum(kind[parent] == "range" for parent in outer)


@given(tree=interval_trees())
def test_stacks_are_the_python_functions_around_an_op(tree: list[Interval]) -> None:
    functions = [event("python_function", f"f{number % 3}", a, b - a, tid=t) for number, (t, a, b) in enumerate(tree)]
    profile = read([*functions, *(op("op", start + 0.5, 0.1, tid=1) for start in range(0, 120, 7))])
    expected = []
    for start in range(0, 120, 7):
        outer = enclosing_intervals(tree, 1, start, start + 1)
        expected.append(";".join(f"f{number % 3}" for number in reversed(outer)) or None)
    assert texts(profile, "ops", "stack") == expected
