"""All facts about one GPU activity, such as its launch configuration; the command that profiles its kernel in depth."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.activities import activity_row, activity_rows
from tui.analysis.devices import device_facts
from tui.analysis.memo import once_per_profile
from tui.analysis.needs import Tool, recording_tool
from tui.analysis.occupancy import LIMITS, occupancies
from tui.model.names import short_name
from tui.model.profile import column_view, session_rows
from tui.text import whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tui.model.profile import Profile

_AS_RECORDED: Final = (
    "session",
    "activity",
    "kind",
    "name",
    "start_ns",
    "duration_ns",
    "registers",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "shared_bytes",
    "size_bytes",
    "throughput",
    "copy_kind",
    "src_memory",
    "dst_memory",
    "device",
    "context",
    "stream",
    "correlation",
    "line",
    "occupancy_pct",
    "blocks_per_sm",
    "limiter",
    "waves",
    "full_waves",
    "tail_pct",
    "achieved_pct",
    "sm_efficiency_pct",
)


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """All facts about one GPU activity; None if not recorded.

    Fields without a description are columns of the frame ``activities`` (`tui.model.schema`) or of
    `tui.analysis.devices.device_facts`.
    """

    session: int
    activity: int
    kind: str
    name: str
    start_ns: int | None
    duration_ns: int | None
    grid: tuple[int, int, int] | None
    """Blocks in x, y and z."""
    block: tuple[int, int, int] | None
    """Threads in x, y and z."""
    blocks: int | None
    """The number of blocks in the grid."""
    threads_per_block: int | None
    """Product of ``block``."""
    threads: int | None
    """The number of threads of the launch."""
    registers: int | None
    """Per thread."""
    static_shared_bytes: int | None
    dynamic_shared_bytes: int | None
    shared_bytes: int | None
    """Both together, where the input does not distinguish them."""
    size_bytes: int | None
    throughput: float | None
    """Bytes per second, as the input has it."""
    copy_kind: str | None
    src_memory: str | None
    dst_memory: str | None
    device: int | None
    device_name: str | None
    compute_capability: str | None
    sm_count: int | None
    facts_source: str
    """The source of the compute capability: file, option, table, unknown."""
    context: int | None
    stream: int | None
    correlation: int | None
    occupancy_pct: float | None
    """Theoretical, an upper bound."""
    blocks_per_sm: int | None
    """The most blocks resident on an SM."""
    limits: tuple[tuple[str, int | None], ...]
    """The blocks on an SM that each of `LIMITS` allows; None if it does not limit or is unknown."""
    limiter: str | None
    """What limits the occupancy: one or several of `LIMITS`, joined by ``and``."""
    waves: float | None
    """Blocks of the grid / (blocks per SM x SMs)."""
    full_waves: int | None
    """How many of them are whole."""
    tail_pct: float | None
    """Share of the time that a last, partial wave takes; 0 if there is none after whole ones."""
    achieved_pct: float | None
    """Kineto's estimate of the achieved occupancy."""
    sm_efficiency_pct: float | None
    """Share of the SMs that get a block."""
    occupancy_reason: str | None
    """Why the occupancy is not known."""
    line: int | None
    """First source line."""


def launch_config(profile: Profile, activity: int) -> LaunchConfig:
    """Return all known facts about one GPU activity.

    Args:
        profile: The profile.
        activity: The number of the activity, the column ``activity``.

    Raises:
        KeyError: There is no such activity.
    """
    rows = activity_rows(profile, activity)
    facts = device_facts(profile)
    row = occupancies(rows, facts).row(0, named=True)
    device = facts.filter(
        pl.col("session") == row["session"], pl.col("device").eq_missing(pl.lit(row["device"], pl.Int32))
    ).row(0, named=True)
    grid, block = (_shape(row[f"{shape}_{axis}"] for axis in "xyz") for shape in ("grid", "block"))
    blocks = grid[0] * grid[1] * grid[2] if grid else None
    per_block = block[0] * block[1] * block[2] if block else None
    kernel = row["kind"] == "kernel"
    return LaunchConfig(
        **{column: row[column] for column in _AS_RECORDED},
        grid=grid,
        block=block,
        blocks=blocks,
        threads_per_block=per_block,
        threads=blocks * per_block if blocks is not None and per_block is not None else None,
        device_name=device["name"],
        compute_capability=device["compute_capability"],
        sm_count=device["sm_count"],
        facts_source=device["facts_source"],
        limits=tuple((name, row[f"limit_{name.split(' ')[0]}"]) for name in LIMITS),
        occupancy_reason=row["occupancy_reason"] if kernel else _NO_KERNEL.get(row["kind"], _NO_SM),
    )


_NO_SM: Final = "not applicable: this work occupies no SM"
_NO_KERNEL: Final = {
    "memcpy": "not applicable: a memcpy occupies no SM",
    "memset": "not applicable: a memset occupies no SM",
    "graph": "CUDA graph recorded as a whole; to record its kernels: nsys profile --cuda-graph-trace=node",
}
"""Why work other than kernels has no occupancy."""


def _shape(axes: Iterable[int | None]) -> tuple[int, int, int] | None:
    x, y, z = axes
    return None if x is None or y is None or z is None else (x, y, z)


PROGRAM: Final = "./app"
"""The placeholder for the program, if its command is not recorded."""

COMMAND_LIMIT: Final = 400
"""Longer command lines are replaced by the placeholder."""
NAME_LIMIT: Final = 120
"""The most characters of a name that are matched."""

MAX_CACHED_NAMES: Final = 4_096
"""The number of cached function names."""

NCU_SINCE: Final = 7
"""The first major compute capability of Nsight Compute; nvprof measures older ones."""


@dataclass(frozen=True, slots=True)
class ProfilingCommand:
    """A command, with a remark."""

    command: str | None
    """The shell command; None if no tool of NVIDIA's profiles such a launch."""
    note: str
    """What the count of launches rests on, or why there is no command."""


def profiling_command(profile: Profile, activity: int) -> ProfilingCommand:
    """Return the command that profiles the same launch in the next run of the program.

    Launches are counted as Nsight Compute does: those of the same function, whatever its template arguments, of the
    process on the device, in the order in which they were launched.

    Args:
        profile: The profile.
        activity: The number of the launch, the column ``activity``.

    Raises:
        KeyError: There is no such activity.
    """
    row = activity_row(profile, activity)
    if row["kind"] != "kernel":
        return ProfilingCommand(None, "Nsight Compute profiles only kernels")
    facts = device_facts(profile).filter(
        pl.col("session") == row["session"], pl.col("device").eq_missing(pl.lit(row["device"], pl.Int32))
    )
    facts_row = facts.row(0, named=True) if facts.height else {}
    if facts_row.get("vendor"):
        return ProfilingCommand(None, f"Nsight Compute profiles only GPUs of NVIDIA, not of {facts_row['vendor']}")
    session = profile["sessions"].filter(pl.col("session") == row["session"]).row(0, named=True)
    earlier, ordered = _launches_before(profile, row)
    function = _function(str(row["name"]))
    if not function:
        return ProfilingCommand(None, "the launch has no recorded name")
    has_several_gpus = _devices(profile).filter(pl.col("session") == row["session"]).height > 1
    program = _program(session["command"])
    capability = str(facts_row.get("compute_capability") or "")
    major = whole_number(capability.partition(".")[0])
    if major is not None and major < NCU_SINCE:
        # In nvprof's filter a colon ends the name.
        chosen = shlex.quote(f"::{function.replace(':', '.')}:{earlier + 1}")
        device = f"--devices {row['device']} " if has_several_gpus else ""
        return ProfilingCommand(
            f"nvprof {device}--kernels {chosen} --metrics all {program}",
            f"Nsight Compute does not support compute capability {capability}; {_note(session, ordered)}",
        )
    device = f"--devices {row['device']} " if has_several_gpus else ""
    name = shlex.quote(f"regex:(^|:){function}")
    command = f"ncu --set full {device}--kernel-name {name} --launch-skip {earlier} --launch-count 1 {program}"
    return ProfilingCommand(command, _note(session, ordered))


def _note(session: Mapping[str, Any], ordered: str) -> str:
    counted = f"launches are counted {ordered}"
    tool = recording_tool(session["format"], session["tool"])
    if tool in (Tool.PYTORCH, Tool.NSYS):
        return f"{counted}, from the start of the recording; add the launches before it"
    return counted


def _launches_before(profile: Profile, row: Mapping[str, Any]) -> tuple[int, str]:
    """Return the number of earlier launches of the same function on the device, and their order."""
    on_device = pl.col("device").eq_missing(pl.lit(row["device"], pl.Int32))
    work = session_rows(profile["activities"], row["session"])
    function = _function(str(row["name"]))
    names = column_view(work, "name").unique().drop_nulls()
    same = [name for name in names.cast(pl.String).to_list() if _function(name) == function]
    same_name = work.lazy().filter(
        pl.col("kind") == "kernel",
        on_device,
        pl.col("name").is_in(pl.Series(same, dtype=pl.String).cast(names.dtype).implode()),
    )
    if _devices(profile).filter(pl.col("session") == row["session"], on_device)["has_own_calls"].item():
        earlier = same_name.filter(pl.col("correlation") < row["correlation"]).select(pl.len()).collect()
        return int(earlier.item()), "in call order"
    same_launches = same_name.select("correlation", "start_ns", "activity").collect()
    if (
        same_launches["correlation"].null_count() == 0
        and same_launches["correlation"].n_unique() == same_launches.height
    ):
        return int((same_launches["correlation"] < row["correlation"]).sum()), "in call order"
    earlier_activity = same_launches["activity"] < row["activity"]
    if same_launches["start_ns"].null_count():
        return int(earlier_activity.sum()), "in input order"
    is_earlier = (same_launches["start_ns"] < row["start_ns"]) | (
        (same_launches["start_ns"] == row["start_ns"]) & earlier_activity
    )
    return int(is_earlier.sum()), "by start time on the GPU"


@once_per_profile("activities")
def _devices(profile: Profile) -> pl.DataFrame:
    """Return session, device and has_own_calls of each device: whether each call launched one kernel at most."""
    activities = profile["activities"]
    devices = activities.lazy().select("session", "device").unique().collect(engine="streaming")

    def has_own_calls(session: int, device: int | None) -> bool:
        # One device at a time: a group_by over all takes ten times the memory and five times as long.
        on_device = pl.col("device").eq_missing(pl.lit(device, pl.Int32))
        kernels = session_rows(activities, session).lazy().filter(pl.col("kind") == "kernel", on_device)
        calls = kernels.select("correlation").collect(engine="streaming")["correlation"]
        return not calls.null_count() and calls.n_unique() == calls.len()

    flags = [has_own_calls(session, device) for session, device in devices.rows()]
    return devices.with_columns(pl.Series("has_own_calls", flags, pl.Boolean))


@lru_cache(maxsize=MAX_CACHED_NAMES)
def _function(name: str) -> str:
    """Return a regular expression for the name of the function, as Nsight Compute writes it without arguments.

    >>> _function("void at::native::vectorized_elementwise_kernel<4, float>(int, float)")
    'vectorized_elementwise_kernel$'
    """
    bare = short_name(name).rpartition("::")[2].strip()
    if not bare or not re.fullmatch(r"[\w.$~-]+", bare, re.ASCII):
        bare = short_name(name).strip()
    shown = bare[:NAME_LIMIT]
    return "".join(map(_literal, shown)) + ("$" if shown == bare and shown else "")


def _literal(character: str) -> str:
    """Return a regular expression for one character of a name; special characters match any character."""
    if not character.isascii() or not character.isprintable() or character in "^\\[] ":
        return "."
    return character if character.isalnum() or character == "_" else f"[{character}]"


def _program(command: str | None) -> str:
    """Return the program's command line with every word quoted for the shell."""
    if not command or len(command) > COMMAND_LIMIT or not command.isprintable():
        return PROGRAM
    try:
        arguments = shlex.split(command)
    except ValueError:
        arguments = command.split()
    return shlex.join(arguments) if arguments else PROGRAM
