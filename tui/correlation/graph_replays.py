"""Attributes kernels that a CUDA or HIP graph replays to ops: those of its capture, or of the same work outside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.correlation.launches import enclosing_rows, nest
from tui.model.profile import session_rows
from tui.model.schema import FRAMES, NAME
from tui.text import map_distinct, matching

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

_NO_ANNOTATIONS: Final[Mapping[int, str]] = MappingProxyType({})

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
    """The ``op_join`` of replays of this graph."""


@dataclass(frozen=True, slots=True)
class _Match:
    """What is known about the graph of one replay."""

    rows: Ints
    """The rows of the replay in ``activities``."""
    join: str
    """The ``op_join`` of these rows."""
    sequence: _Sequence | None = None
    """The graph; None if it is unknown."""
    nodes: Ints | None = None
    """The node of each row."""


def has_replays(profile: Profile) -> bool:
    """Return whether a graph launched GPU work without a known op."""
    return matching(profile["api_calls"]["name"], GRAPH_LAUNCH).any() and _replays(profile).height > 0


def link_replayed_ops(profile: Profile, annotations: Mapping[int, str] = _NO_ANNOTATIONS) -> Profile:
    """Attribute replayed kernels to the ops, modules and shapes of their capture.

    If annotations name the nodes of a graph, the kernels of these nodes belong to an op of that name. Otherwise the
    n-th launch of a kernel in the capture is the n-th in the replay. A capture matches a replay if both have the same
    kernels equally often; if the calls of the capture do not name their kernels, both must have the same number of
    nodes, and the replay must run in one stream. A capture of the same session goes before one of the same rank, and
    this before one of any other session. Of several equal captures (parts of equal layers), the first belongs to the
    first replay of an iteration, and so on. Without a capture, the latest earlier work outside of a graph with the same
    kernels in the same order is used, which is marked as inferred.

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
    captures = {session: _captures(profile, session, codes) for session in profile["sessions"]["session"]}
    launch_key = ["session", "correlation"]
    annotated = (
        replays.filter(pl.col("graph_node").is_in(list(annotations)).fill_null(False)).select(launch_key).unique()
    )
    if annotated.is_empty():
        return _add_ops(profile, _match_replays(profile, replays, captures, codes))
    unannotated = replays.join(annotated, on=launch_key, how="anti", maintain_order="left")
    matches = _match_replays(profile, unannotated, captures, codes) if unannotated.height else []
    names = sorted(set(annotations.values()))
    first_op, session = profile["ops"].height, profile["sessions"].height
    op_by_name = {name: first_op + number for number, name in enumerate(names)}
    op_by_node = {node: op_by_name[name] for node, name in annotations.items()}
    annotated_replays = replays.join(annotated, on=launch_key, how="semi", maintain_order="left").with_columns(
        op=pl.col("graph_node").replace_strict(op_by_node, default=-1, return_dtype=pl.Int64)
    )
    for _, part in annotated_replays.group_by(launch_key, maintain_order=True):
        sequence = _Sequence((), part["op"].to_numpy(), BY_ANNOTATION)
        matches.append(_Match(part["row"].to_numpy(), BY_ANNOTATION, sequence, np.arange(part.height)))
    # The names are ops of a separate session until each replay has copies of them.
    linked = _add_ops(_add_named_session(profile, names, session), matches)
    original = {"ops": linked["ops"].filter(pl.col("session") < session), "sessions": profile["sessions"]}
    return replace(linked, frames={**linked.frames, **original})


def _add_named_session(profile: Profile, names: Sequence[str], session: int) -> Profile:
    """Add a session that consists of ops with these names."""
    ops, schema = profile["ops"], FRAMES["ops"]
    rows = pl.DataFrame(
        {
            "session": pl.Series([session] * len(names), dtype=pl.UInt32),
            "op": pl.Series(range(ops.height, ops.height + len(names)), dtype=pl.UInt32),
            "name": pl.Series(names, dtype=pl.String).cast(NAME),
        }
    )
    named_ops = rows.select(
        pl.col(name) if name in rows.columns else pl.lit(None, dtype).alias(name) for name, dtype in schema.items()
    )
    last = profile["sessions"].tail(1).with_columns(pl.lit(session, pl.UInt32).alias("session"))
    frames = {"ops": pl.concat([ops, named_ops]), "sessions": pl.concat([profile["sessions"], last])}
    return replace(profile, frames={**profile.frames, **frames})


def _replays(profile: Profile) -> pl.DataFrame:
    """GPU work that graphs launched, by start: row, session, correlation, iteration, name, stream and more."""
    calls = profile["api_calls"]
    launches = (
        calls.filter(matching(calls["name"], GRAPH_LAUNCH)).select("session", "correlation").drop_nulls().unique()
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
        self._codes: dict[str, int] = {}

    def codes(self, names: pl.Series) -> pl.Series:
        """Return the number of each name; null for null."""
        return map_distinct(names, lambda name: self._codes.setdefault(name, len(self._codes)), pl.Int64())


def _captures(profile: Profile, session: int, codes: _NameCodes) -> list[_Sequence]:
    """Return the graphs that were captured in a session, in order."""
    calls = session_rows(profile["api_calls"], session).drop_nulls("start_ns")
    is_begin, is_end = matching(calls["name"], _BEGIN), matching(calls["name"], _END)
    marks = calls.select("start_ns", is_begin.alias("is_begin")).filter(is_begin | is_end).sort("start_ns")
    if marks.is_empty():
        return []
    executed = session_rows(profile["activities"], session)["correlation"].drop_nulls().unique()
    is_node = matching(calls["name"], _NODE) & ~matching(calls["name"], GRAPH_LAUNCH)
    nodes = calls.filter(is_node, ~pl.col("correlation").is_in(executed.implode())).sort(
        "start_ns", maintain_order=True
    )
    ops = profile["ops"].with_row_index("row").filter(pl.col("session") == session)
    ops = ops.drop_nulls(["start_ns", "duration_ns"])
    enclosing_ops = np.full(nodes.height, -1, np.int64)
    if ops.height:
        op_rows = enclosing_rows(nest(ops), nodes["pid"], nodes["tid"], nodes["start_ns"])
        enclosing_ops = ops["row"].gather(op_rows).cast(pl.Int64).fill_null(-1).to_numpy()
    starts = nodes["start_ns"].to_numpy()
    kernels = codes.codes(nodes["kernel"]).to_list()
    captures = []
    begin: int | None = None
    for time_ns, begins in marks.iter_rows():
        if begins:
            begin = time_ns
        elif begin is not None:
            first_node, end = np.searchsorted(starts, [begin, time_ns]).tolist()
            if end > first_node:
                captures.append(_Sequence(tuple(kernels[first_node:end]), enclosing_ops[first_node:end], BY_CAPTURE))
            begin = None
    return captures


def _match_replays(
    profile: Profile, replays: pl.DataFrame, captures: Mapping[int, Sequence[_Sequence]], codes: _NameCodes
) -> list[_Match]:
    """Match each replay to a capture, or to earlier work outside a graph."""
    groups = (
        replays.with_columns(codes.codes(replays["name"]).alias("code"))
        .group_by("session", "correlation", maintain_order=True)
        .agg("row", "code", pl.col("iteration").first(), pl.col("stream").n_unique().alias("streams"))
    )
    ranks = dict(profile["sessions"].select("session", "rank").iter_rows())
    work_outside = {session: _WorkOutsideGraphs(profile, session, codes) for session in replays["session"].unique()}
    # Replays of one graph have equal keys, so that each graph is matched once.
    candidates_by_key: dict[tuple[object, ...], list[tuple[_Sequence, Ints]]] = {}
    keys: list[tuple[object, ...]] = []
    for session, rows, kernels, streams in groups.select("session", "row", "code", "streams").iter_rows():
        key: tuple[object, ...] = (session, streams == 1, tuple(kernels))
        keys.append(key)
        if key not in candidates_by_key:
            sequences = _fitting_captures(captures, ranks, session, kernels, one_stream=streams == 1)
            if not sequences and (repeated := work_outside[session].before(rows, kernels)) is not None:
                sequences = [repeated]
            candidates_by_key[key] = [(sequence, _node_positions(sequence, kernels)) for sequence in sequences]
    used: Counter[tuple[object, ...]] = Counter()
    rounds = Counter(zip(keys, groups["iteration"], strict=True))
    matches: list[_Match] = []
    for key, rows, iteration in zip(keys, groups["row"], groups["iteration"], strict=True):
        candidates, occurrence = candidates_by_key[key], (key, iteration)
        if not candidates:
            matches.append(_Match(rows.to_numpy(), NO_CAPTURE))
        elif rounds[occurrence] % len(candidates):
            matches.append(_Match(rows.to_numpy(), SEVERAL))
        else:
            sequence, nodes = candidates[used[occurrence] % len(candidates)]
            used[occurrence] += 1
            matches.append(_Match(rows.to_numpy(), sequence.join, sequence, nodes))
    return matches


def _fitting_captures(
    captures: Mapping[int, Sequence[_Sequence]],
    ranks: Mapping[int, int | None],
    session: int,
    kernels: list[int | None],
    *,
    one_stream: bool,
) -> list[_Sequence]:
    """Return the captures that match a replay: those of its session, otherwise of its rank, otherwise of any.

    Args:
        captures: The captures of each session.
        ranks: The rank of each session.
        session: The session of the replay.
        kernels: The kernels of the replay.
        one_stream: Whether the replay ran in one stream.
    """
    fitting = {
        number: [capture for capture in of_session if _fits(capture, kernels, one_stream=one_stream)]
        for number, of_session in captures.items()
    }
    same_rank = [number for number in captures if ranks[number] is not None and ranks[number] == ranks[session]]
    for sessions in ([session], same_rank, captures):
        if found := [capture for number in sessions for capture in fitting[number]]:
            return found
    return []


def _fits(capture: _Sequence, names: list[int | None], *, one_stream: bool) -> bool:
    """Return whether a replay matches a capture."""
    if len(capture.names) != len(names):
        return False
    # Copies and memsets have no kernel; their names differ in the replay.
    named = Counter(name for name in capture.names if name is not None)
    if not named:
        return one_stream
    replayed = Counter(names)
    return all(replayed[name] == count for name, count in named.items())


def _node_positions(sequence: _Sequence, names: list[int | None]) -> Ints:
    """Return the node of each kernel of a replay: the n-th with a name is the n-th with that name in the capture."""
    positions: dict[int | None, list[int]] = {}
    for position, name in enumerate(sequence.names):
        positions.setdefault(name, []).append(position)
    used: Counter[int | None] = Counter()
    nodes = []
    for name in names:
        kernel = name if name in positions else None
        nodes.append(positions[kernel][used[kernel]])
        used[kernel] += 1
    return np.array(nodes, np.int64)


class _WorkOutsideGraphs:
    """The work of a session that ran outside of graphs and has a known op."""

    def __init__(self, profile: Profile, session: int, codes: _NameCodes) -> None:
        self._activities = profile["activities"]
        self._session = session
        self._codes = codes

    @cached_property
    def _streams(self) -> list[tuple[Ints, Ints, Ints]]:
        """Start, kernel and op of the work in each stream, by start."""
        rows = (
            self._activities.select("session", "stream", "start_ns", "name", "op", "op_join")
            .filter(pl.col("session") == self._session, pl.col("start_ns").is_not_null(), pl.col("op").is_not_null())
            .filter(pl.col("op_join").cast(pl.String).is_in(["launch", "external id", "recorded"]))
            .sort("start_ns", maintain_order=True)
        )
        rows = rows.select("stream", "start_ns", self._codes.codes(rows["name"]).fill_null(-1), "op")
        return [
            (part["start_ns"].to_numpy(), part["name"].to_numpy(), part["op"].cast(pl.Int64).to_numpy())
            for part in rows.partition_by("stream", maintain_order=True)
        ]

    def before(self, rows: list[int], kernels: list[int | None]) -> _Sequence | None:
        """Return the latest work before a replay with the same kernels in the same order in one stream.

        Args:
            rows: The rows of the replay in ``activities``.
            kernels: Its kernels.
        """
        if None in kernels:
            return None
        begin_ns = self._activities["start_ns"][rows[0]]
        graph_ops = self._activities["op"].gather(rows).drop_nulls().unique().to_numpy()
        for starts_ns, all_names, all_ops in self._streams:
            end = int(np.searchsorted(starts_ns, begin_ns))
            names, ops = all_names[:end], all_ops[:end]
            if len(graph_ops):
                is_outside = ~np.isin(ops, graph_ops)
                names, ops = names[is_outside], ops[is_outside]
            first = np.arange(max(len(names) - len(kernels) + 1, 0))
            for offset, kernel in enumerate(kernels):
                first = first[names[first + offset] == kernel]
                if not len(first):
                    break
            else:
                return _Sequence(tuple(kernels), ops[first[-1] : first[-1] + len(kernels)], BY_REPEAT)
        return None


_JOINS: Final = (None, BY_ANNOTATION, BY_CAPTURE, BY_REPEAT, NO_CAPTURE, SEVERAL)


def _add_ops(profile: Profile, matches: Sequence[_Match]) -> Profile:
    """Add the ops of matched replays, and the reasons for the others."""
    activities, ops = profile["activities"], profile["ops"]
    parent = ops["parent"].cast(pl.Int64).fill_null(-1).to_numpy()
    op = activities["op"].cast(pl.Int64).fill_null(-1).to_numpy().copy()
    has_join = activities["op_join"].is_not_null().to_numpy()
    join = np.zeros(activities.height, np.uint32)
    sources: list[Ints] = []
    first_rows: list[int] = []
    new_parents: list[Ints] = []
    subtrees: dict[int, tuple[Ints, Ints, Ints]] = {}
    height, weights = ops.height, _weights_of_experts(ops)
    for match in matches:
        rows, sequence = match.rows, match.sequence
        if sequence is None:
            # Without recorded ops, no work gets a reason.
            join[rows[(op[rows] < 0) & has_join[rows]]] = _JOINS.index(match.join)
            continue
        if id(sequence) not in subtrees:
            subtrees[id(sequence)] = _op_subtree(sequence.ops, parent, weights)
        source, source_parents, position = subtrees[id(sequence)]
        op_positions = position[match.nodes]
        has_op = op_positions >= 0
        op[rows[has_op]] = height + op_positions[has_op]
        join[rows[has_op]] = _JOINS.index(match.join)
        sources.append(source)
        first_rows.append(int(rows[0]))
        new_parents.append(np.where(source_parents < 0, -1, source_parents + height))
        height += len(source)
    frames = dict(profile.frames)
    if sources:
        row_of_op = np.repeat(first_rows, [len(source) for source in sources])
        unknown_columns = ("op_id", "start_ns", "duration_ns", "pid", "tid", "forward", "line")
        replayed = ops[np.concatenate(sources)].with_columns(
            *activities.select("session", "iteration")[row_of_op],
            pl.Series("parent", np.concatenate(new_parents), dtype=pl.Int64),
            pl.lit(_SOURCE, NAME).alias("op_source"),
            *(pl.lit(None, FRAMES["ops"][name]).alias(name) for name in unknown_columns),
        )
        frames["ops"], number = _append_ops(ops, replayed, has_sessions=profile["sessions"].height > 1)
        op = number[op]
    numbers = pl.Series("op", op)
    new_joins = pl.Series(_JOINS, dtype=NAME).gather(pl.Series(join))
    frames["activities"] = activities.with_columns(
        numbers.set(numbers < 0, None).cast(pl.UInt32), pl.coalesce(new_joins, "op_join").alias("op_join")
    )
    return replace(profile, frames=frames)


def _append_ops(ops: pl.DataFrame, appended: pl.DataFrame, *, has_sessions: bool) -> tuple[pl.DataFrame, Ints]:
    """Append ops, whose parents are row numbers of the result before it is sorted.

    Args:
        ops: The recorded ops.
        appended: The ops to append.
        has_sessions: Whether there are several sessions; the ops of each must be consecutive.

    Returns:
        The ops, whose numbers are their rows; and their numbers by former row, the last entry -1 for none.
    """
    all_ops = pl.concat([ops.with_columns(pl.col("parent").cast(pl.Int64)), appended]).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("op"),
        pl.col("parent").fill_null(-1),
        pl.col("forward").cast(pl.Int64).fill_null(-1),
    )
    number = np.append(np.arange(all_ops.height), -1)
    if has_sessions:
        order = np.argsort(all_ops["session"].to_numpy(), kind="stable")
        number[order] = np.arange(len(order))
        all_ops = all_ops[order].with_columns(
            pl.Series("op", np.arange(len(order))),
            pl.Series("parent", number[all_ops["parent"].to_numpy()[order]]),
            pl.Series("forward", number[all_ops["forward"].to_numpy()[order]]),
        )
    links = (pl.when(pl.col(name) >= 0).then(name).cast(pl.UInt32).alias(name) for name in ("parent", "forward"))
    return all_ops.with_columns(pl.col("op").cast(pl.UInt32), *links), number


def _weights_of_experts(ops: pl.DataFrame) -> Ints:
    """Return the row numbers of views in ops of `EXPERTS` with one matrix per expert: they record its sizes."""
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


def _op_subtree(ops: Ints, parent: Ints, weights: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the ops of a graph's nodes with their ancestors and expert weights.

    Args:
        ops: The row number of the op of each node (-1: none).
        parent: The row number of the parent of each op (-1: none).
        weights: The row numbers of expert weights, from `_weights_of_experts`.

    Returns:
        The sorted row numbers, the index of each one's parent among them, and the index of each node's op (-1: none).
    """
    rows = np.unique(ops[ops >= 0])
    while len(ancestors := np.setdiff1d(parent[rows][parent[rows] >= 0], rows)):
        rows = np.union1d(rows, ancestors)
    rows = np.union1d(rows, weights[np.isin(parent[weights], rows)])
    parents = parent[rows]
    positions = np.where(parents >= 0, np.searchsorted(rows, parents), -1)
    return rows, positions, np.where(ops >= 0, np.searchsorted(rows, ops), -1)
