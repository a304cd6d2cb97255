"""From a key to the picture that answers it, in a real terminal, beside a bare Textual application in the same run."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.figures import Figure
from bench.grow_nsys import hard_database
from bench.terminal import COLUMNS, LINES, QUIET_BARE_S, Answer, Terminal

TITLE = "Keys"
NOTE = (
    f"proftui in a pseudo-terminal of {COLUMNS}x{LINES}; milliseconds from writing the key to the last byte of the "
    "first picture that shows its effect; work: what the thread that draws had of the processor until then, however "
    "busy the machine is; rest: nothing comes any more and all threads sleep; frozen: longest wait for a picture while "
    "something is worked out; floor: the same kind of key in a bare Textual application, in turns with the others"
)

ROWS, RUNS = 5_000_000, 1

MOVE, FILTER, SORT, OPEN = "move", "filter", "sort", "open"
GOALS_MS = {MOVE: 16, FILTER: 100, SORT: 500, OPEN: 100}

FLOORS = 6
"""So often the bare application answers for a line of the table."""
PRESSES = 20
"""So often a key that moves is pressed in each run: one run takes about four minutes."""
FEW = 6
"""So often a key that does more than that, in each run."""

DOWN, UP, PAGE, RIGHT, ENTER = b"j", b"k", b"\x1b[6~", b"l", b"\r"
ANYTHING = None
SORTED = re.compile("sorted by")
FOUND = re.compile(r"find( [\d,]+|: no match)")
FILTERED = re.compile(r"[\d,]+ of [\d,]+ rows")
VIEWS = {
    "Dashboard": b"1",
    "Op Type Summary": b"2",
    "Group Ops": b"3",
    "Ops and Kernels": b"4",
    "Kernels by Iteration": b"5",
    "Kernels by Op": b"6",
    "Iterations": b"7",
    "GPUs": b"8",
    "Expert Systems": b"9",
    "API Calls": b"0",
    "Kernels": b"kernels",
    "Timeline": b"timeline",
    "Memory": b"memory",
    "Ranges": b"ranges",
    "Flame": b"flame",
    "Critical Path": b"critical-path",
    "Roofline": b"roofline",
}
"""Every view that the database feeds, and what is typed to go there."""


@dataclass(slots=True)
class Row:
    """A line of the table: one kind of key."""

    title: str
    goal: str
    seconds: list[float] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)
    frozen: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    floor_worked: list[float] = field(default_factory=list)
    missed: int = 0
    """Keys whose effect was not seen."""


class Run:
    """Presses keys, and remembers what came of them.

    Args:
        rows: Launches and copies of the database.
        presses: How often each key that moves is pressed.
        few: How often each key that does more.
    """

    def __init__(self, rows: int, presses: int, few: int) -> None:
        self.rows: dict[str, Row] = {}
        self._presses = presses
        self.few = few
        self._state = tempfile.TemporaryDirectory()
        homes = dict.fromkeys(("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), self._state.name)
        path = str(hard_database(rows))
        self.bare = Terminal([sys.executable, str(Path(__file__).with_name("bare_app.py")), str(rows)])
        self.bare.press(b"")
        # What is kept of a file is written behind the first views, which are measured.
        self.app = Terminal([sys.executable, "-m", "tui", "--no-cache", path], homes)
        self.opened = self.app.press(b"", limit_s=600)

    def close(self) -> None:
        """End both programs."""
        self.app.close()
        self.bare.close()
        self._state.cleanup()

    def to(self, name: str) -> None:
        """Go to a view, unmeasured."""
        self.app.press(self.type(name))

    def type(self, name: str) -> bytes:
        """Type what goes to a view up to the last key, which comes back."""
        keys = VIEWS[name]
        if len(keys) == 1:
            return keys
        self.app.press(b":" + keys)
        return ENTER

    def key(
        self,
        title: str,
        keys: bytes,
        *,
        goal: str = MOVE,
        shows: re.Pattern[str] | None = ANYTHING,
        floor: bytes = b"j",
        probe: bool = False,
    ) -> Answer:
        """Press keys of which the last one is measured, and a key of the bare application.

        Args:
            title: The line of the table that it counts for.
            keys: What is typed.
            goal: One of `GOALS_MS`.
            shows: What the answer shows; None: whatever comes first.
            floor: The key of the bare application.
            probe: Whether to find out how long the screen is frozen.
        """
        row = self.rows.setdefault(title, Row(title, goal))
        answer = self.app.press(keys, probe=probe)
        if self.app.ended:
            raise SystemExit(f"proftui has ended at: {title}")
        picture = answer.first(shows)
        if picture is None:
            row.missed += 1
        else:
            row.seconds.append(picture.at_s)
            row.worked.append(picture.worked_s)
        row.rest.append(answer.rest_s)
        if probe:
            row.frozen.append(answer.frozen_s)
        bare = self.bare.press(floor, quiet_s=QUIET_BARE_S).first() if len(row.floor) < FLOORS else None
        if bare is not None:
            row.floor.append(bare.at_s)
            row.floor_worked.append(bare.worked_s)
        return answer

    def moves(self, title: str, *keys: bytes) -> None:
        """Press keys that move, in turns."""
        for turn in range(self._presses):
            key = keys[turn % len(keys)]
            self.key(title, key, floor=PAGE if key == PAGE else DOWN)


def run(rows: int, runs: int) -> list[Figure]:
    """Measure and print the table; each of its lines has a goal."""
    measured = Run(rows, presses=PRESSES * runs, few=FEW * runs)
    try:
        print(f"open up to the dashboard: {measured.opened.rest_s:.1f} s\n", flush=True)
        print_heading()
        for part in (first_looks, tables, looks, charts, again):
            printed = len(measured.rows)
            try:
                part(measured)
            finally:
                print_rows(list(measured.rows.values())[printed:])
    finally:
        measured.close()
    return [
        Figure(
            f"keys: {row.title} (95th percentile)",
            None if (p95 := _at(row.seconds, 95)) is None else 1000 * p95,
            GOALS_MS[row.goal],
            "ms",
            "a bare application",
            _at(row.floor, 95),
            p95,
        )
        for row in measured.rows.values()
    ]


def first_looks(run: Run) -> None:
    """Every view for the first time, as soon as the file is open."""
    for name in VIEWS:
        if name != "Dashboard":
            run.key(f"first look: {name}", run.type(name), goal=OPEN, floor=b"2", probe=True)
            run.bare.press(b"1", quiet_s=QUIET_BARE_S)


def tables(run: Run) -> None:
    """Kernels, then the launches of the kernel that has most of them."""
    run.to("Kernels")
    run.moves("kernels: row down", DOWN)
    run.moves("kernels: page down", PAGE)
    run.app.press(b"g")
    for turn in range(run.few):
        word = (b"elementwise", b"memcpy")[turn % 2]
        run.app.press(b"f" + word[:-1])
        run.key("kernels: filter", word[-1:], goal=FILTER, shows=FILTERED, floor=b"s")
        run.app.press(b"\x1b")
    run.app.press(b"g")
    for turn in range(run.few):
        if turn:
            run.app.press(b"q")
        run.key("kernels: into the launches", ENTER, goal=OPEN, floor=b"s", probe=True)
    run.moves("launches: row down", DOWN)
    run.moves("launches: page down", PAGE)
    run.moves("launches: last and first row", b"G", b"g")
    run.moves("launches: column", RIGHT, b"h")
    for turn in range(run.few):
        run.app.press(b"f" + (b"duration>30u", b"duration<4u")[turn % 2])
        run.key("launches: filter", b"s", goal=FILTER, shows=FILTERED, floor=b"s")
        run.app.press(b"\x1b")
    run.app.press(b"^")
    for _ in range(run.few):
        run.app.press(RIGHT)
        run.key("launches: sort", b"s", goal=SORT, shows=SORTED, floor=b"s")
        run.app.press(RIGHT)
        run.key("launches: sort by a second", b";", goal=SORT, shows=SORTED, floor=b"s")
    for _ in range(run.few // 2):
        run.app.press(b"h")
        run.key("launches: a picture while sorting", b"s", goal=FILTER, floor=b"s", probe=True)
    run.app.press(b"g")
    run.moves("launches, sorted: page down", PAGE)
    for _ in range(run.few // 2 * 2):
        run.key("launches: hide small (x)", b"x", goal=FILTER, floor=b"s", probe=True)
    run.to("Kernels by Iteration")
    run.app.press(b"G", probe=True)
    run.moves("launches of the largest iteration: row up and down", UP, DOWN)


def looks(run: Run) -> None:
    """What draws the rows of a large table otherwise, or says more of one."""
    # It shows the launches still.
    run.to("Kernels")
    run.app.press(b"g")
    for _ in range(run.few // 2):
        run.key("launches: details (i)", b"i", goal=OPEN, floor=b"s", probe=True)
        run.moves("launches with details: row down", DOWN)
        run.key("launches: no details (i)", b"i", goal=OPEN, floor=b"s", probe=True)
    for _ in range(run.few):
        run.key("launches: unit (u)", b"u", goal=OPEN, floor=b"s", probe=True)
    for _ in range(run.few // 3 * 3):
        run.key("launches: shares (%)", b"%", goal=OPEN, floor=b"s", probe=True)
    for _ in range(run.few):
        run.key("launches: mark (space)", b" ", floor=DOWN)
    run.app.press(b"\x1b")
    for turn in range(run.few):
        word = (b"elementwis", b"aten::op_1")[turn % 2]
        run.app.press(b"/" + word)
        run.key("launches: find", (b"e", b"2")[turn % 2], goal=FILTER, shows=FOUND, floor=b"s")
        run.app.press(b"\x1b")


def charts(run: Run) -> None:
    """The chart of iterations and the timeline."""
    run.to("Iterations")
    run.moves("iterations: move", RIGHT)
    run.moves("iterations: zoom", b"+", b"_")
    run.to("Timeline")
    run.moves("timeline: move", RIGHT)
    run.moves("timeline: zoom in", b"+")
    run.moves("timeline, close: move", RIGHT, PAGE)
    run.moves("timeline: lane", DOWN, UP)
    run.moves("timeline: next gap", b"}")
    run.moves("timeline: zoom out", b"_")


def again(run: Run) -> None:
    """Views that have been looked at before."""
    for _ in range(run.few // 2):
        for name in VIEWS:
            run.key(f"again: {name}", run.type(name), goal=OPEN, floor=b"2", probe=True)
            run.bare.press(b"1", quiet_s=QUIET_BARE_S)


def print_heading() -> None:
    """What the columns are."""
    print(
        f"{'':<48}{'keys':>5}{'goal':>6}{'p50':>8}{'p95':>8}{'floor':>7}{'p95':>7}{'ratio':>7}"
        f"{'work':>7}{'p95':>7}{'floor':>7}{'rest':>8}{'frozen':>8}"
    )


def print_rows(rows: Sequence[Row]) -> None:
    """One line a kind of key."""
    for row in rows:
        goal = GOALS_MS[row.goal]
        p95, floor = _at(row.seconds, 95), _at(row.floor, 95)
        frozen = 1000 * max(row.frozen) if row.frozen else None
        print(
            f"{row.title:<48}{len(row.seconds):>5}{goal:>6}{_ms(_at(row.seconds, 50)):>8}{_ms(p95):>8}"
            f"{_ms(_at(row.floor, 50)):>7}{_ms(floor):>7}{f'{p95 / floor:.1f}x' if p95 and floor else '-':>7}"
            f"{_ms(_at(row.worked, 50)):>7}{_ms(_at(row.worked, 95)):>7}{_ms(_at(row.floor_worked, 50)):>7}"
            f"{_ms(_at(row.rest, 50)):>8}{f'{frozen:.0f}' if frozen is not None else '':>8}"
            + ("" if p95 is not None and 1000 * p95 <= goal else "  above")
            + (f"  ({row.missed} unseen)" if row.missed else ""),
            flush=True,
        )


def _at(seconds: Sequence[float], percentile: int) -> float | None:
    return float(np.percentile(seconds, percentile)) if seconds else None


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.1f}"
