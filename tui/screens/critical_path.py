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

_STYLES: Final = {
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
_OTHER_STYLE: Final = ("▥", "$kind-unknown")
"""The style of parts that the legend omits."""
_OTHER_LABEL: Final = " other"
_CPU_KINDS: Final = (PathKind.CPU_OP, PathKind.API_CALL, PathKind.CPU_OUTSIDE, PathKind.LAUNCH_DELAY)
TALL_SCREEN_LINES: Final = 30
"""From this height on, the path is also drawn over time."""


def _work_of_iteration(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    row = selected.get("critical_paths")
    if row is None:
        return critical_path(profile).clear()
    return critical_path(profile, row["session"], row["iteration"])


def _segments(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    row = selected.get("path_work")
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
            legend = self._legend_kinds(width)
            if self._ends and height > 3:
                bars = {"over time ": self._over_time, "by kind   ": self._parts}
                lines += [
                    Content.assemble((label, "$text-muted"), draw(legend, width - len(label)))
                    for label, draw in bars.items()
                ]
            else:
                lines.append(self._parts(legend, width))
            lines.append(self._legend(legend))
        return Content("\n").join(lines[:height])

    def _parts(self, legend: Mapping[PathKind, str], width: int) -> Content:
        """Return the kinds in the order of the legend."""
        kinds = [*legend, None]
        sums = [sum(self._sums) - sum(self._sums[listed] for listed in legend) if kind is None else self._sums[kind]
                for kind in kinds]  # fmt: skip
        styles = [_OTHER_STYLE if kind is None else _STYLES[kind] for kind in kinds]
        return Content.assemble(
            *((fill * cells, color) for (fill, color), cells in zip(styles, shared_cells(sums, width), strict=True))
        )

    def _over_time(self, legend: Mapping[PathKind, str], width: int) -> Content:
        """Return a strip whose cells show the kind with most of their time."""
        edges = np.linspace(0, self._ends[-1], width + 1)
        ends, kinds = np.array(self._ends), np.array(self._kinds)
        shares = np.zeros((width, len(PathKind)))
        for kind in PathKind:
            durations = np.where(kinds == kind, np.diff(ends, prepend=0), 0)
            time_until = np.interp(edges, np.concatenate(([0], ends)), np.concatenate(([0], np.cumsum(durations))))
            shares[:, kind] = np.diff(time_until)
        main_kinds = map(PathKind, shares.argmax(axis=1).tolist())
        return Content.assemble(*(_STYLES[kind] if kind in legend else _OTHER_STYLE for kind in main_kinds))

    def _legend_kinds(self, width: int) -> Mapping[PathKind, str]:
        """Return the kinds that fit into the legend, the largest first, and labels: times, else shares, else names."""
        total = sum(self._sums)
        kinds = sorted((kind for kind in PathKind if self._sums[kind]), key=lambda listed: -self._sums[listed])
        names = {kind: f" {TITLES[kind]}" for kind in kinds}
        percents = {kind: brief_percent(100 * self._sums[kind] / total) for kind in kinds}
        shares = {kind: f"{names[kind]} {percents[kind]}" for kind in kinds}
        choices = [{kind: f"{names[kind]} {brief_duration(self._sums[kind])} {percents[kind]}" for kind in kinds}]
        choices += [
            {kind: (shares if index < with_shares else names)[kind] for index, kind in enumerate(kinds)}
            for with_shares in range(len(kinds), -1, -1)
        ]
        fewer = [{kind: names[kind] for kind in kinds[:number]} for number in range(len(kinds) - 1, 0, -1)]
        for labels in (*choices, *fewer):
            entries = [*labels.values(), *([] if len(labels) == len(kinds) else [_OTHER_LABEL])]
            if sum(1 + cell_width(text) + 2 for text in entries) - 2 <= width:
                return labels
        return {}

    def _legend(self, labels: Mapping[PathKind, str]) -> Content:
        entries = [(_STYLES[kind], label) for kind, label in labels.items()]
        if len(entries) < sum(1 for time in self._sums if time):
            entries.append((_OTHER_STYLE, _OTHER_LABEL))
        return Content("  ").join(Content.assemble(style, label) for style, label in entries)


def path_sentence(profile: Profile, row: Row) -> str:
    """Return a sentence about the critical path of an iteration."""
    total_ns = row["duration_ns"]
    cpu_ns = sum(row[KIND_COLUMNS[kind]] for kind in _CPU_KINDS)
    other_ranks_ns, gpu_ns = row["path_other_rank_ns"], round(row["path_gpu_pct"] / 100 * total_ns)
    start = f"Iteration {row['iteration']}, {brief_duration(total_ns)}: "
    if 2 * other_ranks_ns > total_ns:
        return (
            f"{start}{brief_percent(100 * other_ranks_ns / total_ns)} of the path is on other ranks, which arrive late"
        )
    if 2 * cpu_ns > total_ns:
        return f"{start}CPU-bound ({brief_percent(100 * cpu_ns / total_ns)} of the path); launches arrive late"
    if 2 * gpu_ns > total_ns:
        return f"{start}GPU-bound ({brief_percent(100 * gpu_ns / total_ns)} of the path)"
    unknown_ns, missing = row[KIND_COLUMNS[PathKind.NOT_RECORDED]], missing_launches_note(profile)
    if 2 * unknown_ns > total_ns and not missing:
        return f"{start}{brief_percent(100 * unknown_ns / total_ns)} of the path is not recorded"
    return start + (missing or "neither the CPU nor the GPU dominates the path")


class CriticalPathScreen(ViewScreen):
    """Iterations with the kinds of their paths, the work of one, and the segments of that work."""

    VIEW = "critical-path"
    HELP: ClassVar = (
        "The chain of work and waits that determines the iteration time. Its parts add up to the iteration.\nSaves "
        "at 2x: time saved per iteration if all work of this name were twice as fast, by recorded and inferred "
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
        Level("path_work", CRITICAL_PATH, _work_of_iteration, _crumb, no_path_reason, 3),
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
        self.run_worker(
            partial(self._compute_strip, self.profile, dict(row)), thread=True, exclusive=True, group="strip"
        )

    def _compute_strip(self, profile: Profile, row: dict[str, Any]) -> None:
        rows = iteration_segments(profile, row["session"], row["iteration"])
        kinds = {title: kind for kind, title in TITLES.items()}
        columns = rows.select(pl.col("path_kind").cast(pl.String), "duration_ns")
        path = [(int(kinds[name]), length) for name, length in columns.iter_rows()]
        self.app.call_from_thread(self._update_strip, profile, row, path)

    def _update_strip(self, profile: Profile, row: dict[str, Any], path: list[tuple[int, int]]) -> None:
        if self.is_attached and profile is self.profile:
            omitted = left_out_note(profile)
            sentence = f"{path_sentence(profile, row)} ({omitted})" if omitted else path_sentence(profile, row)
            self.query_one(PathStrip).show(sentence, row, path)

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the details with the time saved by work that takes half as long."""
        row_part = super().details(pane, row)
        if pane.spec is not CRITICAL_PATH or None in (row["half_saves_ns"], row["work_ns"]):
            return row_part
        saves, work = (brief_duration(row[name]) for name in ("half_saves_ns", "work_ns"))
        return with_blocks(
            row_part,
            [
                (
                    "If it were faster",
                    [("", f"Halving it saves {saves} of its {work}", "by the recorded and inferred dependencies")],
                )
            ],
        )
