"""Coverage: how much GPU time is attributed to ops, and how much is not."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.ops.op_attribution import WITHOUT_OP, recorded_sessions, work_by_op
from tui.analysis.ops.op_type_rules import UNKNOWN
from tui.analysis.ops.ops_by_name import inferred_ops
from tui.fmt import duration, percent

if TYPE_CHECKING:
    from tui.model.profile import Profile


_GRAPH: Final = "whole CUDA graph"


@dataclass(frozen=True, slots=True)
class Coverage:
    """GPU time by how it is known what it was for; the parts add up to all of it."""

    recorded_ns: int
    """Of ops that the input records."""
    memory_ns: int
    """Copies, sets and the like of sessions that record no ops: they are recorded as what they are."""
    graph_ns: int
    """CUDA graphs of such sessions that are recorded whole: nothing tells what they do."""
    inferred_ns: int
    """Of ops that are told by the names of kernels."""
    no_op_ns: int
    """Of sessions that record ops, what none of them launched."""
    unknown_ns: int
    """Of kernels that no rule knows."""

    @property
    def total_ns(self) -> int:
        """All GPU time."""
        return sum(astuple(self))


def coverage(profile: Profile) -> Coverage:
    """How the GPU time of a profile is claimed."""
    inferred = inferred_ops(profile)
    op_type = pl.col("op_type").cast(pl.String)
    unknown, graph = op_type == UNKNOWN, op_type == _GRAPH
    recorded, no_op = pl.Series([0]), pl.Series([0])
    if len(recorded_sessions(profile)):
        work = work_by_op(profile)
        none = pl.col("why_no_op").is_in(WITHOUT_OP)
        recorded, no_op = work.filter(~none.fill_null(False))["total_ns"], work.filter(none)["total_ns"]
    told = inferred.filter(pl.col("op_source") == "inferred")
    whole = inferred.filter(pl.col("op_source") == "recorded")
    memory, graphs = whole.filter(~graph)["total_ns"], whole.filter(graph)["total_ns"]
    parts = (recorded, memory, graphs, told.filter(~unknown)["total_ns"], no_op, told.filter(unknown)["total_ns"])
    return Coverage(*(int(part.sum()) for part in parts))


def coverage_note(profile: Profile) -> str:
    """The same in words; empty where there is no GPU time.

    As ``ops inferred from the names of kernels: 1.2 ms (0.3 %) no rule knows``.
    """
    parts = coverage(profile)
    if not parts.total_ns:
        return ""

    def share(part_ns: int) -> str:
        return f"{duration(part_ns)} ({percent(100 * part_ns / parts.total_ns)} of GPU time)"

    said = []
    if parts.recorded_ns or parts.no_op_ns:
        said.append(
            f"ops recorded; {share(parts.no_op_ns)} not attributed to any op" if parts.no_op_ns else "ops recorded"
        )
    if parts.inferred_ns or parts.unknown_ns:
        rest = f"{share(parts.unknown_ns)} unclassified" if parts.unknown_ns else "all classified"
        said.append(f"ops inferred from kernel names; {rest}")
    if parts.graph_ns:
        said.append(
            f"{percent(100 * parts.graph_ns / parts.total_ns)} of GPU time is in CUDA graphs recorded as a whole"
        )
    if not said:
        said.append("only memcpy and memset")
    text = "; ".join(said)
    return text[0].upper() + text[1:]
