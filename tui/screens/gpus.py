"""GPUs: what each one is and how its time was used, its streams, and the ranks side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl

from tui.analysis.gpu_time.overlap import overlap
from tui.analysis.gpu_time.streams import STREAMS, streams
from tui.analysis.gpu_work import GPU_WORK, gpu_work
from tui.analysis.gpus import GPUS, gpus, imbalance_pct
from tui.analysis.inputs.capabilities import how_to_record, why_none
from tui.analysis.inputs.needs import DEVICES, START_TIMES
from tui.analysis.ranks.tables import labels, ranks, several_ranks, straggler_words
from tui.fmt import percent
from tui.model.columns import COLUMNS
from tui.screens.kernels import launch_crumb
from tui.screens.linked import Level, Row
from tui.screens.parts import Part, PartsScreen
from tui.screens.rank_parts import rank_parts
from tui.widgets.details import row_details, whole_value
from tui.widgets.gpu_lines import GpuBar, gpu_lines
from tui.widgets.kernel_details import below

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.content import Content

    from tui.model.profile import Profile
    from tui.widgets.details import Details
    from tui.widgets.head_lines import Draw
    from tui.widgets.table_pane import TablePane

SHARED: Final = ("comm_ns", "comm_hidden_pct", "copies_ns", "copy_hidden_pct", "both_ways_pct", "concurrent_ns")
"""What of a GPU's overlap its details tell, beside the parts that add up."""
ADDED_UP: Final = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
"""They add up to the span."""


def one_gpu(row: Row) -> pl.Expr:
    """The rows of one GPU of a session."""
    session: pl.Expr = pl.col("session") == row["session"]
    return session & pl.col("device").eq_missing(pl.lit(row["device"], pl.Int32))


def streams_of_gpu(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The streams of the selected GPU."""
    row = above.get("gpus")
    return streams(profile).filter(one_gpu(row) if row is not None else False)


def work_of_stream(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """What ran on the selected stream."""
    row = above.get("streams")
    if row is None:
        return gpu_work(profile)
    return gpu_work(profile, one_gpu(row), pl.col("stream").eq_missing(pl.lit(row["stream"], pl.Int64)))


def no_streams(profile: Profile) -> str:
    """Why there are no streams."""
    if not _has_times(profile):
        return f"this input has no start times: {how_to_record(profile, START_TIMES)}"
    return "no activity of this GPU is recorded: the session names it, and ran its work on others"


def _has_times(profile: Profile) -> bool:
    starts = profile["activities"]["start_ns"]
    return starts.len() > starts.null_count()


def bars(profile: Profile) -> list[GpuBar]:
    """For each GPU with work what its time went for."""
    rows = overlap(profile)
    several = rows["session"].n_unique() > 1
    who = labels(profile)
    return [
        GpuBar(
            f"{who[row['session']]} GPU {_number(row['device'])}" if several else f"GPU {_number(row['device'])}",
            tuple(row[name] for name in ADDED_UP),
            100 * row["busy_ns"] / row["total_span_ns"] if row["total_span_ns"] else None,
        )
        for row in rows.iter_rows(named=True)
    ]


def _number(device: int | None) -> str:
    return "?" if device is None else str(device)


def gpus_head(profile: Profile) -> Draw | None:
    """A bar a GPU, and how far apart they are."""
    drawn = bars(profile)
    if not drawn:
        return None
    busy = imbalance_pct(overlap(profile)["busy_ns"])
    said = [] if busy is None else [(f"busy times differ by {percent(busy)} of their mean", "$text-muted")]
    return lambda width, ascii_only: gpu_lines(drawn, said, width, ascii_only=ascii_only)


def ranks_head(profile: Profile) -> Draw | None:
    """A bar a GPU, who is waited for and how that was told, how far apart the ranks are."""
    if not several_ranks(profile):
        return None
    drawn, verdict, table = bars(profile), straggler_words(profile), ranks(profile)
    apart = [
        f"{title} {percent(value)}"
        for title, column in (("compute", "compute_ns"), ("exposed communication", "exposed_comm_ns"))
        if (value := imbalance_pct(table[column])) is not None
    ]
    notes = [verdict.how] if verdict.how else []
    notes += [f"ranks differ, as a share of their mean: {', '.join(apart)}"] if apart else []
    said = [(verdict.said, "bold"), *((note, "$text-muted") for note in notes)]

    def draw(width: int, ascii_only: bool) -> list[Content]:
        return gpu_lines(drawn, said, width, ascii_only=ascii_only)

    return draw


class GpusScreen(PartsScreen):
    """GPUs with their streams and what ran there; ranks with their iterations."""

    VIEW = "gpus"
    PARTS: ClassVar = (
        Part(
            "gpus",
            "GPUs",
            (
                Level(
                    "gpus",
                    GPUS,
                    lambda profile, _above: gpus(profile),
                    lambda row: f"GPU {_number(row['device'])}",
                    lambda profile: why_none(profile, DEVICES),
                    2,
                ),
                Level(
                    "streams",
                    STREAMS,
                    streams_of_gpu,
                    lambda row: f"stream {_number(row['stream'])}",
                    no_streams,
                    2,
                ),
                Level("stream_work", GPU_WORK, work_of_stream, launch_crumb, no_streams, 2),
            ),
            head=gpus_head,
        ),
        *rank_parts(ranks_head),
    )
    HELP: ClassVar = (
        "GPUs, their streams and what ran there; . goes on to ranks, iterations, ops and collectives over the ranks.\n"
        "Compute, exposed communication, exposed copies and idle add up to the span: the first that is on counts.\n"
        "Busy% is of the session's span (the dashboard's utilisation of its wall time). Who comes last is told by "
        "lengths alone, waits by clocks where they agree."
    )

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Of a GPU what its time went for; of a rank who is waited for."""
        match pane.id:
            case "gpus":
                return self._gpu(pane, row)
            case "ranks":
                verdict = straggler_words(self.profile)
                told = [("Straggler", verdict.said, verdict.how)]
                return below(
                    row_details(pane.spec, row, frame_columns=pane.frame.columns), [("Who is waited for", told)]
                )
        return super().details(pane, row)

    def _gpu(self, pane: TablePane, row: Row) -> Details:
        first = row_details(pane.spec, row, frame_columns=pane.frame.columns)
        shared = overlap(self.profile).filter(one_gpu(row))
        if shared.is_empty():
            return first
        figures = shared.row(0, named=True)

        def lines(names: tuple[str, ...]) -> list[tuple[str, str, str]]:
            return [
                (COLUMNS[name].title, whole_value(COLUMNS[name].kind, figures[name]), COLUMNS[name].help)
                for name in names
                if figures[name] is not None
            ]

        return below(
            first,
            [
                ("What its time went for, from its first start to its last end", lines(ADDED_UP)),
                ("What ran at once", lines(SHARED)),
            ],
        )
