"""Critical path: the work and waits that determine the end of an iteration, and the savings of faster work."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import polars as pl
from textual import on
from textual.content import Content
from textual.widget import Widget

from tui.analysis.critical_path import (
    SEGMENTS,
    iteration_segments,
    left_out_note,
    main_kinds_first,
    missing_launches_note,
    no_path_reason,
)
from tui.analysis.critical_path_slack import CRITICAL_PATH, critical_path
from tui.analysis.critical_path_trace import KIND_COLUMNS, TITLES, PathKind
from tui.fmt import brief_duration, brief_percent
from tui.model.names import short_name
from tui.screens.base import ViewScreen
from tui.screens.linked_tables import Level, LinkedTables, Row, registered_level
from tui.text_width import cell_width, clip, clip_middle
from tui.widgets.charts.bars import shared_cells
from tui.widgets.details import with_blocks
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from textual.app import RenderResult

    from tui.model.profile import Profile
    from tui.widgets.details import Details

CRUMB_CELLS: Final = 32

_LOOKS: Final = {
    PathKind.KERNEL: ("█", "$kind-other"),
    PathKind.COPY: ("▒", "$kind-memory"),
    PathKind.COMMUNICATION: ("▨", "$kind-communication"),
    PathKind.KERNEL_GAP: ("░", "$kind-idle"),
    PathKind.LAUNCH_DELAY: ("▞", "$kind-range"),
    PathKind.SYNCHRONIZATION: ("▤", "$kind-sync"),
    PathKind.CPU_OP: ("▚", "$kind-cpu"),
    PathKind.API_CALL: ("▓", "$kind-launch"),
    PathKind.CPU_OUTSIDE: ("▧", "$kind-whole"),
    PathKind.NOT_RECORDED: ("▥", "$kind-unknown"),
}
_OTHER: Final = ("▥", "$kind-unknown")
"""The style of the parts that the legend has no room for."""
_OTHER_WORDS: Final = " other"
_ON_CPU: Final = (PathKind.CPU_OP, PathKind.API_CALL, PathKind.CPU_OUTSIDE, PathKind.LAUNCH_DELAY)
TALL_SCREEN_LINES: Final = 30
"""From this height on, the path is also drawn over time."""


def _work(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    row = above.get("critical_paths")
    if row is None:
        return critical_path(profile).clear()
    return critical_path(profile, row["session"], row["iteration"])


def _segments(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    row = above.get("path_work")
    rows = iteration_segments(profile, *((row["session"], row["iteration"]) if row is not None else (-1, -1)))
    if row is None:
        return rows
    return rows.filter(
        pl.col("path_kind").cast(pl.String) == row["path_kind"],
        pl.col("name").cast(pl.String).eq_missing(pl.lit(row["name"], pl.String)),
    )


def _crumb(row: Row) -> str:
    return clip_middle(short_name(str(row["name"] or row["path_kind"])), CRUMB_CELLS)


def _not_on_path(_profile: Profile) -> str:
    return "None of this is on the path."


class PathStrip(Widget):
    """A sentence about the critical path of an iteration, and its kinds as a stacked bar and over time."""

    DEFAULT_CSS = """
    PathStrip { height: 4; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._sentence = ""
        self._sums: Sequence[int] = ()
        self._kinds: Sequence[int] = ()
        self._ends: Sequence[int] = ()

    def show(self, sentence: str, row: Row | None, path: Sequence[tuple[int, int]]) -> None:
        """Show another iteration.

        Args:
            sentence: A sentence about its path.
            row: Its row of `critical_paths`; None for none.
            path: Kind and duration of its segments, by time.
        """
        self._sentence = sentence
        self._sums = [row[KIND_COLUMNS[kind]] for kind in PathKind] if row is not None else []
        self._kinds = [kind for kind, _ in path]
        self._ends = np.cumsum([length for _, length in path]).tolist()
        self.refresh()

    def render(self) -> RenderResult:
        """Render as many lines as there is room for."""
        width, height = self.content_size.width, self.content_size.height
        lines = [Content.styled(clip(self._sentence, width), "bold")]
        if sum(self._sums):
            named = self._legend_kinds(width)
            if self._ends and height > 3:
                bars = {"over time ": self._over_time, "by kind   ": self._parts}
                lines += [
                    Content.assemble((label, "$text-muted"), drawn(named, width - len(label)))
                    for label, drawn in bars.items()
                ]
            else:
                lines.append(self._parts(named, width))
            lines.append(self._legend(named))
        return Content("\n").join(lines[:height])

    def _parts(self, named: Mapping[PathKind, str], width: int) -> Content:
        """Return the kinds in the order of the legend."""
        kinds = [*named, None]
        sums = [sum(self._sums) - sum(self._sums[one] for one in named) if kind is None else self._sums[kind]
                for kind in kinds]  # fmt: skip
        looks = [_OTHER if kind is None else _LOOKS[kind] for kind in kinds]
        return Content.assemble(
            *((fill * cells, color) for (fill, color), cells in zip(looks, shared_cells(sums, width), strict=True))
        )

    def _over_time(self, named: Mapping[PathKind, str], width: int) -> Content:
        """Return a strip whose cells show the kind with most of their time."""
        edges = np.linspace(0, self._ends[-1], width + 1)
        ends, kinds = np.array(self._ends), np.array(self._kinds)
        shares = np.zeros((width, len(PathKind)))
        for kind in PathKind:
            own = np.where(kinds == kind, np.diff(ends, prepend=0), 0)
            until = np.interp(edges, np.concatenate(([0], ends)), np.concatenate(([0], np.cumsum(own))))
            shares[:, kind] = np.diff(until)
        most = map(PathKind, shares.argmax(axis=1).tolist())
        return Content.assemble(*(_LOOKS[kind] if kind in named else _OTHER for kind in most))

    def _legend_kinds(self, width: int) -> Mapping[PathKind, str]:
        """Return the kinds that fit into the legend, the largest first, and labels: times, else shares, else names."""
        whole = sum(self._sums)
        kinds = sorted((kind for kind in PathKind if self._sums[kind]), key=lambda one: -self._sums[one])
        names = {kind: f" {TITLES[kind]}" for kind in kinds}
        percents = {kind: brief_percent(100 * self._sums[kind] / whole) for kind in kinds}
        shares = {kind: f"{names[kind]} {percents[kind]}" for kind in kinds}
        choices = [{kind: f"{names[kind]} {brief_duration(self._sums[kind])} {percents[kind]}" for kind in kinds}]
        choices += [
            {kind: (shares if place < known else names)[kind] for place, kind in enumerate(kinds)}
            for known in range(len(kinds), -1, -1)
        ]
        fewer = [{kind: names[kind] for kind in kinds[:shown]} for shown in range(len(kinds) - 1, 0, -1)]
        for words in (*choices, *fewer):
            entries = [*words.values(), *([] if len(words) == len(kinds) else [_OTHER_WORDS])]
            if sum(1 + cell_width(text) + 2 for text in entries) - 2 <= width:
                return words
        return {}

    def _legend(self, named: Mapping[PathKind, str]) -> Content:
        entries = [(_LOOKS[kind], words) for kind, words in named.items()]
        if len(entries) < sum(1 for one in self._sums if one):
            entries.append((_OTHER, _OTHER_WORDS))
        return Content("  ").join(Content.assemble(look, words) for look, words in entries)


def sentence_of(profile: Profile, row: Row) -> str:
    """Return a sentence about the critical path of an iteration."""
    whole = row["duration_ns"]
    on_cpu = sum(row[KIND_COLUMNS[kind]] for kind in _ON_CPU)
    elsewhere, gpu = row["path_other_rank_ns"], round(row["path_gpu_pct"] / 100 * whole)
    begin = f"Iteration {row['iteration']}, {brief_duration(whole)}: "
    if 2 * elsewhere > whole:
        return f"{begin}{brief_percent(100 * elsewhere / whole)} of the path is on other ranks, which arrive late"
    if 2 * on_cpu > whole:
        return f"{begin}CPU-bound ({brief_percent(100 * on_cpu / whole)} of the path); launches arrive late"
    if 2 * gpu > whole:
        return f"{begin}GPU-bound ({brief_percent(100 * gpu / whole)} of the path)"
    missing = missing_launches_note(profile)
    return begin + (missing or "neither the CPU nor the GPU dominates the path")


class CriticalPathScreen(ViewScreen):
    """Iterations with the kinds of their paths, the work of one, and the segments of that work."""

    VIEW = "critical-path"
    HELP: ClassVar = (
        "The chain of work and waits that determines the iteration time. Its parts add up to the iteration.\nSaves "
        "at 2x: time saved per iteration if all work of this name were twice as fast, by recorded and\ninferred "
        "dependencies. Slack: how much later work off the path could end without a longer iteration.\nT shows a "
        "segment in the timeline; P there marks the whole path."
    )

    LEVELS: ClassVar = (
        Level(
            "critical_paths",
            *registered_level("critical_paths"),
            lambda row: f"iteration {row['iteration']}",
            no_path_reason,
            2,
            spec_for=main_kinds_first,
        ),
        Level("path_work", CRITICAL_PATH, _work, _crumb, no_path_reason, 3),
        Level("path_segments", SEGMENTS, _segments, _crumb, _not_on_path, 2),
    )

    def make_body(self) -> LinkedTables:
        """Return the tables of iterations, work and segments."""
        return LinkedTables(self.LEVELS)

    def compose_body(self) -> Iterable[Widget]:
        """Yield the strip and the tables."""
        yield PathStrip(id="strip")
        yield from super().compose_body()

    def populate(self) -> None:
        """Fill the tables; the strip follows the cursor of the first."""
        self.query_one(PathStrip).styles.height = 4 if self.size.height >= TALL_SCREEN_LINES else 3
        super().populate()

    def on_resize(self) -> None:
        """Shrink the strip to three lines on a short screen."""
        for strip in self.query(PathStrip):
            strip.styles.height = 4 if self.size.height >= TALL_SCREEN_LINES else 3

    @on(TablePane.RowHighlighted)
    def _show_strip(self, event: TablePane.RowHighlighted) -> None:
        if event.pane.id != "critical_paths":
            return
        row = event.row
        if row is None:
            self.query_one(PathStrip).show(no_path_reason(self.profile), None, ())
            return
        self.run_worker(partial(self._make_strip, self.profile, dict(row)), thread=True, exclusive=True, group="strip")

    def _make_strip(self, profile: Profile, row: dict[str, Any]) -> None:
        rows = iteration_segments(profile, row["session"], row["iteration"])
        kinds = {title: kind for kind, title in TITLES.items()}
        columns = rows.select(pl.col("path_kind").cast(pl.String), "duration_ns")
        path = [(int(kinds[name]), length) for name, length in columns.iter_rows()]
        self.app.call_from_thread(self._take_strip, profile, row, path)

    def _take_strip(self, profile: Profile, row: dict[str, Any], path: list[tuple[int, int]]) -> None:
        if self.is_attached and profile is self.profile:
            others = left_out_note(profile)
            sentence = f"{sentence_of(profile, row)} ({others})" if others else sentence_of(profile, row)
            self.query_one(PathStrip).show(sentence, row, path)

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the details with the time saved by work that takes half as long."""
        first = super().details(pane, row)
        if pane.spec is not CRITICAL_PATH or None in (row["half_saves_ns"], row["work_ns"]):
            return first
        saves, all_of_it = (brief_duration(row[name]) for name in ("half_saves_ns", "work_ns"))
        return with_blocks(
            first,
            [
                (
                    "If it were faster",
                    [("", f"Halving it saves {saves} of its {all_of_it}", "by the recorded and inferred dependencies")],
                )
            ],
        )
