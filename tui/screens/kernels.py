"""Kernels: every kernel and memory operation by name, its launches, and the configuration of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import polars as pl

from tui.analysis.activities import ACTIVITY_TABLE
from tui.analysis.capabilities import missing_data_text, recording_advice
from tui.analysis.durations import duration_spread, variants
from tui.analysis.gpu_time.overlap import estimated_savings
from tui.analysis.hardware_metrics import measured_metrics
from tui.analysis.kernels import LAUNCHES, kernels, launches
from tui.analysis.launch_calls import launch_origin, neighbors
from tui.analysis.launch_config import launch_config, profiling_command
from tui.analysis.needs import GPU_WORK, START_TIMES
from tui.analysis.occupancy import advice_for
from tui.analysis.roofline import has_rates, kernels_with_rates_spec, missing_rates_reason
from tui.fmt import count, duration, metric, percent, rate, size
from tui.model.columns import COLUMNS, ColumnKind
from tui.model.names import short_name
from tui.query.facts import magnitude
from tui.screens.base import ViewScreen
from tui.screens.linked_tables import Level, LinkedTables, Row, registered_level
from tui.text import plural
from tui.text_width import clip, shorten_symbol
from tui.widgets.charts.bars import histogram_line
from tui.widgets.details import (
    Details,
    Line,
    advice_lines,
    full_value,
    gain_lines,
    next_lines,
    row_details,
    sections,
    sentence_case,
    slow_lines,
    variant_lines,
    with_blocks,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tui.analysis.gpu_time.overlap import Saving
    from tui.analysis.hardware_metrics import MeasuredLaunch
    from tui.analysis.launch_calls import LaunchOrigin, Neighbor
    from tui.analysis.launch_config import LaunchConfig, ProfilingCommand
    from tui.analysis.needs import Need
    from tui.analysis.occupancy import OccupancyAdvice
    from tui.model.profile import Profile
    from tui.widgets.details import Details, Line
    from tui.widgets.table.pane import TablePane


NAME_CELLS = 48
"""The maximum width of the name of a neighbor."""
ARGUMENTS = "Arguments"
ARGUMENT_CELLS = 24
"""The maximum width of the name of an argument."""


def launch_details(
    config: LaunchConfig,
    origin: LaunchOrigin,
    previous: Neighbor | None,
    following: Neighbor | None,
    measured: MeasuredLaunch | None = None,
    *,
    has_log: bool = True,
    advice: Sequence[OccupancyAdvice] = (),
    gains: Sequence[Saving] = (),
    profiling: ProfilingCommand | None = None,
    largest_start_ns: float | None = None,
) -> Details:
    """Return all known facts about a launch in blocks; unknown ones with the reason.

    Args:
        config: The activity with its launch configuration.
        origin: Its call, op and iteration.
        previous: The previous work on its stream.
        following: The next work.
        measured: Metrics of Nsight Compute for such launches.
        has_log: Whether the Log view has its line.
        advice: Changes that would raise its occupancy.
        gains: The time saved without it.
        profiling: The command that profiles it in depth.
        largest_start_ns: The latest start in its table, which decides the unit of start times.
    """
    blocks = [(f"{short_name(config.name)}  {config.kind}", _launch_lines(config, largest_start_ns))]
    # The launch comes first: on a small screen the rest is below the edge.
    if config.kind == "kernel":
        blocks.append(("Launch config", _configuration_lines(config)))
    elif config.kind == "graph":
        blocks.append(("CUDA graph", [("kernels", "unknown", config.occupancy_reason or "")]))
    else:
        blocks.append(("Transfer", _transfer(config)))
    if config.kind == "kernel":
        blocks += [
            ("Theoretical occupancy", _occupancy(config)),
            ("To raise the occupancy", advice_lines(advice, config.waves)),
        ]
    blocks.append(("Launched by", [*_origin(origin, largest_start_ns), *_record(config, has_log=has_log)]))
    if config.kind == "kernel":
        blocks.append(("Tensor cores", _tensor_cores(origin)))
    if measured is not None:
        blocks.append(("Measured by Nsight Compute", _measured(measured)))
    if origin.arguments:
        blocks.append((ARGUMENTS, _arguments(origin.arguments)))
    blocks.append(("Estimated savings", gain_lines(gains)))
    if config.kind == "kernel":
        blocks.append(("Profile with Nsight Compute", next_lines(profiling)))
    blocks.append(("Neighbors on the stream", [_neighbor("before", previous), _neighbor("after", following)]))
    blocks.append(("Full name", [("", config.name, "")]))
    return sections((title, lines if title == ARGUMENTS else sentence_case(lines)) for title, lines in blocks)


def _launch_lines(config: LaunchConfig, largest_start_ns: float | None) -> list[Line]:
    device_name = config.device_name or ("unknown" if config.device is None else "")
    return [
        ("duration", duration(config.duration_ns), ""),
        ("start", full_value(ColumnKind.TIME, config.start_ns, largest=largest_start_ns), ""),
        ("device", " ".join(part for part in (_number(config.device), device_name) if part), ""),
        ("context, stream", f"{_number(config.context)}, {_number(config.stream)}", ""),
    ]


def _record(config: LaunchConfig, *, has_log: bool) -> list[Line]:
    """Return where the launch is in the input."""
    note = "not recorded" if config.line is None else "L goes there" if has_log else ""
    return [
        (
            "correlation",
            _number(config.correlation),
            "" if config.correlation is not None else "not recorded",
        ),
        ("input line", _number(config.line), note),
    ]


def _origin(origin: LaunchOrigin, largest_start_ns: float | None) -> list[Line]:
    """Return the call, the op and the iteration, as far as they are recorded."""
    lines: list[Line] = []
    if origin.call is not None:
        thread = ", ".join(
            f"{kind} {number}"
            for kind, number in (("process", origin.pid), ("thread", origin.tid))
            if number is not None
        )
        lines += [
            ("call", origin.call, thread),
            (
                "call took",
                duration(origin.call_duration_ns),
                f"at {full_value(ColumnKind.TIME, origin.call_start_ns, largest=largest_start_ns)}",
            ),
        ]
        if origin.delay_ns is not None:
            lines.append(("delay", duration(origin.delay_ns), "from the start of the call to the start on the GPU"))
    elif origin.call_reason:
        lines.append(("call", "unknown", origin.call_reason))
    if origin.op is not None:
        join_notes = {"launch": "launched within it", "external id": "by the profiler's id of the op"}
        lines.append(("op", origin.op, join_notes.get(origin.op_join or "", "as recorded")))
        if origin.op_path:
            lines.append(("op within", origin.op_path.replace("/", " / "), ""))
        if origin.input_shapes:
            lines.append(("input shapes", origin.input_shapes, ""))
    elif origin.op_join is not None:
        lines.append(("op", "none", origin.op_join))
    if origin.iteration is not None:
        lines.append(("iteration", str(origin.iteration), ""))
    if origin.graph_node is not None:
        lines.append(("graph node", str(origin.graph_node), "of the CUDA graph"))
    return lines


def _tensor_cores(origin: LaunchOrigin) -> list[Line]:
    """Return the verdict on tensor cores and its source."""
    verdict = {True: "yes", False: "no", None: "unknown"}[origin.uses_tensor_core]
    return [("used", verdict, origin.tensor_core_reason or "")]


def _measured(measured: MeasuredLaunch) -> list[Line]:
    lines: list[Line] = [(label, metric(value, unit), "") for label, value, unit in measured.values]
    launches = f"{plural(measured.launches, 'launch', 'launches')} of this grid and block"
    remark = "" if measured.exact_name else ", for a kernel with the same short name"
    lines.append(("measured on", f"{launches}{remark}", "the mean" if measured.launches > 1 else ""))
    lines.append(("in file", measured.source.rsplit("/", 1)[-1], f"session {measured.session}"))
    if measured.others:
        lines.append(("more", plural(measured.others, "metric"), "in the view Metrics"))
    return lines


def _arguments(arguments: str) -> list[Line]:
    """Return one line for each ``name: value``."""
    lines: list[Line] = []
    for part in arguments.split("; "):
        name, colon, value = part.partition(": ")
        lines.append((clip(name, ARGUMENT_CELLS), value, "") if colon else ("", part, ""))
    return lines


def _configuration_lines(config: LaunchConfig) -> list[Line]:
    return [
        ("grid", _shape(config.grid), _count_text(config.blocks, "block")),
        (
            "block",
            _shape(config.block),
            f"{_count_text(config.threads_per_block, 'thread')}, {count(config.threads)} in all",
        ),
        ("registers", _number(config.registers), "per thread"),
        *_shared(config),
    ]


def _shared(config: LaunchConfig) -> list[Line]:
    """Return static and dynamic shared memory, or their sum if the input does not distinguish them."""
    if config.shared_bytes is not None and config.static_shared_bytes is None:
        return [("shared", size(config.shared_bytes), "per block, static and dynamic together")]
    return [
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
    lines.append(("waves", waves, f"on {config.sm_count} SMs" if config.sm_count else "the number of SMs is unknown"))
    if config.tail_pct:
        full = f"{_count_text(config.full_waves, 'full wave')} and a partial wave"
        lines.append(
            ("tail", percent(config.tail_pct), f"of its time, if the last wave takes as long as a full wave: {full}")
        )
    if config.achieved_pct is not None:
        lines.append(
            ("est. achieved", percent(config.achieved_pct), "by the blocks of this grid, as Kineto estimates it")
        )
    if config.sm_efficiency_pct is not None and config.sm_efficiency_pct < 100:
        lines.append(("SMs used", percent(config.sm_efficiency_pct), "the other SMs get no block"))
    source = {"file": "the input", "table": "the name of the GPU", "option": "--gpu"}.get(config.facts_source, "")
    lines.append(("capability", config.compute_capability or "", f"from {source}" if source else ""))
    return lines


def _transfer(config: LaunchConfig) -> list[Line]:
    lines: list[Line] = [
        ("size", size(config.size_bytes), ""),
        ("rate", rate(config.throughput), "as recorded, else size / duration"),
    ]
    if config.copy_kind:
        lines.append(("direction", config.copy_kind, ""))
    if config.src_memory or config.dst_memory:
        lines.append(("memory", " to ".join(part for part in (config.src_memory, config.dst_memory) if part), ""))
    return lines


def _neighbor(label: str, neighbor: Neighbor | None) -> Line:
    if neighbor is None:
        return (label, "none", "")
    gap = f"after a gap of {duration(neighbor.gap_ns)}" if neighbor.gap_ns is not None else "gap not recorded"
    return (label, shorten_symbol(neighbor.name, NAME_CELLS), f"{duration(neighbor.duration_ns)}, {gap}")


def _count_text(number: int | None, singular: str) -> str:
    """Format a number of things."""
    return f"{count(number)} {singular}{'' if number == 1 else 's'}"


def _shape(shape: tuple[int, int, int] | None) -> str:
    return "({} {} {})".format(*shape) if shape is not None else "unknown"


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def details_of_launch(screen: ViewScreen, activity: int, table: pl.DataFrame | None = None) -> Details:
    """Return all known facts about a launch.

    Args:
        screen: The view.
        activity: Its number, the column ``activity``.
        table: The rows of the table that lists it, which decide the unit of its start.
    """
    profile = screen.profile
    config = launch_config(profile, activity)
    # Metrics may belong to a session that is not shown.
    measured = measured_metrics(screen.explorer.profile_session.whole_profile or profile, activity)
    return launch_details(
        config,
        launch_origin(profile, activity),
        *neighbors(profile, activity),
        measured,
        has_log=bool(profile.texts),
        advice=advice_for(config),
        gains=estimated_savings(profile, pl.Series([activity], dtype=pl.UInt32)),
        profiling=profiling_command(profile, activity),
        largest_start_ns=magnitude(table, COLUMNS["start_ns"]) if table is not None else None,
    )


SPREAD_CELLS: Final = 56
"""The width of the distribution of durations."""


def launches_of_kernel(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the launches of the selected kernel; none if no kernel is selected."""
    row = selected.get("kernels")
    if row is None:
        return launches(profile, session=-1, name="", kind="")
    return launches(profile, session=row["session"], name=row["name"], kind=row["kind"])


def no_launches(profile: Profile) -> str:
    """Return why there are no launches to show."""
    if kernels(profile).is_empty():
        return no_kernels(profile)
    subject = "input" if profile["activities"].is_empty() else "session"
    return f"this {subject} has totals, not launches: {recording_advice(profile, START_TIMES)}"


def no_kernels(profile: Profile) -> str:
    """Return why there are no kernels to show."""
    if profile["api_calls"].height or "api" in profile["summary"]["section"].cast(str).unique().to_list():
        return "this input has only API calls, no kernels: press 0"
    return missing_data_text(profile, GPU_WORK)


KERNEL_LEVEL = Level(
    "kernels", *registered_level("kernels"), lambda row: kernel_crumb(row), no_kernels, 2, kernels_with_rates_spec
)


def launch_crumb(row: Row) -> str:
    """Return a launch for the path."""
    return f"launch {row['activity']}"


def why_spread_unknown(profile: Profile, need: Need) -> list[tuple[str, list[Line]]]:
    """Return why the distribution of durations is unknown, and what records it.

    Args:
        profile: The profile.
        need: The need for single launches or calls.
    """
    line = ("p50, p90, p99, Std", "unknown: only totals are recorded", recording_advice(profile, need))
    return [("Unknown", [line])]


LAUNCH_LEVEL = Level("launches", LAUNCHES, launches_of_kernel, launch_crumb, no_launches, 2)


def kernel_crumb(row: Row) -> str:
    """Return the name of a row, shortened for the path."""
    return shorten_symbol(short_name(str(row["name"])).rpartition("::")[2], 32)


def work_details(view: ViewScreen, pane: TablePane, row: dict[str, Any]) -> Details:
    """Return the launch configuration of GPU work; for other rows their values."""
    if pane.spec is ACTIVITY_TABLE or pane.id == "launches":
        return details_of_launch(view, row["activity"], pane.frame)
    return row_details(pane.spec, row, frame=pane.frame)


def kernel_details(view: ViewScreen, pane: TablePane, row: Row, rows: pl.DataFrame) -> Details:
    """Return the values of a kernel, the distribution of its durations, and the common facts of its launches.

    Args:
        view: The view that shows it.
        pane: Its table.
        row: The kernel.
        rows: Its launches.
    """
    profile = view.profile
    extra_lines = [*_distribution(rows), *_roofline(profile, row, rows)]
    row_part = row_details(pane.spec, row, frame=pane.frame, extra_lines=extra_lines)
    if rows.is_empty():
        return with_blocks(row_part, why_spread_unknown(profile, START_TIMES))
    spread = duration_spread(rows)
    blocks = [
        ("Slow launches", slow_lines(spread)),
        ("Variants with most time", variant_lines(variants(profile, rows))),
        ("Estimated savings", gain_lines(estimated_savings(profile, rows["activity"]))),
    ]
    if row["kind"] == "kernel" and spread is not None:
        # A typical launch.
        typical = rows.drop_nulls("duration_ns").sort((pl.col("duration_ns") - spread.median_ns).abs(), "activity")
        profiling = profiling_command(profile, typical["activity"][0])
        blocks.append(("To profile a typical launch in depth", next_lines(profiling)))
    return with_blocks(row_part, [(title, sentence_case(lines)) for title, lines in blocks])


def _roofline(profile: Profile, row: Row, rows: pl.DataFrame) -> list[Line]:
    """Return why FLOPs and bytes of a kernel are unknown, if those of others are known."""
    if row.get("tb_per_s") is not None or rows.is_empty() or not has_rates(profile):
        return []
    return [("Roofline", "unknown", missing_rates_reason(profile, rows["activity"][0]))]


def _distribution(rows: pl.DataFrame) -> list[Line]:
    """Return the distribution of a kernel's durations; empty if its launches are unknown."""
    durations = rows["duration_ns"]
    if durations.len() < 2:
        return []
    histogram = histogram_line(durations, SPREAD_CELLS)
    are_different = durations.drop_nulls().n_unique() > 1
    return [
        ("Durations", histogram, "of its launches, on a logarithmic scale" if are_different else "each of its launches")
    ]


class KernelsScreen(ViewScreen):
    """Kernels, and the launches of the kernel under the cursor."""

    VIEW = "kernels"
    HELP: ClassVar = (
        "Kernels, copies and memsets by name; below, the launches of the selected row.\nTime% is the share of the "
        "session's GPU time. Work of different streams can overlap.\nenter on a launch shows its configuration and "
        "theoretical occupancy; L shows its line in a log."
    )

    LEVELS: ClassVar = (KERNEL_LEVEL, LAUNCH_LEVEL)

    def make_body(self) -> LinkedTables:
        """Return the tables of kernels and launches."""
        return LinkedTables(self.LEVELS)

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the launch configuration of a launch; for a kernel its values and distribution."""
        if pane.id != "kernels":
            return work_details(self, pane, row)
        rows_below = self.query_one(LinkedTables).rows_below("kernels", row)
        rows = launches_of_kernel(self.profile, {"kernels": row}) if rows_below is None else rows_below
        return kernel_details(self, pane, row, rows)
