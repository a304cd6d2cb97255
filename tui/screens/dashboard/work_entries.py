"""Lines of the panels about work: ops, kernels, kinds of work, tensor cores, copies, API calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.dashboard import ORDERS, REMAINING, GpuTimeUse, top_rows
from tui.analysis.ops.op_type_rules import UNKNOWN, classify
from tui.fmt import brief_duration, brief_rate, brief_size, count
from tui.screens.dashboard.entries import (
    Entry,
    Link,
    align_columns,
    bar_fraction,
    copies_link,
    group_link,
    name_link,
    op_link,
    tensor_cores_link,
    use_link,
)
from tui.text import plain
from tui.widgets.charts.bars import BarRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.analysis.dashboard import Dashboard

USES: Final = "T"
"""The sign of ops that use tensor cores."""
COULD: Final = "t"
"""The sign of ops that could use them and do not."""
_USE_STYLES: Final = ("tensor", "other", "unknown", "memory", "memset", "um", "whole")
KIND_BY_USE: Final[Mapping[str, str]] = dict(zip(GpuTimeUse, _USE_STYLES, strict=True))
"""The style of each use of GPU time."""
UNKNOWN_DIRECTION: Final = "unknown direction"
UNCLASSIFIED: Final = "unclassified"
UNKNOWN_CALLS: Final = "–"
"""Instead of a number of calls that is not recorded."""


def op_entries(board: Dashboard, order: str) -> list[Entry]:
    """Return the first ops in an order."""
    return _top_entries(board.ops, order, board.counted_ops, "op", op_link)


def kernel_entries(board: Dashboard, order: str) -> list[Entry]:
    """Return the first kernels in an order."""

    def link(row: dict[str, Any]) -> Link:
        return name_link("kernels", row)

    return _top_entries(board.kernels, order, "calls", "name", link)


def _top_entries(
    all_rows: pl.DataFrame,
    order: str,
    counted: str,
    label: str,
    link: Callable[[dict[str, Any]], Link],
    *,
    is_gpu_work: bool = True,
) -> list[Entry]:
    """Return lines with counts, the figure that they are sorted by, and the tensor-core symbol.

    Args:
        all_rows: The rows, largest total first.
        order: One of `ORDERS`.
        counted: The column of counts.
        label: The column of names.
        link: Returns the link of a row.
        is_gpu_work: Whether they are GPU work, whose bars have the color of its kind.
    """
    sort_column = counted if order == "calls" else order
    time_column = order if order != "calls" else "total_ns"
    rows = top_rows(all_rows, sort_column)
    if "op_type" not in rows.columns:
        types = classify(rows["name"]).select(pl.col("name").cast(rows.schema["name"]), "op_type")
        rows = rows.join(types, on="name", how="left", maintain_order="left")
    maximum = rows[sort_column].max()
    records = list(rows.iter_rows(named=True))
    figures = align_columns(
        *([[_sign(row) for row in records]] if any(map(_sign, records)) else []),
        [_times(row[counted]) for row in records],
        [brief_duration(row[time_column]) for row in records],
    )
    return [
        Entry(
            BarRow(
                f"{row[label]} {row.get('op_source', '')}",
                str(row[label]),
                bar_fraction(row[sort_column], maximum),
                figure,
                row["time_pct"],
                symbol=label == "name",
                kind=_style(row) if is_gpu_work else "",
            ),
            link(row),
            row,
        )
        for row, figure in zip(records, figures, strict=True)
    ]


def _sign(row: dict[str, Any]) -> str:
    return USES if row.get("uses_tensor_core") else COULD if row.get("tc_eligible") else ""


_STYLE_BY_TYPE: Final = {
    "communication": "communication",
    "copy": "memory",
    "memset": "memset",
    "unified memory": "um",
}


def _style(row: dict[str, Any]) -> str:
    """Return the style of the kind of work of an op or kernel."""
    op_type = str(row.get("op_type"))
    if op_type.startswith("memcpy"):
        return "memory"
    if op_type in _STYLE_BY_TYPE:
        return _STYLE_BY_TYPE[op_type]
    uses = row["uses_tensor_core"]
    return "unknown" if uses is None else "tensor" if uses else "other"


def _times(number: int | None) -> str:
    if number is None:
        return plain(UNKNOWN_CALLS)
    return f"{count(number)}{times_symbol()}"


def times_symbol() -> str:
    """Return the symbol after a count."""
    return "×"


def ops_subtitle(board: Dashboard, order: str) -> str:
    """Return the source of the ops, their unit of counting, and their order."""
    source = "recorded, GPU self time"
    if not board.ops_recorded:
        source = "inferred from kernel names"
    elif board.ops_inferred:
        source = f"recorded in {board.ops_recorded} of {board.ops_recorded + board.ops_inferred} sessions"
    return ", ".join((source, counted_subtitle(board.counted_ops, order)))


def counted_subtitle(counted: str, order: str) -> str:
    """Return the unit of counting, and the order."""
    order_text = {ORDERS[1]: f"by {counted}", ORDERS[2]: "by average"}.get(order, "")
    return ", ".join(filter(None, (f"{times_symbol()} {counted}", order_text)))


def split_entries(board: Dashboard) -> list[Entry]:
    """Return GPU time by kind of work."""
    return _parts(
        board.split,
        "group",
        lambda row: group_link(row, remainder=REMAINING),
        labels={UNKNOWN: UNCLASSIFIED},
    )


def use_entries(board: Dashboard) -> list[Entry]:
    """Return GPU time by use."""
    return _parts(board.gpu_uses, "use", lambda row: use_link(row["use"]), styles=KIND_BY_USE)


def _parts(
    rows: pl.DataFrame,
    label: str,
    link: Callable[[dict[str, Any]], Link],
    *,
    labels: Mapping[str, str] | None = None,
    styles: Mapping[str, str] | None = None,
) -> list[Entry]:
    """Return parts of a whole with distinct fills."""
    max_ns = rows["total_ns"].max()
    return [
        Entry(
            BarRow(
                row[label],
                (labels or {}).get(row[label], row[label]),
                bar_fraction(row["total_ns"], max_ns),
                brief_duration(row["total_ns"]),
                row["time_pct"],
                part=(styles or {}).get(row[label], index),
            ),
            link(row),
            row,
        )
        for index, row in enumerate(rows.iter_rows(named=True))
    ]


def tensor_core_entries(board: Dashboard) -> list[Entry]:
    """Return tensor core efficiency and share, each with the total that it is a share of."""
    use, facts = board.tensor_cores, {fact.name: fact for fact in board.performance}
    shares = (
        ("tc_efficiency_pct", "TC efficiency (DLProf)", use.eligible_using_ns, use.eligible_known_ns),
        ("tc_share_pct", "TC share (TensorBoard)", use.using_ns, use.kernel_ns - use.unknown_ns),
        ("tc_unknown_pct", "unknown", use.unknown_ns, use.kernel_ns),
    )
    recorded = [
        (*share, value) for share in shares if (value := getattr(facts.get(share[0]), "value", None)) is not None
    ]
    figures = [f"{brief_duration(part)} of {brief_duration(total)}" for _, _, part, total, _ in recorded]
    return [
        Entry(
            BarRow(name, label, value / 100, figure, value, kind="unknown" if name == "tc_unknown_pct" else "tensor"),
            tensor_cores_link("?" if name == "tc_unknown_pct" else "yes" if part else "no"),
            {"total_ns": part, "why": facts[name].source},
            name,
        )
        for (name, label, part, _total, value), figure in zip(recorded, figures, strict=True)
    ]


def tensor_core_subtitle(board: Dashboard) -> str:
    """Return why nothing is known; else the totals of the shares."""
    if board.tensor_cores.reason:
        return board.tensor_cores.reason
    return "share of eligible; of all kernel time"


def copy_entries(board: Dashboard) -> list[Entry]:
    """Return copies by direction."""
    max_ns = board.copies["total_ns"].max()
    records = list(board.copies.iter_rows(named=True))
    columns = [
        [brief_size(row["size_bytes"]) if row["size_bytes"] is not None else "" for row in records],
        [brief_duration(row["total_ns"]) for row in records],
        [brief_rate(row["throughput"]) if row["throughput"] is not None else "" for row in records],
    ]
    figures = align_columns(*(column for column in columns if any(column)))
    symbol = times_symbol()
    return [
        Entry(
            BarRow(
                f"{row['kind']} {row['copy_kind']}",
                f"{_direction(row)} {symbol}{count(row['calls'])}",
                bar_fraction(row["total_ns"], max_ns),
                figure,
                kind="um" if row["kind"] == "um" else "memory",
            ),
            copies_link(row),
            row,
        )
        for row, figure in zip(records, figures, strict=True)
    ]


def _direction(row: dict[str, Any]) -> str:
    return f"{'unified memory ' if row['kind'] == 'um' else ''}{row['copy_kind'] or UNKNOWN_DIRECTION}"


def api_entries(board: Dashboard) -> list[Entry]:
    """Return API functions by time."""
    return _top_entries(
        board.top_api, ORDERS[0], "calls", "name", lambda row: name_link("api-calls", row), is_gpu_work=False
    )
