"""Latency from a key to the frame that shows its effect, in a terminal, compared with a minimal Textual application."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.figures import Figure
from bench.generate_nsys import skewed_database
from bench.terminal import COLUMNS, LINES, QUIET_BARE_S, KeyResponse, Terminal

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
"""Keys of the bare application per line of the table."""
PRESSES = 20
"""Presses of each movement key per run; a run takes about four minutes."""
SLOW_PRESSES = 6
"""Presses of each slower key per run."""

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
"""Every view that the database feeds, and the keys that open it."""


@dataclass(slots=True)
class KeyFigures:
    """The measurements of one kind of key: a line of the table."""

    title: str
    goal: str
    seconds: list[float] = field(default_factory=list)
    rest: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)
    frozen: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)
    floor_worked: list[float] = field(default_factory=list)
    missed: int = 0
    """Keys without a visible effect."""


class KeyBenchmark:
    """Presses keys in both programs and stores the measurements.

    Args:
        rows: Launches and copies of the database.
        presses: Presses of each movement key.
        slow_presses: Presses of each slower key.
    """

    def __init__(self, rows: int, presses: int, slow_presses: int) -> None:
        self.rows: dict[str, KeyFigures] = {}
        self._presses = presses
        self.slow_presses = slow_presses
        self._state = tempfile.TemporaryDirectory()
        homes = dict.fromkeys(("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), self._state.name)
        path = str(skewed_database(rows))
        self.bare = Terminal([sys.executable, str(Path(__file__).with_name("bare_app.py")), str(rows)])
        self.bare.press(b"")
        # Without the cache, which would be written while the first views are measured.
        self.app = Terminal([sys.executable, "-m", "tui", "--no-cache", path], homes)
        self.opened = self.app.press(b"", limit_s=600)

    def close(self) -> None:
        """End both programs."""
        self.app.close()
        self.bare.close()
        self._state.cleanup()

    def open_view(self, name: str) -> None:
        """Open a view without measuring it."""
        self.app.press(self.type_all_but_last(name))

    def type_all_but_last(self, name: str) -> bytes:
        """Type the keys that open a view, except the last one, which is returned."""
        keys = VIEWS[name]
        if len(keys) == 1:
            return keys
        self.app.press(b":" + keys)
        return ENTER

    def measure_key(
        self,
        title: str,
        keys: bytes,
        *,
        goal: str = MOVE,
        shows: re.Pattern[str] | None = ANYTHING,
        floor: bytes = b"j",
        probe: bool = False,
    ) -> KeyResponse:
        """Measure the last one of some keys, and a key of the bare application.

        Args:
            title: The line of the table.
            keys: The keys to press.
            goal: One of `GOALS_MS`.
            shows: A pattern of the frame that shows the effect; None: the first frame.
            floor: The key of the bare application.
            probe: Whether to measure how long the screen is frozen.
        """
        row = self.rows.setdefault(title, KeyFigures(title, goal))
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

    def measure_moves(self, title: str, *keys: bytes) -> None:
        """Measure movement keys, pressed in turns."""
        for turn in range(self._presses):
            key = keys[turn % len(keys)]
            self.measure_key(title, key, floor=PAGE if key == PAGE else DOWN)


def run(rows: int, runs: int) -> list[Figure]:
    """Measure and print the table; each of its lines has a goal."""
    measured = KeyBenchmark(rows, presses=PRESSES * runs, slow_presses=SLOW_PRESSES * runs)
    try:
        print(f"open up to the dashboard: {measured.opened.rest_s:.1f} s\n", flush=True)
        print_heading()
        for part in (first_openings, tables, row_display, charts, reopened_views):
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
            None if (p95 := _percentile(row.seconds, 95)) is None else 1000 * p95,
            GOALS_MS[row.goal],
            "ms",
            "an empty application",
            _percentile(row.floor, 95),
            p95,
        )
        for row in measured.rows.values()
    ]


def first_openings(run: KeyBenchmark) -> None:
    """Open every view for the first time."""
    for name in VIEWS:
        if name != "Dashboard":
            run.measure_key(f"first opening: {name}", run.type_all_but_last(name), goal=OPEN, floor=b"2", probe=True)
            run.bare.press(b"1", quiet_s=QUIET_BARE_S)


def tables(run: KeyBenchmark) -> None:
    """Measure tables: kernels, then the launches of the kernel with most launches."""
    run.open_view("Kernels")
    run.measure_moves("kernels: row down", DOWN)
    run.measure_moves("kernels: page down", PAGE)
    run.app.press(b"g")
    for turn in range(run.slow_presses):
        word = (b"elementwise", b"memcpy")[turn % 2]
        run.app.press(b"f" + word[:-1])
        run.measure_key("kernels: filter", word[-1:], goal=FILTER, shows=FILTERED, floor=b"s")
        run.app.press(b"\x1b")
    run.app.press(b"g")
    for turn in range(run.slow_presses):
        if turn:
            run.app.press(b"q")
        run.measure_key("kernels: into the launches", ENTER, goal=OPEN, floor=b"s", probe=True)
    run.measure_moves("launches: row down", DOWN)
    run.measure_moves("launches: page down", PAGE)
    run.measure_moves("launches: last and first row", b"G", b"g")
    run.measure_moves("launches: column", RIGHT, b"h")
    for turn in range(run.slow_presses):
        run.app.press(b"f" + (b"duration>30u", b"duration<4u")[turn % 2])
        run.measure_key("launches: filter", b"s", goal=FILTER, shows=FILTERED, floor=b"s")
        run.app.press(b"\x1b")
    run.app.press(b"^")
    for _ in range(run.slow_presses):
        run.app.press(RIGHT)
        run.measure_key("launches: sort", b"s", goal=SORT, shows=SORTED, floor=b"s")
        run.app.press(RIGHT)
        run.measure_key("launches: sort by a second", b";", goal=SORT, shows=SORTED, floor=b"s")
    for _ in range(run.slow_presses // 2):
        run.app.press(b"h")
        run.measure_key("launches: a picture while sorting", b"s", goal=FILTER, floor=b"s", probe=True)
    run.app.press(b"g")
    run.measure_moves("launches, sorted: page down", PAGE)
    for _ in range(run.slow_presses // 2 * 2):
        run.measure_key("launches: hide small (x)", b"x", goal=FILTER, floor=b"s", probe=True)
    run.open_view("Kernels by Iteration")
    run.app.press(b"G", probe=True)
    run.measure_moves("launches of the largest iteration: row up and down", UP, DOWN)


def row_display(run: KeyBenchmark) -> None:
    """Measure details, units, marks and search in a large table."""
    # The view still shows the launches.
    run.open_view("Kernels")
    run.app.press(b"g")
    for _ in range(run.slow_presses // 2):
        run.measure_key("launches: details (i)", b"i", goal=OPEN, floor=b"s", probe=True)
        run.measure_moves("launches with details: row down", DOWN)
        run.measure_key("launches: no details (i)", b"i", goal=OPEN, floor=b"s", probe=True)
    for _ in range(run.slow_presses):
        run.measure_key("launches: unit (u)", b"u", goal=OPEN, floor=b"s", probe=True)
    for _ in range(run.slow_presses // 3 * 3):
        run.measure_key("launches: shares (%)", b"%", goal=OPEN, floor=b"s", probe=True)
    for _ in range(run.slow_presses):
        run.measure_key("launches: mark (space)", b" ", floor=DOWN)
    run.app.press(b"\x1b")
    for turn in range(run.slow_presses):
        word = (b"elementwis", b"aten::op_1")[turn % 2]
        run.app.press(b"/" + word)
        run.measure_key("launches: find", (b"e", b"2")[turn % 2], goal=FILTER, shows=FOUND, floor=b"s")
        run.app.press(b"\x1b")


def charts(run: KeyBenchmark) -> None:
    """Measure the chart of iterations and the timeline."""
    run.open_view("Iterations")
    run.measure_moves("iterations: move", RIGHT)
    run.measure_moves("iterations: zoom", b"+", b"_")
    run.open_view("Timeline")
    run.measure_moves("timeline: move", RIGHT)
    run.measure_moves("timeline: zoom in", b"+")
    run.measure_moves("timeline, close: move", RIGHT, PAGE)
    run.measure_moves("timeline: lane", DOWN, UP)
    run.measure_moves("timeline: next gap", b"}")
    run.measure_moves("timeline: zoom out", b"_")


def reopened_views(run: KeyBenchmark) -> None:
    """Open every view again."""
    for _ in range(run.slow_presses // 2):
        for name in VIEWS:
            run.measure_key(f"opening again: {name}", run.type_all_but_last(name), goal=OPEN, floor=b"2", probe=True)
            run.bare.press(b"1", quiet_s=QUIET_BARE_S)


def print_heading() -> None:
    """Print the headings of the columns."""
    print(
        f"{'':<48}{'keys':>5}{'goal':>6}{'p50':>8}{'p95':>8}{'floor':>7}{'p95':>7}{'ratio':>7}"
        f"{'work':>7}{'p95':>7}{'floor':>7}{'rest':>8}{'frozen':>8}"
    )


def print_rows(rows: Sequence[KeyFigures]) -> None:
    """Print one line per kind of key."""
    for row in rows:
        goal = GOALS_MS[row.goal]
        p95, floor = _percentile(row.seconds, 95), _percentile(row.floor, 95)
        frozen = 1000 * max(row.frozen) if row.frozen else None
        print(
            f"{row.title:<48}{len(row.seconds):>5}{goal:>6}{_ms(_percentile(row.seconds, 50)):>8}{_ms(p95):>8}"
            f"{_ms(_percentile(row.floor, 50)):>7}{_ms(floor):>7}{f'{p95 / floor:.1f}x' if p95 and floor else '-':>7}"
            f"{_ms(_percentile(row.worked, 50)):>7}{_ms(_percentile(row.worked, 95)):>7}"
            f"{_ms(_percentile(row.floor_worked, 50)):>7}"
            f"{_ms(_percentile(row.rest, 50)):>8}{f'{frozen:.0f}' if frozen is not None else '':>8}"
            + ("" if p95 is not None and 1000 * p95 <= goal else "  above")
            + (f"  ({row.missed} unseen)" if row.missed else ""),
            flush=True,
        )


def _percentile(seconds: Sequence[float], percentile: int) -> float | None:
    return float(np.percentile(seconds, percentile)) if seconds else None


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1000 * seconds:.1f}"
