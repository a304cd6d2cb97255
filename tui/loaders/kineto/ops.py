"""The ops of a trace, and the path to each: the modules, ranges, ops and Python functions that enclose it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.correlation.launches import enclosing_rows, nest, parents, thread_codes
from tui.correlation.nesting import NONE, inherit, inherit_bits, number_paths, parent_values
from tui.loaders.kineto.events import (
    FORWARD_TO_BACKWARD,
    by_nesting_order,
    integer_column,
    no_names,
)
from tui.model.schema import NAME
from tui.runtime import release_freed_memory, run_concurrently
from tui.text import map_distinct, matching

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.correlation.nesting import Nesting
    from tui.loaders.kineto.events import KinetoEvents

    Flags = npt.NDArray[np.bool_]
    Ints = npt.NDArray[np.int64]


_MODULE: Final = "nn.Module: "


@dataclass(frozen=True, slots=True)
class PathTexts:
    """A path for each op."""

    texts: pl.Series
    """Categorical; null if there is no path."""
    is_cut: bool
    """Whether a path is cut."""


def op_groups(events: KinetoEvents, is_step: pl.Series) -> PathTexts:
    """Return the group of each op, outermost first: its modules if recorded, otherwise the enclosing ranges and ops.

    Args:
        events: The events of the trace.
        is_step: Which of ``events.ranges`` are excluded from the paths.
    """
    is_module = matching(events.python["name"], rf"^{re.escape(_MODULE)}")
    modules = _enclosing_paths(events.python.filter(is_module), events.ops, "/", strip=_MODULE)
    listed = map_distinct(
        events.ops["modules"], lambda path: "/".join(reversed(path.strip(";").split(";"))) or None, NAME
    )
    enclosing = _paths_through_ranges_and_ops(events.ops, events.ranges.filter(~is_step))
    texts = pl.select(pl.coalesce(modules.texts, listed, enclosing.texts)).to_series()
    return PathTexts(texts, modules.is_cut or enclosing.is_cut)


def op_stacks(events: KinetoEvents) -> PathTexts:
    """Return the Python stack of each op, innermost first: enclosing functions, else those in its arguments."""
    enclosing = _enclosing_paths(events.python, events.ops, ";", innermost_first=True)
    listed = map_distinct(events.ops["call_stack"], lambda stack: stack.rstrip(";") or None, NAME)
    return PathTexts(pl.select(pl.coalesce(enclosing.texts, listed)).to_series(), enclosing.is_cut)


def _paths_through_ranges_and_ops(ops: pl.DataFrame, ranges: pl.DataFrame) -> PathTexts:
    """Return the path of each op through the enclosing ranges and ops."""
    columns = ("start_ns", "duration_ns", "external_id", "pid", "tid", "name")
    rows = pl.concat([ranges.select(columns), ops.select(columns)])
    # If an op and a range have the same times, the one with the smaller id encloses the other.
    nesting = nest(rows, order=by_nesting_order(rows))
    row_names = rows["name"]
    del rows
    codes, names = _codes(row_names)
    paths = number_paths(nesting, codes, max(len(names), 1))
    return PathTexts(*paths.texts(names, parent_values(nesting, paths.code)[ranges.height :], "/"))


def _enclosing_paths(
    frames: pl.DataFrame, ops: pl.DataFrame, separator: str, *, strip: str = "", innermost_first: bool = False
) -> PathTexts:
    """Return the path through ``frames`` to each op; null if none encloses it."""
    if frames.is_empty() or ops.is_empty():
        return PathTexts(no_names(ops.height), False)
    nesting = nest(frames)
    codes, names = _codes(frames["name"])
    paths = number_paths(nesting, codes, len(names))
    row = enclosing_rows(nesting, ops["pid"], ops["tid"], ops["start_ns"]).cast(pl.Int64).fill_null(NONE).to_numpy()
    path_codes = np.where(row == NONE, NONE, paths.code[row])
    return PathTexts(
        *paths.texts(names.str.strip_prefix(strip), path_codes, separator, innermost_first=innermost_first)
    )


def _codes(names: pl.Series) -> tuple[Ints, pl.Series]:
    """Return the code of each name, and the names by code."""
    texts = names.fill_null("")
    distinct = texts.unique()
    categories = distinct.to_physical().to_numpy()
    number = np.zeros(int(categories.max(initial=0)) + 1, np.int64)
    number[categories] = np.arange(len(categories))
    return number[texts.to_physical().to_numpy()], distinct.cast(pl.String)


_BACKWARD_NAME: Final = r"^autograd::engine::evaluate_function|Backward[0-9]*$|^torch::autograd::AccumulateGrad"
"""Names of ops that the autograd engine runs."""

_USES_VALUES: Final = (
    r"conv|attention|flash_attn|_scaled_mm|_pool[0-9]d|::_(?:log_)?softmax$|::(?:index_select|embedding_dense_backward)|"
    r"::(?:mse|l1|smooth_l1|huber)_loss$|::(?:sum|mean|prod|amax|amin|max|min|var|std|norm|linalg_vector_norm)$"
)
"""Ops whose FLOPs or bytes depend on arguments other than tensors; the values of other ops are not kept."""

_SHORT_TYPES: Final = {
    "double": "float64",
    "float": "float32",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long": "int64",
    "long int": "int64",
    "int": "int32",
    "short": "int16",
    "short int": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
    "c10::complex<double>": "complex128",
    "c10::complex<float>": "complex64",
    "c10::complex<c10::Half>": "complex32",
    "c10::Float8_e4m3fn": "float8_e4m3fn",
    "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz",
    "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
}
"""The short names of C++ element types in PyTorch."""
_ELEMENT_TYPE: Final = re.compile(r"c10::[\w:<>]+")


@dataclass(frozen=True, slots=True)
class Ops:
    """The ops of a trace."""

    frame: pl.DataFrame
    """Columns of ``ops``; ``op`` counts from 0."""
    nesting: Nesting
    """The nesting of the rows."""
    external_ids: pl.Series
    """The profiler's id of each op, or null."""
    paths_are_cut: bool
    """Whether a path is cut."""


def build_ops(events: KinetoEvents, flows: pl.DataFrame, is_step: pl.Series) -> Ops:
    """Build the frame ``ops`` of a trace.

    Args:
        events: The events of the trace.
        flows: Its flow events, with start times as in ``events``.
        is_step: Which of ``events.ranges`` mark iterations; these are excluded from groups.
    """
    rows = events.ops
    # These come first because each needs much memory for a short time.
    groups, stacks, passes, texts = run_concurrently(
        lambda: op_groups(events, is_step),
        lambda: op_stacks(events),
        lambda: _passes(rows, flows),
        lambda: _input_columns(rows),
    )
    assert isinstance(groups, PathTexts)
    assert isinstance(stacks, PathTexts)
    assert isinstance(passes, _Passes)
    assert isinstance(texts, dict)
    release_freed_memory()
    nesting = passes.nesting
    frame = rows.select(
        op=pl.int_range(pl.len(), dtype=pl.UInt32),
        name="name",
        direction=passes.direction,
        group=groups.texts,
        start_ns="start_ns",
        duration_ns="duration_ns",
        pid="pid",
        tid="tid",
        parent=parents(nesting),
        forward=passes.forward,
        **texts,
        stack=stacks.texts,
        op_source=pl.lit("recorded", NAME),
        line="line",
    )
    return Ops(frame, nesting, rows["external_id"], groups.is_cut or stacks.is_cut)


@dataclass(frozen=True, slots=True)
class _Passes:
    """Which pass each op belongs to."""

    nesting: Nesting
    """The nesting of all ops."""
    direction: pl.Series
    forward: pl.Series
    """The forward op of each backward op."""


def _passes(rows: pl.DataFrame, flows: pl.DataFrame) -> _Passes:
    """Nest the ops, and find which belong to the forward and the backward pass."""
    release_freed_memory()
    nesting = nest(rows)
    release_freed_memory()
    has_sequence = (rows["sequence"] >= 0).fill_null(False).to_numpy()
    kinds, pairs = run_concurrently(
        lambda: inherit_bits(nesting, _kinds(rows, has_sequence)),
        lambda: _flow_pairs(nesting, flows, has_sequence),
    )
    assert isinstance(kinds, np.ndarray)
    assert isinstance(pairs, pl.DataFrame)
    forward = _forward(rows, nesting, has_sequence, (kinds & _BACKWARD) > 0, pairs)
    directions = pl.Series([None, "fprop", "bprop", "bprop"], dtype=NAME)
    return _Passes(nesting, directions.gather(pl.Series(kinds)), forward)


def _input_columns(rows: pl.DataFrame) -> dict[str, pl.Series]:
    """Return the columns about the inputs of ops; each distinct text is parsed once."""
    used_values = rows.select(pl.when(matching(rows["name"], _USES_VALUES)).then("input_values"))["input_values"]
    columns = {
        "dtype": (rows["input_types"], _element_types),
        "input_shapes": (rows["input_shapes"], _shapes),
        "input_types": (rows["input_types"], _types_of_arguments),
        "input_values": (used_values, _values),
    }
    texts = run_concurrently(*(partial(map_distinct, *column, NAME) for column in columns.values()))
    return dict(zip(columns, texts, strict=True))


_NUMBERED, _BACKWARD = 1, 2


def _kinds(rows: pl.DataFrame, has_sequence: Flags) -> npt.NDArray[np.uint8]:
    """Return which ops have a sequence number (`_NUMBERED`), and which belong to the backward pass (`_BACKWARD`)."""
    is_backward = matching(rows["name"], _BACKWARD_NAME) | (rows["forward_thread"] > 0).fill_null(False)
    return _NUMBERED * has_sequence.view(np.uint8) | _BACKWARD * is_backward.to_numpy().view(np.uint8)


def _forward(
    rows: pl.DataFrame, nesting: Nesting, has_sequence: Flags, is_backward: Flags, flow_pairs: pl.DataFrame
) -> pl.Series:
    """Return the row of the forward op of each backward op: by flow events, otherwise by sequence number.

    Autograd gives the forward op that makes a node and the backward op that runs it the same sequence number, which
    counts up within a thread; of the forward ops with a number, the last to begin made the node.
    """
    backward = _select_with_row(rows.select("pid", "forward_thread", "sequence"), has_sequence & is_backward)
    if backward.is_empty():
        return pl.repeat(None, rows.height, dtype=pl.UInt32, eager=True)
    forward_ops = _select_with_row(rows.select("pid", "tid", "sequence"), has_sequence & ~is_backward)
    key = ("pid", "forward_thread", "sequence")
    flow_matches = flow_pairs.join(backward, on="row").select(*key, "forward").unique(key, keep="first")
    # A number that two threads have used is ambiguous.
    sequence_matches = (
        forward_ops.group_by("pid", "sequence")
        .agg(
            maker=pl.col("row").last(),
            first=pl.col("tid").fill_null(NONE).min(),
            last=pl.col("tid").fill_null(NONE).max(),
        )
        .filter(pl.col("first") == pl.col("last"))
        .select("pid", "sequence", "maker")
    )
    matches = (
        backward.join(flow_matches, on=key, how="left", nulls_equal=True)
        .join(sequence_matches, on=("pid", "sequence"), how="left", nulls_equal=True)
        .select("row", forward=pl.coalesce("forward", "maker"))
        .drop_nulls()
    )
    del backward, forward_ops, flow_matches, sequence_matches
    forward_rows = np.full(rows.height, NONE, np.int32)
    forward_rows[matches["row"].to_numpy()] = matches["forward"].to_numpy()
    forward = inherit(nesting, forward_rows)
    return pl.Series(forward.astype(np.uint32)).set(pl.Series(~is_backward | (forward == NONE)), None)


def _select_with_row(columns: pl.DataFrame, is_selected: Flags) -> pl.DataFrame:
    """Return the chosen rows, with their positions as ``row``."""
    positions = pl.Series("row", np.flatnonzero(is_selected))
    return columns.select(pl.all().gather(positions)).with_columns(positions)


def _flow_pairs(nesting: Nesting, flows: pl.DataFrame, has_sequence: Flags) -> pl.DataFrame:
    """Return pairs of a backward op (``row``) and its forward op (``forward``), by flow events."""
    flow_events = flows.filter(pl.col("cat") == FORWARD_TO_BACKWARD)
    pid, tid = integer_column(flow_events["pid"]), integer_column(flow_events["tid"])
    # Among ops that start together, the flow event belongs to the innermost.
    row = nesting.innermost_starting(thread_codes(pid, tid), flow_events["start_ns"].to_numpy(), has_sequence)
    flow_ends = flow_events.select("ph", "id", row=row).filter(
        pl.col("row") != NONE, pid.is_not_null(), tid.is_not_null()
    )
    begin = flow_ends.filter(pl.col("ph") == "s").select("id", forward="row").unique("id", keep="first")
    return flow_ends.filter(pl.col("ph") == "f").join(begin, on="id").select("row", "forward")


def _json_list(text: str) -> list[object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _element_types(text: str) -> str | None:
    """Return the distinct element types of the input tensors, in input order.

    >>> _element_types('["c10::BFloat16", "long", "Scalar", "c10::BFloat16", ""]')
    'bfloat16, int64'
    """
    types: dict[str, None] = {}
    for name in _json_list(text):
        if isinstance(name, str) and (short_type := _SHORT_TYPES.get(name) or _other_element_type(name)):
            types[short_type] = None
    return ", ".join(types) or None


def _other_element_type(name: str) -> str | None:
    return name.removeprefix("c10::") if _ELEMENT_TYPE.fullmatch(name) else None


def _shapes(text: str) -> str | None:
    """Return the shapes of the inputs in uniform spelling; null if no input has one.

    >>> _shapes('[[16,559, 1024],[]]'), _shapes('[[],[]]')
    ('[[16, 559, 1024], []]', None)
    """
    shapes = _json_list(text)
    return json.dumps(shapes) if any(shapes) else None


def _types_of_arguments(text: str) -> str | None:
    """Return the element types of input tensors; the types of other inputs unchanged.

    >>> _types_of_arguments('["c10::BFloat16", "long", "Scalar", ""]')
    '["bfloat16", "int64", "Scalar", ""]'
    """
    names = [name if isinstance(name, str) else "" for name in _json_list(text)]
    types = [_SHORT_TYPES.get(name) or _other_element_type(name) or name for name in names]
    return json.dumps(types) if any(types) else None


def _values(text: str) -> str | None:
    """Return the values of inputs that are not tensors, as text.

    >>> _values('["", "", "[1, 1]", "True"]')
    '["", "", "[1, 1]", "True"]'
    """
    values = [value if isinstance(value, str) else json.dumps(value) for value in _json_list(text)]
    return json.dumps(values) if any(values) else None
