"""GPUs: properties and use of time of each GPU, its streams, and the comparison of ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl
from textual.content import Content

from tui.analysis.activities import ACTIVITY_TABLE, filtered_activities
from tui.analysis.capabilities import missing_data_text, recording_advice
from tui.analysis.collective_details import COLLECTIVES_WITH_CAUSES, collectives_with_causes, missing_sizes_reason
from tui.analysis.collectives import (
    COLLECTIVE_RANKS,
    clock_alignment,
    collective_kinds,
    collective_ranks,
    unmatched_note,
)
from tui.analysis.gpu_time.breakdown import utilization
from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.gpu_time.timelines import COMMUNICATION
from tui.analysis.gpus import STREAMS, imbalance_pct, streams
from tui.analysis.iterations.work import iteration_activities
from tui.analysis.needs import DEVICES, START_TIMES
from tui.analysis.rank_summary import (
    ITERATION_RANKS,
    OP_RANKS,
    OP_RANKS_SPEC,
    RANK_ITERATIONS,
    has_several_ranks,
    iteration_ranks,
    missing_ranks_reason,
    op_ranks,
    op_type_ranks,
    rank_iterations,
    ranks,
    ranks_by_op,
    session_labels,
    slowest_ranks,
    straggler_verdict,
)
from tui.fmt import brief, brief_duration, brief_percent, percent
from tui.keys import Scope, bindings_for
from tui.model.columns import COLUMNS
from tui.screens.base import ViewScreen
from tui.screens.kernels import launch_crumb, work_details
from tui.screens.linked_tables import Level, Row, registered_level
from tui.screens.tabs import Tab, TabbedView
from tui.text import plain
from tui.text_width import cell_width, clip, pad
from tui.widgets.charts.bars import kind_style, stacked_bar
from tui.widgets.details import full_value, row_details, with_blocks
from tui.widgets.panel import sentence_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tui.model.profile import Profile
    from tui.widgets.details import Details
    from tui.widgets.panel import Draw
    from tui.widgets.table.pane import TablePane

MAX_RANKS_LISTED: Final = 4
"""More ranks are counted, not listed."""
NO_ITERATIONS: Final = "no iteration spans two ranks: record iterations, for example with ProfilerStep or NVTX"


def no_ranks(profile: Profile) -> str:
    """Return why there are no ranks to compare."""
    reason = missing_ranks_reason(profile)
    return f"{reason}: press S for all" if reason and profile.other_sessions else reason


def no_rank_iterations(profile: Profile) -> str:
    """Return why iterations cannot be compared."""
    return no_ranks(profile) or NO_ITERATIONS


def no_collectives(profile: Profile) -> str:
    """Return why there are no collectives."""
    return no_ranks(profile) or clock_alignment(profile).sentence


def iterations_of_rank(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the iterations of the selected rank beside those of the others."""
    row = selected.get("ranks")
    return rank_iterations(profile, session=row["session"] if row is not None else -1)


def work_of_rank_iteration(level: str) -> Callable[[Profile, Mapping[str, Row]], pl.DataFrame]:
    """Return a function for the work in the selected iteration of a rank."""

    def rows(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
        row = selected.get(level)
        if row is None:
            return profile["activities"].clear()
        return iteration_activities(profile, session=row["session"], iteration=row["iteration"])

    return rows


def _ranks_of_iteration(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    row = selected.get("slowest_ranks")
    return iteration_ranks(profile, iteration=row["iteration"] if row is not None else -1)


def _ops_of_type(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    row = selected.get("op_type_ranks")
    return op_ranks(profile, op_type=row["op_type"] if row is not None else "")


def _ranks_of_op(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    row = selected.get("op_ranks")
    return ranks_by_op(profile, op=row["op"] if row is not None else "", op_type=row["op_type"] if row else "")


def _collectives(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    row = selected.get("collective_kinds")
    if row is None:
        return collectives_with_causes(profile).clear()
    return collectives_with_causes(profile, collective=row["collective"], communicator=row["communicator"])


def _ranks_of_collective(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    row = selected.get("collectives")
    return collective_ranks(profile).clear() if row is None else collective_ranks(profile, row=row)


def iterations_head(profile: Profile) -> Draw | None:
    """Return a function that draws the straggler, else the rank that is slowest most often."""
    rows = slowest_ranks(profile)
    if rows.is_empty():
        return None
    last_ranks = rows["last_rank"].drop_nulls().value_counts(name="times").sort("times", descending=True)
    if last_ranks.height and last_ranks["times"][0] > (last_ranks["times"][1] if last_ranks.height > 1 else 0):
        rank, number = last_ranks.row(0)
        sentence = f"{rank[:1].upper()}{rank[1:]} arrives last at collectives in {number} of {rows.height} iterations"
        spread = brief_percent(max(rows["spread_pct"].drop_nulls(), default=0.0))
        explanation = f"iteration times of ranks differ by at most {spread}, because early ranks wait in the collective"
        return lambda width: sentence_lines([(sentence, "bold"), (explanation, "$text-muted")], width)
    times = rows.group_by("longest_rank").len("times").sort("longest_rank")
    most_frequent = times.filter(pl.col("times") == pl.col("times").max())
    names = most_frequent["longest_rank"].to_list()
    frequency = f"{most_frequent['times'][0]} of {rows.height} iterations"
    sentence = f"{names[0]} takes longest in {frequency}"
    if len(names) > 1:
        sentence = f"no rank takes longest most often: {', '.join(names[:-1])} and {names[-1]} do in {frequency} each"
        if len(names) > MAX_RANKS_LISTED:
            sentence = f"no rank takes longest most often: {len(names)} ranks do in {frequency} each"
    explanation = "ranks that wait for each other have equal iteration times; the straggler arrives last at collectives"
    return lambda width: sentence_lines([(sentence, "bold"), (explanation, "$text-muted")], width)


def ops_head(profile: Profile) -> Draw | None:
    """Return a function that draws the largest differences between the ranks."""
    # The rank with the longest communication is the one that waits.
    rows = op_type_ranks(profile).filter(pl.col("op_type") != COMMUNICATION)
    if rows.is_empty():
        return None
    largest = rows.row(0, named=True)

    def draw(width: int) -> list[Content]:
        difference = brief_duration(largest["apart_ns"])
        comparison = f"{largest['most_rank']} takes {difference} longer per iteration than {largest['least_rank']}"
        sentence = f"Besides communication, {largest['op_type']} differs most: {comparison}"
        explanation = "GPU time per iteration, of the work launched in it; communication includes waits for other ranks"
        return sentence_lines([(sentence, "bold"), (explanation, "$text-muted")], width)

    return draw


def collectives_head(profile: Profile) -> Draw | None:
    """Return a function that draws the waiting time in collectives, or why clocks cannot be compared."""
    if not has_several_ranks(profile):
        return None
    rows, alignment, unmatched = collective_kinds(profile), clock_alignment(profile), unmatched_note(profile)
    wait, transfer = (int(rows[name].sum()) for name in ("comm_wait_ns", "comm_transfer_ns"))

    def draw(width: int) -> list[Content]:
        sentences = [(alignment.sentence, "$text-muted")]
        if wait + transfer:
            share = brief_percent(100 * wait / (wait + transfer))
            amount = brief_duration(wait)
            total = brief_duration(wait + transfer)
            wait_text = f"{share} of the time in matched collectives is waiting for the last rank: {amount} of {total}"
            sentences = [(wait_text, "bold"), *sentences]
        if unmatched:
            sentences.append((unmatched, "$text-muted"))
        return sentence_lines(sentences, width)

    return draw


def _iteration(row: Row) -> str:
    return f"iteration {row['iteration']}"


def rank_parts(ranks_head: Callable[[Profile], Draw | None]) -> tuple[Tab, ...]:
    """Return the tabs of ranks.

    Args:
        ranks_head: The text above the ranks.
    """
    return (
        Tab(
            "ranks",
            "Ranks",
            (
                Level("ranks", *registered_level("ranks"), lambda row: str(row["who"]), no_ranks),
                Level("rank_iterations", RANK_ITERATIONS, iterations_of_rank, _iteration, no_rank_iterations),
                Level(
                    "rank_work",
                    ACTIVITY_TABLE,
                    work_of_rank_iteration("rank_iterations"),
                    launch_crumb,
                    no_rank_iterations,
                ),
            ),
            no_ranks,
            ranks_head,
        ),
        Tab(
            "slowest",
            "Iterations",
            (
                Level(
                    "slowest_ranks",
                    *registered_level("slowest_ranks"),
                    _iteration,
                    no_rank_iterations,
                ),
                Level(
                    "iteration_ranks",
                    ITERATION_RANKS,
                    _ranks_of_iteration,
                    lambda row: str(row["who"]),
                    no_rank_iterations,
                ),
                Level(
                    "iteration_work",
                    ACTIVITY_TABLE,
                    work_of_rank_iteration("iteration_ranks"),
                    launch_crumb,
                    no_rank_iterations,
                ),
            ),
            no_ranks,
            iterations_head,
        ),
        Tab(
            "ops",
            "Ops",
            (
                Level(
                    "op_type_ranks",
                    *registered_level("op_type_ranks"),
                    lambda row: str(row["op_type"]),
                    no_rank_iterations,
                ),
                Level("op_ranks", OP_RANKS, _ops_of_type, lambda row: str(row["op"]), no_rank_iterations),
                Level("ranks_of_op", OP_RANKS_SPEC, _ranks_of_op, lambda row: str(row["who"]), no_rank_iterations),
            ),
            no_ranks,
            ops_head,
        ),
        Tab(
            "collectives",
            "Collectives",
            (
                Level(
                    "collective_kinds",
                    *registered_level("collective_kinds"),
                    lambda row: str(row["collective"]),
                    no_collectives,
                ),
                Level(
                    "collectives",
                    COLLECTIVES_WITH_CAUSES,
                    _collectives,
                    lambda row: f"{row['collective']} {row['turn']} of iteration {row['iteration']}",
                    no_collectives,
                ),
                Level(
                    "collective_ranks",
                    COLLECTIVE_RANKS,
                    _ranks_of_collective,
                    lambda row: str(row["who"]),
                    no_collectives,
                ),
            ),
            no_ranks,
            collectives_head,
        ),
        Tab(
            "sizes",
            "Bandwidth",
            (
                Level(
                    "collective_sizes",
                    *registered_level("collective_sizes"),
                    lambda row: str(row["collective"]),
                    missing_sizes_reason,
                ),
            ),
            missing_sizes_reason,
        ),
    )


PARTS: Final = ("compute", "exposed communication", "exposed copies", "idle")
"""The parts of a bar."""
SHORT_PARTS: Final = ("compute", "exposed comm", "exposed copies", "idle")
BAR_PARTS: Final = ("other", "communication", "memory", "idle")
"""Their styles, as in the other charts."""
MIN_CELLS_WITH_REFERENCE: Final = 70
"""In narrower bars there is no room for what a share refers to."""
MAX_BARS: Final = 8
"""More GPUs are listed only in the table below."""


@dataclass(frozen=True, slots=True)
class GpuBar:
    """One GPU."""

    label: str
    parts_ns: tuple[int, int, int, int]
    """The times of `PARTS`, which add up to the wall time."""
    busy_pct: float | None


def gpu_lines(bars: Sequence[GpuBar], sentences: Sequence[tuple[str, str]], width: int) -> list[Content]:
    """Return a bar per GPU, the legend, and sentences below them.

    Args:
        bars: The GPUs.
        sentences: Sentences and their styles.
        width: Cells of a line.
    """
    labels = [plain(bar.label) for bar in bars]
    label_cells = min(max((cell_width(text) for text in labels), default=0), max(8, width // 3))
    preposition = "of the wall time of" if width >= MIN_CELLS_WITH_REFERENCE else "of"
    figures = [
        f"busy {brief(percent(bar.busy_pct))} {preposition} {brief_duration(sum(bar.parts_ns))}"
        for bar in bars[:MAX_BARS]
    ]
    # Bars of one width can be compared.
    bar_cells = max(0, width - label_cells - max(map(cell_width, figures), default=0) - 2)
    lines = []
    for text, bar, figure in zip(labels, bars, figures, strict=False):
        lines.append(
            Content.assemble(
                (pad(clip(text, label_cells), label_cells), "$text-muted"),
                " ",
                stacked_bar(bar.parts_ns, bar_cells, parts=BAR_PARTS),
                f" {figure}",
            )
        )
    if bars:
        names = PARTS if width >= 100 else SHORT_PARTS
        swatches = [
            piece
            for part, name in zip(BAR_PARTS, names, strict=True)
            for piece in (
                (kind_style(part).fill, kind_style(part).color),
                (f" {name}  ", "$text-muted"),
            )
        ]
        omitted = f"and {len(bars) - MAX_BARS} more below" if len(bars) > MAX_BARS else ""
        lines.append(Content.assemble(" " * (label_cells + 1), *swatches, (omitted, "$text-muted")))
    return [*lines, *sentence_lines(sentences, width)]


OVERLAP_FIGURES: Final = (
    "comm_ns",
    "comm_hidden_pct",
    "copies_ns",
    "copy_hidden_pct",
    "both_ways_pct",
    "concurrent_ns",
)
"""The figures of a GPU's overlap in its details, beside the parts that add up."""
SUMMED_TIMES: Final = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
"""Times that add up to the time from the GPU's first start to its last end."""


def is_gpu_of_row(row: Row) -> pl.Expr:
    """Return the condition for the rows of one GPU of a session."""
    session: pl.Expr = pl.col("session") == row["session"]
    return session & pl.col("device").eq_missing(pl.lit(row["device"], pl.Int32))


def streams_of_gpu(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the streams of the selected GPU."""
    row = selected.get("gpus")
    return streams(profile).filter(is_gpu_of_row(row) if row is not None else False)


def work_of_stream(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the work of the selected stream."""
    row = selected.get("streams")
    if row is None:
        return filtered_activities(profile)
    return filtered_activities(
        profile, is_gpu_of_row(row), pl.col("stream").eq_missing(pl.lit(row["stream"], pl.Int64))
    )


def no_streams(profile: Profile) -> str:
    """Return why there are no streams."""
    if not _has_times(profile):
        return f"start times not recorded: {recording_advice(profile, START_TIMES)}"
    return "no work recorded for this GPU: the session lists it but used other GPUs"


def _has_times(profile: Profile) -> bool:
    starts = profile["activities"]["start_ns"]
    return starts.len() > starts.null_count()


def gpu_bars(profile: Profile) -> list[GpuBar]:
    """Return the use of the wall time of each GPU with work; time before its first and after its last work is idle."""
    rows = overlap(profile).join(
        utilization(profile).select("session", "device", "wall_ns"),
        on=("session", "device"),
        nulls_equal=True,
        maintain_order="left",
    )
    has_several_sessions = rows["session"].n_unique() > 1
    labels = session_labels(profile)
    return [
        GpuBar(
            f"{labels[row['session']]} GPU {_number_text(row['device'])}"
            if has_several_sessions
            else f"GPU {_number_text(row['device'])}",
            (
                row["compute_ns"],
                row["exposed_comm_ns"],
                row["exposed_copy_ns"],
                row["idle_ns"] + row["wall_ns"] - row["total_span_ns"],
            ),
            100 * row["busy_ns"] / row["wall_ns"] if row["wall_ns"] else None,
        )
        for row in rows.iter_rows(named=True)
    ]


def _number_text(device: int | None) -> str:
    return "?" if device is None else str(device)


def gpus_head(profile: Profile) -> Draw | None:
    """Return a function that draws a bar per GPU, and their imbalance."""
    bars = gpu_bars(profile)
    if not bars:
        return None
    busy = imbalance_pct(overlap(profile)["busy_ns"])
    sentences = [] if busy is None else [(f"busy times differ by {brief_percent(busy)} of their mean", "$text-muted")]
    return lambda width: gpu_lines(bars, sentences, width)


def ranks_head(profile: Profile) -> Draw | None:
    """Return a function that draws a bar per GPU, the straggler and how it was found, and the imbalance."""
    if not has_several_ranks(profile):
        return None
    bars, verdict, table = gpu_bars(profile), straggler_verdict(profile), ranks(profile)
    differences = [
        f"{title} {brief_percent(value)}"
        for title, column in (("compute", "compute_ns"), ("exposed communication", "exposed_comm_ns"))
        if (value := imbalance_pct(table[column])) is not None
    ]
    notes = [verdict.method] if verdict.method else []
    notes += [f"imbalance, (max - min) / mean: {', '.join(differences)}"] if differences else []
    sentences = [(verdict.sentence, "bold"), *((note, "$text-muted") for note in notes)]

    def draw(width: int) -> list[Content]:
        return gpu_lines(bars, sentences, width)

    return draw


class GpusScreen(TabbedView, ViewScreen):
    """GPUs with their streams and work; ranks with their iterations."""

    VIEW = "gpus"
    BINDINGS: ClassVar = bindings_for(Scope.PARTS)
    TABS: ClassVar = (
        Tab(
            "gpus",
            "GPUs",
            (
                Level(
                    "gpus",
                    *registered_level("gpus"),
                    lambda row: f"GPU {_number_text(row['device'])}",
                    lambda profile: missing_data_text(profile, DEVICES),
                    2,
                ),
                Level(
                    "streams",
                    STREAMS,
                    streams_of_gpu,
                    lambda row: f"stream {_number_text(row['stream'])}",
                    no_streams,
                    2,
                ),
                Level("stream_work", ACTIVITY_TABLE, work_of_stream, launch_crumb, no_streams, 2),
            ),
            head=gpus_head,
        ),
        *rank_parts(ranks_head),
    )
    HELP: ClassVar = (
        "GPUs, their streams and the work on them. . switches to ranks, iterations, ops and collectives of all "
        "ranks.\nCompute, exposed communication, exposed copies and idle add up to the wall time.\nStragglers are "
        "found by durations alone; waits need comparable clocks."
    )

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the use of time of a GPU; for a rank, the straggler."""
        match pane.id:
            case "gpus":
                return self._gpu_details(pane, row)
            case "ranks":
                verdict = straggler_verdict(self.profile)
                lines = [("Straggler", verdict.sentence, verdict.method)]
                return with_blocks(row_details(pane.spec, row, frame=pane.frame), [("Straggler", lines)])
        return work_details(self, pane, row)

    def _gpu_details(self, pane: TablePane, row: Row) -> Details:
        row_part = row_details(pane.spec, row, frame=pane.frame)
        shared = overlap(self.profile).filter(is_gpu_of_row(row))
        if shared.is_empty():
            return row_part
        figures = shared.row(0, named=True)

        def lines(names: tuple[str, ...]) -> list[tuple[str, str, str]]:
            return [
                (COLUMNS[name].title, full_value(COLUMNS[name].kind, figures[name]), COLUMNS[name].help)
                for name in names
                if figures[name] is not None
            ]

        return with_blocks(
            row_part,
            [
                ("Time from its first start to its last end", lines(SUMMED_TIMES)),
                ("Overlap", lines(OVERLAP_FIGURES)),
            ],
        )
