"""Turns NVTX ranges of frameworks, profiling hooks and users into ops."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from tui.correlation.launches import iteration_at, nest, parents, thread_codes
from tui.correlation.nesting import NONE, Nesting
from tui.correlation.plausible_times import is_plausible_duration
from tui.model.schema import NAME, OPS, RANGES, conform, empty
from tui.text import number_in

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]


_LIBRARY: Final = r"(?i)^(?:nccl|cublas|cublaslt|cudnn|cufft|cusparse|cusolver|curand|cub|cccl|thrust|nvjpeg|npp)\b"
"""Domains of libraries that frameworks call. TensorRT is a framework itself: its ranges are layers of the network."""

_LIBRARY_CALL: Final = r"^(?:nccl|cublas|cudnn|cufft|cusparse|cusolver)[A-Z]"
"""Names of calls of such libraries, for ranges without a domain."""

_PATH_LEVELS: Final = 12
"""The maximum number of elements of a group path."""
_PATH_NAME_LIMIT: Final = 60
"""The longest element of a group path, in characters."""


@dataclass(frozen=True, slots=True)
class OpsOfRanges:
    """Ops made from NVTX ranges."""

    ops: pl.DataFrame
    """Sorted by start, columns of the model; ``op`` counts from 0."""
    nesting: Nesting
    """The nesting of `ops`, for `tui.correlation.launches.link_ops`."""
    ranges: pl.DataFrame
    """The ranges given, in their order, with ``depth``: the number of enclosing ranges of the same thread."""
    error: str = ""
    """Why no ops could be made; empty on success."""


def ops_from_ranges(ranges: pl.DataFrame) -> OpsOfRanges:
    """Make ops of ranges, with the figures in their texts.

    Every closed range with a name is an op, except

    - ranges that mark an iteration, or enclose one on the same thread (an epoch);
    - call sites and settings written by profiling hooks: the ops within get ``stack`` and
      ``group``;
    - ranges of a library (NCCL, cuBLAS, cuDNN, ...) inside an op that a framework wrote: the op is the framework's;
    - ranges without a thread, if others have one: they belong to the whole process and may overlap.

    The group is the path of modules of a call site, otherwise of the enclosing ops. A backward op has the direction
    bprop, and so have the ops within it; an op with a sequence number has fprop, and so do the ops within it; others
    have none. ``forward`` is the last forward op that began before with the same sequence number, if only one thread
    has such ops: later ops have a higher number.

    Args:
        ranges: Push/pop ranges of one session, columns of the model, ``iteration`` filled (`mark_steps`).

    Returns:
        The ops; none if the times are too far apart for one recording.
    """
    has_threads = ranges["tid"].null_count() < ranges.height
    closed = (
        ranges.with_row_index("range")
        .filter(pl.col("start_ns").is_not_null(), is_plausible_duration())
        .filter(pl.col("tid").is_not_null() | (not has_threads))
        .sort("start_ns", "duration_ns", descending=[False, True], maintain_order=True)
    )
    problem, none = "", empty("ops")
    try:
        around = nest(closed)
    except ValueError as error:
        problem = str(error)
    if problem or closed.is_empty():
        return OpsOfRanges(none, nest(none), ranges, problem)
    parsed = _parsed(closed)
    depths = closed.select("range", depth=pl.Series(around.depth, dtype=pl.Int32))
    with_depth = (
        ranges.drop("depth", strict=False)
        .with_row_index("range")
        .join(depths, on="range", how="left", maintain_order="left")
        .select(name for name in RANGES if name in ranges.columns or name == "depth")
    )
    is_op = _are_ops(parsed, around.parent)
    parsed = _from_call_sites(parsed, around.parent).filter(is_op).with_row_index("op")
    nesting = nest(parsed)
    parent = nesting.parent
    parsed = parsed.with_columns(parents(nesting).alias("parent"))
    direction = _directions(parsed, parent)
    ops = parsed.with_columns(
        name=pl.col("op_name").cast(NAME),
        direction=pl.Series([None, "fprop", "bprop"]).gather(pl.Series(direction)),
        group=pl.coalesce("modules", _paths(parsed, parent)).replace("", None),
        forward=_forward(parsed, parent),
        iteration=iteration_at(closed.filter(pl.col("iteration").is_not_null()), parsed["start_ns"]),
        op_source=pl.lit("nvtx"),
    )
    return OpsOfRanges(conform("ops", ops.select(name for name in OPS if name in ops.columns)), nesting, with_depth)


def _parsed(closed: pl.DataFrame) -> pl.DataFrame:
    """Return the ranges with the fields of `RangeText`; each distinct text is parsed once."""
    table = read_texts(closed["name"].unique().drop_nulls().cast(pl.String))
    joined = closed.with_columns(pl.col("name").cast(pl.String).alias("text")).join(
        table, on="text", how="left", maintain_order="left"
    )
    library = (
        pl.col("domain").cast(pl.String).str.contains(_LIBRARY) | pl.col("text").str.contains(_LIBRARY_CALL)
    ).fill_null(False)
    return joined.with_columns(pl.col("framework", "call", "backward").fill_null(False), library.alias("library"))


def _are_ops(ranges: pl.DataFrame, parent: Ints) -> pl.Series:
    library = ranges["library"].to_numpy()
    # A range of a library is never a framework op, whatever its name.
    framework = ranges["framework"].to_numpy() & (ranges["role"] == Role.OP).fill_null(False).to_numpy() & ~library
    within = _nearest(parent, framework) != NONE
    return (ranges["role"] == Role.OP).fill_null(False) & pl.Series(~_around_iterations(ranges) & ~(library & within))


def _from_call_sites(ranges: pl.DataFrame, parent: Ints) -> pl.DataFrame:
    """Return the ranges with stack and modules of the innermost enclosing call site."""
    sites = (ranges["role"] == Role.CALL_SITE).fill_null(False).to_numpy()
    nearest = _nearest(parent, sites)
    row = pl.Series(nearest).cast(pl.Int64)
    row = row.set(row == NONE, None)
    return ranges.with_columns(ranges["stack"].gather(row), ranges["modules"].gather(row))


def _directions(ranges: pl.DataFrame, parent: Ints) -> Ints:
    """Return the direction of each op: 0 unknown, 1 forward, 2 backward."""
    backward = _nearest(parent, ranges["backward"].to_numpy(), with_self=True) != NONE
    forward = _nearest(parent, ranges["seq"].is_not_null().to_numpy(), with_self=True) != NONE
    direction = np.where(backward, 2, np.where(forward, 1, 0))
    # A wrapped call has no sequence number: it has the direction of the ops within it.
    calls = ranges["call"].to_numpy()
    for _ in range(_PATH_LEVELS):
        inner = (parent != NONE) & (direction != 0)
        inner &= calls[parent] & (direction[parent] == 0)
        if not inner.any():
            break
        direction[parent[inner]] = direction[inner]
    return direction


def _forward(ranges: pl.DataFrame, parent: Ints) -> pl.Series:
    """Return the op that each backward op belongs to."""
    backward = ranges["backward"].to_numpy()
    within = _nearest(parent, backward, with_self=True) != NONE
    # Unknown process ids count as one process.
    numbered = ranges.select(
        "op", "tid", "seq", "start_ns", pl.col("pid").fill_null(-1), pl.Series(backward).alias("backward")
    )
    candidates = numbered.filter(pl.Series(~within), pl.col("seq").is_not_null())
    several = (
        candidates.group_by("pid", "seq").agg(pl.col("tid").n_unique().alias("threads")).filter(pl.col("threads") > 1)
    )
    candidates = candidates.join(several, on=["pid", "seq"], how="anti", maintain_order="left")
    found = numbered.filter("backward", pl.col("seq").is_not_null()).join_asof(
        candidates.select("pid", "seq", "start_ns", forward="op"),
        on="start_ns",
        by=["pid", "seq"],
        strategy="backward",
        check_sortedness=False,
    )
    return numbered.join(found, on="op", how="left", maintain_order="left")["forward"]


def _paths(ranges: pl.DataFrame, parent: Ints) -> pl.Series:
    """Return names of the enclosing ops of each op, outermost first; each distinct path is built once."""
    names = ranges["op_name"].str.slice(0, _PATH_NAME_LIMIT)
    codes = names.rank("dense").cast(pl.Int64).to_numpy()
    path = np.zeros(len(parent), np.int64)
    texts = [""]
    done = parent == NONE
    for _ in range(_PATH_LEVELS):
        below = np.flatnonzero(~done & done[parent])
        if not len(below):
            break
        above = parent[below]
        _, first, inverse = np.unique(
            path[above] * (len(codes) + 1) + codes[above], return_index=True, return_inverse=True
        )
        path[below] = len(texts) + inverse
        for row in above[first].tolist():
            outer, name = texts[path[row]], names[row]
            texts.append(f"{outer}/{name}" if outer else name)
        done[below] = True
    deeper = ~done
    path[deeper] = path[_nearest(parent, done)[deeper]]
    return pl.Series(texts, dtype=pl.String).gather(pl.Series(path))


def _nearest(parent: Ints, has: Flags, *, with_self: bool = False) -> Ints:
    """Return for each row the innermost enclosing row with a flag, or `NONE`; by pointer doubling."""
    rows = np.arange(len(parent))
    # ``to`` is the current position of each search: a row with the flag, or a row whose parent comes next.
    to = np.where(has, rows, parent)
    while True:
        further = np.where(to != NONE, to[to], NONE)
        if np.array_equal(further, to):
            break
        to = further
    if with_self:
        return to
    return np.where(parent != NONE, to[parent], NONE)


def _around_iterations(ranges: pl.DataFrame) -> Flags:
    """Return whether each range encloses, on the same thread, a range that marks an iteration."""
    thread = thread_codes(ranges["pid"], ranges["tid"])
    start = ranges["start_ns"].to_numpy()
    end = start + ranges["duration_ns"].to_numpy()
    marks = ranges["iteration"].is_not_null().to_numpy()
    around = marks.copy()
    for code in np.unique(thread[marks]):
        here = np.flatnonzero(marks & (thread == code))
        # Iterations do not overlap: if one is within a range, so is the first that begins in it.
        following = np.searchsorted(start[here], start)
        first = here[np.minimum(following, len(here) - 1)]
        around |= (thread == code) & (following < len(here)) & (end[first] <= end)
    return around


class Role(StrEnum):
    """The role of a range."""

    OP = "op"
    """An op, or a named region of code."""
    CALL_SITE = "call site"
    """The source location from which the op within was called; no op itself."""
    SETTINGS = "settings"
    """Settings of the run."""


@dataclass(frozen=True, slots=True)
class RangeText:
    """The fields of a range's text."""

    name: str
    """The name of the op, without annotations."""
    role: Role = Role.OP
    framework: bool = False
    """Written by a framework, so certainly an op."""
    call: bool = False
    """A Python call wrapped by a hook; the framework's ops are within it."""
    backward: bool = False
    """Part of the backward pass, by its name."""
    seq: int | None = None
    """Sequence number; a backward op has that of its forward op."""
    shapes: str | None = None
    """The shapes of the inputs, as ``[[2, 3], [3, 4], []]``; an input that is no tensor is ``[]``."""
    dtype: str | None = None
    """The types of its tensors, as ``float32, int64``."""
    stack: str | None = None
    """The source lines of a call site, innermost first, separated by ``;``."""
    group: str | None = None
    """The call site: modules and functions, outermost first, separated by ``/``; empty at the top level."""


LITERAL_LIMIT: Final = 20_000
"""Longer texts are not parsed as literals."""

_DEPTH_LIMIT: Final = 12
_PART_LIMIT: Final = 64
"""The maximum number of tensors, source lines or path elements of one literal."""
_TEXT_LIMIT: Final = 2000

_ANNOTATIONS: Final = r"(?s), (?:stashed )?(?:seq|tid|op_id|sizes|input_op_ids) ?= ?[0-9\[(-].*$"
"""The annotations at the end of a text."""
_SEQ: Final = r"seq ?= ?([0-9]{1,18})(?:[^0-9]|$)"
_SIZES: Final = r"sizes ?= ?(\[[0-9\[\], -]*\])"
_BACKWARD: Final = re.compile(r"(?:\w*Backward[0-9]*|AccumulateGrad)$")
_FRAMEWORK: Final = re.compile(
    r"(?:aten|prim|prims|torch|c10d?|autograd|nccl|quantized|torchvision)::?[a-z_]|\w+Backward0$"
)
_SETTINGS: Final = re.compile(r"\{\s*[\"']model_config[\"']")
_LITERAL: Final = re.compile(r"\{\s*'(?:mod|traceMarker)'\s*:")


_NAMES: Final = {
    **dict.fromkeys(("text", "op_name", "role", "input_shapes", "dtype", "stack", "modules"), pl.String),
    **dict.fromkeys(("framework", "call", "backward"), pl.Boolean),
    "seq": pl.Int64,
}


def read_texts(texts: pl.Series) -> pl.DataFrame:
    """Parse distinct texts; one row each, in their order.

    Columns: ``text`` and the fields of `RangeText`: op_name (of the op), role, framework, call, backward, seq,
    input_shapes, dtype, stack and modules (its group).

    >>> read_texts(pl.Series(["aten::mm, seq = 5, op_id = 9", "AddBackward0"])).select("op_name", "seq").rows()
    [('aten::mm', 5), ('AddBackward0', None)]
    """
    text = pl.col("text")
    # Texts with annotations may be as many as ops: they are parsed in bulk.
    named = texts.alias("text").to_frame().with_columns(raw_name=text.str.replace(_ANNOTATIONS, ""))
    notes = text.str.slice(pl.col("raw_name").str.len_chars())
    distinct = named["raw_name"].unique()
    by_name = pl.DataFrame(
        {
            "raw_name": distinct,
            "written": [_FRAMEWORK.match(name) is not None for name in distinct],
            "backward": [_BACKWARD.search(name) is not None for name in distinct],
        },
        schema_overrides={"written": pl.Boolean, "backward": pl.Boolean},
    )
    plain = named.join(by_name, on="raw_name", how="left", maintain_order="left").select(
        "text",
        op_name=pl.col("raw_name").str.slice(0, _TEXT_LIMIT),
        role=pl.lit(str(Role.OP)),
        framework=pl.col("written") | (notes != ""),
        backward=pl.col("backward") | notes.str.contains("stashed seq", literal=True),
        call=pl.lit(False),
        seq=number_in(notes, _SEQ),
        input_shapes=notes.str.extract(_SIZES).str.slice(0, _TEXT_LIMIT),
        **{column: pl.lit(None, pl.String) for column in ("dtype", "stack", "modules")},
    )
    known = {
        text: parsed for text in texts.filter(texts.str.starts_with("{")) if (parsed := _read_literal(text)) is not None
    }
    if not known:
        return plain.select(*_NAMES)
    return (
        pl.concat(
            [plain.filter(~text.is_in(list(known))).select(*_NAMES), _frame(known)],
        )
        .join(texts.alias("text").to_frame().with_row_index("row"), on="text")
        .sort("row")
        .drop("row")
    )


def _frame(known: Mapping[str, RangeText]) -> pl.DataFrame:
    rows = [
        {
            "text": text,
            "op_name": parsed.name,
            "role": str(parsed.role),
            "framework": parsed.framework,
            "call": parsed.call,
            "backward": parsed.backward,
            "seq": parsed.seq,
            "input_shapes": parsed.shapes,
            "dtype": parsed.dtype,
            "stack": parsed.stack,
            "modules": parsed.group,
        }
        for text, parsed in known.items()
    ]
    return pl.DataFrame(rows, schema=_NAMES)


def _read_literal(text: str) -> RangeText | None:
    if _SETTINGS.match(text):
        return RangeText(text[:_TEXT_LIMIT], Role.SETTINGS)
    if _LITERAL.match(text):
        return _of_literal(literal(text)) or RangeText(text[:_TEXT_LIMIT])
    return None


def literal(text: str) -> object:
    """Return the value of a Python literal, which is never executed; None if it is invalid, too long or too deep."""
    if len(text) > LITERAL_LIMIT or _depth(text) > _DEPTH_LIMIT:
        return None
    try:
        with warnings.catch_warnings():
            # Backslashes in Windows paths cause warnings about escapes.
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _depth(text: str) -> int:
    """Return the nesting depth of brackets, including those in quotes."""
    deepest = depth = 0
    for sign in text:
        if sign in "([{":
            depth += 1
            deepest = max(deepest, depth)
        elif sign in ")]}":
            depth -= 1
    return deepest


def _of_literal(value: object) -> RangeText | None:
    if not isinstance(value, Mapping):
        return None
    if "op" in value:
        return _call(value)
    return _call_site(value) if "traceMarker" in value else None


def _call(value: Mapping[object, object]) -> RangeText | None:
    """``{'mod': 'torch', 'op': 'mm', 'args': [{'name': '', 'type': 'tensor', 'shape': (2, 3), 'dtype': 'int8'}]}``."""
    op, module = value["op"], value.get("mod")
    if not isinstance(op, str) or not op:
        return None
    name = f"{module}.{op}" if isinstance(module, str) and module else op
    args = value.get("args")
    found = [arg for arg in args if isinstance(arg, Mapping)] if isinstance(args, Sequence) else []
    tensors = [arg for arg in found[:_PART_LIMIT] if isinstance(arg.get("shape"), Sequence)]
    shapes = ", ".join(_shape(arg.get("shape")) for arg in found[:_PART_LIMIT])
    dtypes = dict.fromkeys(str(arg["dtype"]) for arg in tensors if isinstance(arg.get("dtype"), str))
    return RangeText(
        name[:_TEXT_LIMIT],
        framework=True,
        call=True,
        shapes=f"[{shapes}]"[:_TEXT_LIMIT] if tensors else None,
        dtype=", ".join(dtypes)[:_TEXT_LIMIT] or None,
    )


def _shape(shape: object) -> str:
    sizes = shape if isinstance(shape, Sequence) and not isinstance(shape, str) else ()
    return "[" + ", ".join(str(size) for size in sizes[:_PART_LIMIT] if isinstance(size, int)) + "]"


def _call_site(value: Mapping[object, object]) -> RangeText | None:
    """``{'traceMarker': ['train.py:34', 'conv.py:446'], 'funcStack': '/<module>/Net::forward/conv2d'}``."""
    lines, path = value["traceMarker"], value.get("funcStack")
    if not isinstance(lines, Sequence) or isinstance(lines, str):
        return None
    source_lines = [line for line in lines if isinstance(line, str)][-_PART_LIMIT:]
    group = None
    if isinstance(path, str):
        # The last element is the op itself, the first the file's top level.
        parts = path.strip("/").split("/")[:-1]
        group = "/".join(parts[parts[:1] == ["<module>"] :][:_PART_LIMIT])[:_TEXT_LIMIT]
    return RangeText(
        "call site", Role.CALL_SITE, stack=";".join(reversed(source_lines))[:_TEXT_LIMIT] or None, group=group
    )
