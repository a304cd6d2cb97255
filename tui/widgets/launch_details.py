"""The launch config of one GPU activity as text: what it was, how it was launched, how much of an SM it can fill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.fitting import shorten_symbol
from tui.fmt import count, duration, percent, rate, size
from tui.model.columns import ColumnKind
from tui.model.names import short_name
from tui.widgets.details import Details, Line, sections, whole_value

if TYPE_CHECKING:
    from tui.analysis.neighbours import Neighbour
    from tui.analysis.occupancy import LaunchConfig

NAME_CELLS = 48
"""Cells that the name of a neighbour may take."""


def launch_details(config: LaunchConfig, before: Neighbour | None, after: Neighbour | None) -> Details:
    """Everything that is known of a launch, in blocks; what is unknown says why."""
    kernel = config.kind == "kernel"
    blocks = [(f"{short_name(config.name)}  {config.kind}", _what(config))]
    if kernel:
        blocks += [("Launch config", _launch(config)), ("Theoretical occupancy", _occupancy(config))]
    else:
        blocks.append(("Transfer", _transfer(config)))
    blocks.append(("Neighbours on the stream", [_neighbour("before", before), _neighbour("after", after)]))
    blocks.append(("Full name", [("", config.name, "")]))
    return sections(blocks)


def _what(config: LaunchConfig) -> list[Line]:
    where = config.device_name or ("unknown" if config.device is None else "")
    return [
        ("duration", duration(config.duration_ns), ""),
        ("start", whole_value(ColumnKind.TIME, config.start_ns), ""),
        ("device", " ".join(part for part in (_number(config.device), where) if part), ""),
        ("context, stream", f"{_number(config.context)}, {_number(config.stream)}", ""),
        ("correlation", _number(config.correlation), "" if config.correlation is not None else "the log does not say"),
        ("source line", _number(config.line), "L goes there"),
    ]


def _launch(config: LaunchConfig) -> list[Line]:
    return [
        ("grid", _shape(config.grid), f"{count(config.blocks)} blocks"),
        ("block", _shape(config.block), f"{count(config.threads_per_block)} threads, {count(config.threads)} in all"),
        ("registers", _number(config.registers), "per thread"),
        ("static shared", size(config.static_shared_bytes), "per block"),
        ("dynamic shared", size(config.dynamic_shared_bytes), "per block"),
    ]


def _occupancy(config: LaunchConfig) -> list[Line]:
    if config.occupancy_pct is None:
        return [("unknown", "", config.occupancy_reason or "")]
    lines: list[Line] = [
        ("occupancy", percent(config.occupancy_pct), "an upper bound: assumes the largest shared memory"),
        ("limited by", config.limiter or "", ""),
        ("blocks per SM", _number(config.blocks_per_sm), ""),
    ]
    lines += [
        (f"  by {name}", _number(limit) if limit is not None else "no limit", "") for name, limit in config.limits
    ]
    waves = f"{config.waves:,.2f}" if config.waves is not None else "unknown"
    lines.append(("waves", waves, f"on {config.sm_count} SMs" if config.sm_count else "the number of SMs is not known"))
    source = {"file": "the log", "table": "the name of the GPU", "option": "--gpu"}.get(config.facts_source, "")
    lines.append(("capability", config.compute_capability or "", f"from {source}" if source else ""))
    return lines


def _transfer(config: LaunchConfig) -> list[Line]:
    lines: list[Line] = [
        ("size", size(config.size_bytes), ""),
        ("rate", rate(config.throughput), "as the log prints it"),
    ]
    if config.copy_kind:
        lines.append(("direction", config.copy_kind, ""))
    if config.src_memory or config.dst_memory:
        lines.append(("memory", " to ".join(part for part in (config.src_memory, config.dst_memory) if part), ""))
    return lines


def _neighbour(label: str, neighbour: Neighbour | None) -> Line:
    if neighbour is None:
        return (label, "none", "")
    gap = (
        f"after a gap of {duration(neighbour.gap_ns)}"
        if neighbour.gap_ns is not None
        else "no gap that the log can tell"
    )
    return (label, shorten_symbol(neighbour.name, NAME_CELLS), f"{duration(neighbour.duration_ns)}, {gap}")


def _shape(shape: tuple[int, int, int] | None) -> str:
    return "({} {} {})".format(*shape) if shape is not None else "unknown"


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)
