"""The ops of a trace: parents, direction (forward or backward), shapes and types."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.correlation.launches import nest, parents, thread_codes
from tui.correlation.nesting import NONE
from tui.loaders.kineto.event_roles import FORWARD_TO_BACKWARD
from tui.loaders.kineto.events import map_names, matching, whole_numbers
from tui.loaders.kineto.op_paths import groups_of, inherited, stacks_of
from tui.loaders.worker_process import run_together
from tui.model.schema import NAME
from tui.runtime import release_freed_memory

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.correlation.nesting import Nesting
    from tui.loaders.kineto.events import KinetoEvents

    Ints = npt.NDArray[np.int64]

_BACKWARD: Final = r"^autograd::engine::evaluate_function|Backward[0-9]*$|^torch::autograd::AccumulateGrad"
"""Names of what the autograd engine runs."""

_USES_VALUES: Final = (
    r"conv|attention|_scaled_mm|::(?:sum|mean|prod|amax|amin|max|min|var|std|norm|linalg_vector_norm)$"
)
"""Ops whose FLOPs or bytes depend on arguments that are no tensors. Those of others would cost memory for nothing."""

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
"""PyTorch's own names of C++ types of the elements of a tensor."""
_ELEMENT_TYPE: Final = re.compile(r"c10::[\w:<>]+")


@dataclass(frozen=True, slots=True)
class Ops:
    """The ops of a trace."""

    frame: pl.DataFrame
    """Columns of ``ops``; ``op`` counts from 0."""
    nesting: Nesting
    """Of its rows."""
    external_ids: pl.Series
    """For each row the id that the profiler gave it, null where it gave none."""
    paths_are_cut: bool
    """Whether a path was too long to be kept whole."""


def ops_of(events: KinetoEvents, flows: pl.DataFrame, marks: pl.Series) -> Ops:
    """Make ``ops`` of the operators of a trace.

    Args:
        events: Of the trace.
        flows: Its arrows, with start times as in ``events``.
        marks: For each of ``events.ranges`` whether it marks an iteration, and so says nothing of what an op is for.
    """
    rows = events.ops
    # These first: each needs much memory, and none of it longer.
    groups, stacks = run_together(lambda: groups_of(events, marks), lambda: stacks_of(events))
    release_freed_memory()
    nesting = nest(rows)
    release_freed_memory()
    is_backward = _is_backward(rows, nesting)
    knows_forward = inherited(nesting, np.where(_has_sequence(rows), 1, NONE)) != NONE
    forward = _forward(rows, nesting, is_backward, flows)
    release_freed_memory()
    directions = pl.Series(["bprop", "fprop", None], dtype=NAME)
    frame = rows.select(
        op=pl.int_range(pl.len(), dtype=pl.UInt32),
        name="name",
        direction=directions.gather(np.where(is_backward, 0, np.where(knows_forward, 1, 2))),
        group=groups.texts,
        start_ns="start_ns",
        duration_ns="duration_ns",
        pid="pid",
        tid="tid",
        parent=parents(nesting),
        forward=forward,
        dtype=map_names(rows["input_types"], _element_types),
        input_shapes=map_names(rows["input_shapes"], _shapes),
        input_types=map_names(rows["input_types"], _types_of_arguments),
        input_values=map_names(
            rows.select(pl.when(matching(rows["name"], _USES_VALUES)).then("input_values"))["input_values"], _values
        ),
        stack=stacks.texts,
        op_source=pl.lit("recorded", NAME),
        line="line",
    )
    return Ops(frame, nesting, rows["external_id"], groups.cut or stacks.cut)


def _is_backward(rows: pl.DataFrame, nesting: Nesting) -> npt.NDArray[np.bool_]:
    own = matching(rows["name"], _BACKWARD) | (rows["forward_thread"] > 0).fill_null(False)
    inside: npt.NDArray[np.bool_] = inherited(nesting, np.where(own.to_numpy(), 1, NONE)) != NONE
    return inside


def _forward(
    rows: pl.DataFrame, nesting: Nesting, is_backward: npt.NDArray[np.bool_], flows: pl.DataFrame
) -> pl.Series:
    """The row of the forward op of each backward op: by the profiler's arrows, else by the sequence number.

    Autograd gives the forward op that makes a node and the backward op that runs it the same sequence number, which
    counts up within a thread; of the forward ops with a number, the last to begin made the node.
    """
    has_sequence = _has_sequence(rows)
    backward = _numbered(rows.select("pid", "forward_thread", "sequence"), has_sequence & is_backward)
    if backward.is_empty():
        return pl.repeat(None, rows.height, dtype=pl.UInt32, eager=True)
    makers = _numbered(rows.select("pid", "tid", "sequence"), has_sequence & ~is_backward)
    key = ("pid", "forward_thread", "sequence")
    by_arrow = _arrows(rows, nesting, flows).join(backward, on="row").select(*key, "forward").unique(key, keep="first")
    # A number that two threads have used tells nothing: which of them is meant is not in the file.
    by_number = (
        makers.group_by("pid", "sequence")
        .agg(
            maker=pl.col("row").last(),
            first=pl.col("tid").fill_null(NONE).min(),
            last=pl.col("tid").fill_null(NONE).max(),
        )
        .filter(pl.col("first") == pl.col("last"))
        .select("pid", "sequence", "maker")
    )
    found = (
        backward.join(by_arrow, on=key, how="left", nulls_equal=True)
        .join(by_number, on=("pid", "sequence"), how="left", nulls_equal=True)
        .select("row", forward=pl.coalesce("forward", "maker"))
        .drop_nulls()
    )
    del backward, makers, by_arrow, by_number
    own = np.full(rows.height, NONE, np.int64)
    own[found["row"].to_numpy()] = found["forward"].to_numpy()
    forward = inherited(nesting, own)
    return pl.Series(forward.astype(np.uint32)).set(pl.Series(~is_backward | (forward == NONE)), None)


def _has_sequence(rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
    return (rows["sequence"] >= 0).fill_null(False).to_numpy()


def _numbered(columns: pl.DataFrame, chosen: npt.NDArray[np.bool_]) -> pl.DataFrame:
    """Some rows, with the place of each as ``row``."""
    places = pl.Series("row", np.flatnonzero(chosen))
    return columns.select(pl.all().gather(places)).with_columns(places)


def _arrows(rows: pl.DataFrame, nesting: Nesting, flows: pl.DataFrame) -> pl.DataFrame:
    """The rows of backward ops (``row``) and of the forward ops (``forward``) that arrows lead from."""
    arrows = flows.filter(pl.col("cat") == FORWARD_TO_BACKWARD)
    pid, tid = whole_numbers(arrows["pid"]), whole_numbers(arrows["tid"])
    # Of ops that begin at the same moment, the innermost has the arrow.
    row = nesting.beginning(thread_codes(pid, tid), arrows["start_ns"].to_numpy(), _has_sequence(rows))
    ends = arrows.select("ph", "id", row=row).filter(pl.col("row") != NONE, pid.is_not_null(), tid.is_not_null())
    begin = ends.filter(pl.col("ph") == "s").select("id", forward="row").unique("id", keep="first")
    return ends.filter(pl.col("ph") == "f").join(begin, on="id").select("row", "forward")


def _json_list(text: str) -> list[object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _element_types(text: str) -> str | None:
    """The element types of the tensors among the inputs, each once, in their order.

    >>> _element_types('["c10::BFloat16", "long", "Scalar", "c10::BFloat16", ""]')
    'bfloat16, int64'
    """
    types: dict[str, None] = {}
    for one in _json_list(text):
        if isinstance(one, str) and (short := _SHORT_TYPES.get(one) or _unlisted(one)):
            types[short] = None
    return ", ".join(types) or None


def _unlisted(one: str) -> str | None:
    return one.removeprefix("c10::") if _ELEMENT_TYPE.fullmatch(one) else None


def _shapes(text: str) -> str | None:
    """The shapes of the inputs, the same however the file was written; null where no input has one.

    >>> _shapes('[[16,559, 1024],[]]'), _shapes('[[],[]]')
    ('[[16, 559, 1024], []]', None)
    """
    shapes = _json_list(text)
    return json.dumps(shapes) if any(shapes) else None


def _types_of_arguments(text: str) -> str | None:
    """The element type of each input that is a tensor; what else the profiler says of an argument stays as it is.

    >>> _types_of_arguments('["c10::BFloat16", "long", "Scalar", ""]')
    '["bfloat16", "int64", "Scalar", ""]'
    """
    types = [_SHORT_TYPES.get(one) or _unlisted(one) or one if isinstance(one, str) else "" for one in _json_list(text)]
    return json.dumps(types) if any(types) else None


def _values(text: str) -> str | None:
    """The values of the inputs that are no tensors, as texts.

    >>> _values('["", "", "[1, 1]", "True"]')
    '["", "", "[1, 1]", "True"]'
    """
    values = [one if isinstance(one, str) else json.dumps(one) for one in _json_list(text)]
    return json.dumps(values) if any(values) else None
