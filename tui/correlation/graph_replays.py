"""Attributes kernels that a CUDA or HIP graph replays to ops: those of its capture, or of the same work outside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.correlation.launches import enclosing_rows, nest
from tui.model.profile import rows_of_session
from tui.model.schema import FRAMES, NAME

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]

GRAPH_LAUNCH: Final = r"(?i)graphlaunch"
_BEGIN, _END = r"(?i)StreamBeginCapture", r"(?i)StreamEndCapture"
_NODE: Final = r"(?i)LaunchKernel|LaunchCooperativeKernel|Memcpy\w*Async|Memset\w*Async"

BY_ANNOTATION: Final = "graph node annotation"
BY_CAPTURE: Final = "graph capture"
BY_REPEAT: Final = "graph repeat (inferred)"
NO_CAPTURE: Final = "graph replay: capture not recorded"
SEVERAL: Final = "graph replay: several captures match"
"""Values of ``op_join`` for replayed kernels: how the op was found, or why there is none."""

EXPERTS: Final = ("vllm::moe_forward", "vllm::moe_forward_shared")
"""Ops that do not record the weights of their experts as arguments, but views of them: see `_weights_of_experts`."""

_NONE: Final[Mapping[int, str]] = MappingProxyType({})

_SOURCE: Final = "graph"
"""The ``op_source`` of replayed ops."""


@dataclass(frozen=True, slots=True)
class _Sequence:
    """The nodes of a graph with their ops: from its capture, or from the same work outside of a graph."""

    names: tuple[int | None, ...]
    """The kernel of each node in order, as a code of `_NameCodes`; None if the call does not name it."""
    ops: Ints
    """The row of the op of each node, or -1."""
    join: str


def has_replays(profile: Profile) -> bool:
    """Return whether a graph launched GPU work without a known op."""
    names = profile["api_calls"]["name"].unique().cast(pl.String)
    return bool(names.str.contains(GRAPH_LAUNCH).any()) and _replays(profile).height > 0


def with_replayed_ops(profile: Profile, annotations: Mapping[int, str] = _NONE) -> Profile:
    """Attribute replayed kernels to the ops, modules and shapes of their capture.

    If annotations name the nodes of a graph, the kernels of these nodes belong to an op of that name. Otherwise the
    n-th launch of a kernel in the capture is the n-th in the replay. A capture matches a replay if both have the same
    kernels equally often; if the calls of the capture do not name their kernels, both must have the same number of
    nodes, and the replay must run in one stream. Of several equal captures (parts of equal layers), the first belongs
    to the first replay of an iteration, and so on. Without a capture, the latest earlier work outside of a graph with
    the same kernels in the same order is used, which is marked as inferred.

    Each replay gets its own ops, with shapes, modules and iteration, and without CPU times. ``op_join`` gives the
    reason for kernels whose graph is unknown.

    Args:
        profile: The profile.
        annotations: Names by graph node id.
    """
    replays = _replays(profile)
    if replays.is_empty():
        return profile
    codes = _NameCodes()
    captures = [capture for session in _sessions(profile) for capture in _captures(profile, session, codes)]
    key = ["session", "correlation"]
    named = replays.filter(pl.col("graph_node").is_in(list(annotations)).fill_null(False)).select(key).unique()
    if named.is_empty():
        return _with_ops(profile, replays, _match_replays(profile, replays, captures, codes))
    others = replays.join(named, on=key, how="anti", maintain_order="left")
    found = _match_replays(profile, others, captures, codes) if others.height else []
    names = sorted(set(annotations.values()))
    first, session = profile["ops"].height, profile["sessions"].height
    row_of = {node: first + names.index(name) for node, name in annotations.items()}
    of_named = replays.join(named, on=key, how="semi", maintain_order="left")
    for _, part in of_named.group_by(key, maintain_order=True):
        ops = np.array([row_of.get(node, -1) for node in part["graph_node"].to_list()], np.int64)
        sequence = _Sequence((), ops, BY_ANNOTATION)
        found.append((part["row"].cast(pl.Int64).to_numpy(), sequence, np.arange(part.height), BY_ANNOTATION))
    # The names are ops of a separate session until each replay has copies of them.
    made = _with_ops(_with_names(profile, names, session), replays, found)
    kept = {"ops": made["ops"].filter(pl.col("session") < session), "sessions": profile["sessions"]}
    return replace(made, frames={**made.frames, **kept})


def _with_names(profile: Profile, names: Sequence[str], session: int) -> Profile:
    """Add a session that consists of ops with these names."""
    ops, schema = profile["ops"], FRAMES["ops"]
    rows = pl.DataFrame(
        {
            "session": pl.Series([session] * len(names), dtype=pl.UInt32),
            "op": pl.Series(range(ops.height, ops.height + len(names)), dtype=pl.UInt32),
            "name": pl.Series(names, dtype=pl.String).cast(NAME),
        }
    )
    of_names = rows.select(
        pl.col(name) if name in rows.columns else pl.lit(None, dtype).alias(name) for name, dtype in schema.items()
    )
    last = profile["sessions"].tail(1).with_columns(pl.lit(session, pl.UInt32).alias("session"))
    frames = {"ops": pl.concat([ops, of_names]), "sessions": pl.concat([profile["sessions"], last])}
    return replace(profile, frames={**profile.frames, **frames})


def _sessions(profile: Profile) -> list[int]:
    return profile["sessions"]["session"].to_list()


def _replays(profile: Profile) -> pl.DataFrame:
    """GPU work that graphs launched, by start: row, session, correlation, iteration, name, stream and more."""
    calls = profile["api_calls"]
    launches = (
        calls.lazy()
        .filter(pl.col("name").cast(pl.String).str.contains(GRAPH_LAUNCH), pl.col("correlation").is_not_null())
        .select("session", "correlation")
        .unique()
        .collect()
    )
    if launches.is_empty():
        return launches.with_columns(row=pl.lit(0)).clear()
    return (
        profile["activities"]
        .select("session", "correlation", "iteration", "kind", "name", "start_ns", "stream", "op_join", "graph_node")
        .with_row_index("row")
        .filter(pl.col("start_ns").is_not_null(), pl.col("kind") != "graph")
        .filter(~pl.col("op_join").cast(pl.String).is_in([BY_ANNOTATION, BY_CAPTURE, BY_REPEAT]).fill_null(False))
        .join(launches, on=["session", "correlation"], how="semi")
        .sort("session", "start_ns", maintain_order=True)
    )


class _NameCodes:
    """Assigns numbers to names."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def of(self, names: pl.Series) -> list[int | None]:
        texts = names.cast(pl.String).unique().to_list()
        own = {text: None if text is None else self._known.setdefault(text, len(self._known)) for text in texts}
        return [own[text] for text in names.cast(pl.String).to_list()]


def _captures(profile: Profile, session: int, codes: _NameCodes) -> list[_Sequence]:
    """Return the graphs that were captured in a session, in order."""
    calls = rows_of_session(profile["api_calls"], session).drop_nulls("start_ns")
    name = pl.col("name").cast(pl.String)
    marks = calls.filter(name.str.contains(_BEGIN) | name.str.contains(_END)).sort("start_ns")
    if marks.is_empty():
        return []
    ran = rows_of_session(profile["activities"], session)["correlation"].drop_nulls().unique()
    nodes = calls.filter(
        name.str.contains(_NODE), ~name.str.contains(GRAPH_LAUNCH), ~pl.col("correlation").is_in(ran.implode())
    ).sort("start_ns", maintain_order=True)
    ops = profile["ops"].with_row_index("row").filter(pl.col("session") == session)
    ops = ops.drop_nulls(["start_ns", "duration_ns"])
    around = np.full(nodes.height, -1, np.int64)
    if ops.height:
        at = enclosing_rows(nest(ops), nodes["pid"], nodes["tid"], nodes["start_ns"])
        around = ops["row"].gather(at).cast(pl.Int64).fill_null(-1).to_numpy()
    starts = nodes["start_ns"].to_numpy()
    kernels = codes.of(nodes["kernel"])
    found = []
    begin: int | None = None
    for mark, at_ns in marks.select(name.str.contains(_BEGIN), "start_ns").iter_rows():
        if mark:
            begin = at_ns
        elif begin is not None:
            first, end = np.searchsorted(starts, [begin, at_ns]).tolist()
            if end > first:
                found.append(_Sequence(tuple(kernels[first:end]), around[first:end], BY_CAPTURE))
            begin = None
    return found


def _match_replays(
    profile: Profile, replays: pl.DataFrame, captures: list[_Sequence], codes: _NameCodes
) -> list[tuple[Ints, _Sequence | None, Ints, str]]:
    """Return for each replay its rows in ``activities``, the sequence, the node of each row, and the ``op_join``."""
    names = replays.with_columns(pl.Series("code", codes.of(replays["name"]), dtype=pl.Int64))
    groups = names.group_by("session", "correlation", maintain_order=True).agg(
        "row", "code", pl.col("iteration").first(), pl.col("stream").n_unique().alias("streams")
    )
    fitting: dict[tuple[object, ...], list[_Sequence]] = {}
    keys: list[tuple[object, ...]] = []
    for row in groups.iter_rows(named=True):
        key: tuple[object, ...] = (row["session"], row["streams"] == 1, tuple(row["code"]))
        keys.append(key)
        if key not in fitting:
            own = [capture for capture in captures if _fits(capture, row["code"], one_stream=row["streams"] == 1)]
            fitting[key] = own or _same_work_outside_graph(profile, row["session"], row["row"], row["code"], codes)
    turn: Counter[tuple[tuple[object, ...], int | None]] = Counter()
    rounds = Counter(zip(keys, groups["iteration"], strict=True))
    found: list[tuple[Ints, _Sequence | None, Ints, str]] = []
    for group, row in zip(keys, groups.iter_rows(named=True), strict=True):
        own, rows = fitting[group], np.array(row["row"], np.int64)
        of = (group, row["iteration"])
        if not own:
            found.append((rows, None, rows, NO_CAPTURE))
        elif rounds[of] % len(own):
            found.append((rows, None, rows, SEVERAL))
        else:
            sequence = own[turn[of] % len(own)]
            turn[of] += 1
            found.append((rows, sequence, _nodes(sequence, row["code"]), sequence.join))
    return found


def _fits(capture: _Sequence, names: list[int], *, one_stream: bool) -> bool:
    """Return whether a replay matches a capture."""
    if len(capture.names) != len(names):
        return False
    # Copies and memsets have no kernel; their names differ in the replay.
    known = Counter(name for name in capture.names if name is not None)
    if not known:
        return one_stream
    unnamed = len(names) - known.total()
    return not known - Counter(names) and (Counter(names) - known).total() == unnamed


def _nodes(sequence: _Sequence, names: list[int]) -> Ints:
    """Return the node of each kernel of a replay: the n-th with a name is the n-th with that name in the capture."""
    positions: dict[int | None, list[int]] = {}
    for position, name in enumerate(sequence.names):
        positions.setdefault(name, []).append(position)
    turn: Counter[int | None] = Counter()
    found = []
    for name in names:
        of = name if name in positions else None
        found.append(positions[of][turn[of]])
        turn[of] += 1
    return np.array(found, np.int64)


def _same_work_outside_graph(
    profile: Profile, session: int, rows: list[int], names: list[int], codes: _NameCodes
) -> list[_Sequence]:
    """Return the latest earlier work outside a graph with the same kernels in the same order and known ops."""
    activities = profile["activities"]
    first = activities["start_ns"][rows[0]]
    before = (
        activities.select("session", "stream", "start_ns", "name", "op", "op_join")
        .filter(pl.col("session") == session, pl.col("start_ns") < first, pl.col("op").is_not_null())
        .filter(pl.col("op_join").cast(pl.String).is_in(["launch", "external id", "recorded"]))
        .sort("start_ns")
    )
    graph_ops = activities["op"].gather(rows).drop_nulls().unique()
    before = before.filter(~pl.col("op").is_in(graph_ops.implode()))
    for _, part in before.group_by("stream", maintain_order=True):
        own = np.array(codes.of(part["name"]), np.int64)
        wanted = np.array(names, np.int64)
        if len(own) < len(wanted):
            continue
        starts = np.flatnonzero(own[: len(own) - len(wanted) + 1] == wanted[0])
        for start in starts[::-1].tolist():
            if (own[start : start + len(wanted)] == wanted).all():
                ops = part["op"][start : start + len(wanted)].cast(pl.Int64).to_numpy()
                return [_Sequence(tuple(names), ops, BY_REPEAT)]
    return []


def _with_ops(
    profile: Profile, replays: pl.DataFrame, found: list[tuple[Ints, _Sequence | None, Ints, str]]
) -> Profile:
    """Add the ops of matched replays, and the reasons for the others."""
    activities, ops = profile["activities"], profile["ops"]
    parent = ops["parent"].cast(pl.Int64).fill_null(-1).to_numpy()
    of_row = dict(replays.select("row", "session").iter_rows())
    iterations = activities["iteration"]
    new_source, new_session, new_iteration, new_parent = [], [], [], []
    op = activities["op"].cast(pl.Int64).fill_null(-1).to_numpy().copy()
    has_join = activities["op_join"].is_not_null().to_numpy()
    joined_rows: list[Ints] = []
    joins: list[str] = []
    above: dict[int, tuple[Ints, Ints, Ints]] = {}
    height, weights = ops.height, _weights_of_experts(ops)
    for rows, sequence, nodes, join in found:
        if sequence is None:
            # Without recorded ops, no work gets a reason.
            joined_rows.append(rows[(op[rows] < 0) & has_join[rows]])
            joins += [join] * len(joined_rows[-1])
            continue
        if id(sequence) not in above:
            above[id(sequence)] = _with_parents(sequence.ops, parent, weights)
        source, own_parent, position = above[id(sequence)]
        at = position[nodes]
        known = at >= 0
        op[rows[known]] = height + at[known]
        joined_rows.append(rows[known])
        joins += [join] * int(known.sum())
        new_source.append(source)
        new_parent.append(np.where(own_parent < 0, -1, own_parent + height))
        new_session.append(np.full(len(source), of_row[int(rows[0])], np.int64))
        new_iteration += [iterations[int(rows[0])]] * len(source)
        height += len(source)
    frames = dict(profile.frames)
    if new_source:
        copied = pl.Series(np.concatenate(new_source), dtype=pl.UInt32)
        unknown = ("op_id", "start_ns", "duration_ns", "pid", "tid", "forward", "line")
        replayed = ops[copied].with_columns(
            pl.Series("session", np.concatenate(new_session), dtype=pl.UInt32),
            pl.Series("parent", np.concatenate(new_parent), dtype=pl.Int64),
            pl.Series("iteration", new_iteration, dtype=pl.Int32),
            pl.lit(_SOURCE, NAME).alias("op_source"),
            *(pl.lit(None, FRAMES["ops"][name]).alias(name) for name in unknown),
        )
        frames["ops"], number = _append_ops(ops, replayed, in_sessions=profile["sessions"].height > 1)
        op = number[op]
    numbers = pl.Series("op", op)
    op_join = activities["op_join"].cast(pl.String).scatter(np.concatenate(joined_rows), joins)
    frames["activities"] = activities.with_columns(
        numbers.set(numbers < 0, None).cast(pl.UInt32), op_join.cast(NAME).alias("op_join")
    )
    return replace(profile, frames=frames)


def _append_ops(ops: pl.DataFrame, more: pl.DataFrame, *, in_sessions: bool) -> tuple[pl.DataFrame, Ints]:
    """Append ops, whose parents are row numbers of the result before it is sorted.

    Args:
        ops: The recorded ops.
        more: The ops to append.
        in_sessions: Whether there are several sessions; the ops of each must be consecutive.

    Returns:
        The ops, whose numbers are their rows; and their numbers by former row, the last entry -1 for none.
    """
    whole = pl.concat([ops.with_columns(pl.col("parent").cast(pl.Int64)), more]).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("op"),
        pl.col("parent").fill_null(-1),
        pl.col("forward").cast(pl.Int64).fill_null(-1),
    )
    number = np.append(np.arange(whole.height), -1)
    if in_sessions:
        order = np.argsort(whole["session"].to_numpy(), kind="stable")
        number[order] = np.arange(len(order))
        whole = whole[order].with_columns(
            pl.Series("op", np.arange(len(order))),
            pl.Series("parent", number[whole["parent"].to_numpy()[order]]),
            pl.Series("forward", number[whole["forward"].to_numpy()[order]]),
        )
    links = (pl.when(pl.col(name) >= 0).then(name).cast(pl.UInt32).alias(name) for name in ("parent", "forward"))
    return whole.with_columns(pl.col("op").cast(pl.UInt32), *links), number


def _weights_of_experts(ops: pl.DataFrame) -> Ints:
    """Return the rows of the views in ops over experts that have one matrix for each expert: they record its sizes."""
    outer = ops.filter(pl.col("name").cast(pl.String).is_in(EXPERTS))
    if outer.is_empty():
        return np.zeros(0, np.int64)
    shapes = pl.col("input_shapes").cast(pl.String)
    experts = shapes.str.extract(r"^\[\[[0-9]+, [0-9]+\], \[[0-9]+, ([0-9]+)\]").alias("experts")
    views = ops.select("name", "parent", shapes.str.extract(r"^\[\[([0-9]+), [0-9]+, [0-9]+\]").alias("experts"))
    return (
        views.with_row_index("row")
        .filter(pl.col("name").cast(pl.String) == "aten::view")
        .join(outer.select(pl.col("op").alias("parent"), experts), on=["parent", "experts"], how="semi")["row"]
        .cast(pl.Int64)
        .to_numpy()
    )


def _with_parents(ops: Ints, parent: Ints, weights: Ints) -> tuple[Ints, Ints, Ints]:
    """Ops, ancestors and the weights in these: their rows, the index of each parent, that of the op of each node."""
    wanted = np.unique(ops[ops >= 0])
    while len(more := np.setdiff1d(parent[wanted][parent[wanted] >= 0], wanted)):
        wanted = np.union1d(wanted, more)
    wanted = np.union1d(wanted, weights[np.isin(parent[weights], wanted)])
    above = parent[wanted]
    positions = np.where(above >= 0, np.searchsorted(wanted, above), -1)
    return wanted, positions, np.where(ops >= 0, np.searchsorted(wanted, ops), -1)
