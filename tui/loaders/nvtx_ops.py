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

from tui.cache.spill import gather_rows, release_mapped, release_memory, spill_to_disk
from tui.correlation.launches import iterations_at_times, nest, parents, thread_codes
from tui.correlation.nesting import NONE, inherit, inherit_bits, number_paths, outer_first_order, parent_values
from tui.correlation.plausible_times import is_plausible_duration
from tui.model.schema import NAME, OPS, RANGES, conform, empty
from tui.text import map_distinct, number_in

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tui.correlation.nesting import Nesting

    Flags = npt.NDArray[np.bool_]


_LIBRARY: Final = re.compile(
    r"(?:nccl|cublas|cublaslt|cudnn|cufft|cusparse|cusolver|curand|cub|cccl|thrust|nvjpeg|npp)\b", re.IGNORECASE
)
"""Domains of libraries that frameworks call. TensorRT is a framework itself: its ranges are layers of the network."""

_LIBRARY_CALL: Final = r"^(?:nccl|cublas|cudnn|cufft|cusparse|cusolver)[A-Z]"
"""Names of calls of such libraries, for ranges without a domain."""

_PATH_LEVELS: Final = 12
"""The maximum number of elements of a group path."""
_PATH_NAME_LIMIT: Final = 60
"""The longest element of a group path, in characters."""


@dataclass(frozen=True, slots=True)
class RangeOps:
    """Ops made from NVTX ranges."""

    ops: pl.DataFrame
    """Sorted by start, columns of the model; ``op`` counts from 0."""
    nesting: Nesting
    """The nesting of `ops`, for `tui.correlation.launches.link_ops`."""
    ranges: pl.DataFrame
    """The ranges given, in their order, with ``depth``: the number of enclosing ranges of the same thread."""
    error: str = ""
    """Why no ops could be made; empty on success."""


def ops_from_ranges(ranges: pl.DataFrame, are_marks: pl.Series | None = None) -> RangeOps:
    """Make ops of ranges, with the figures in their texts; memory is bounded.

    Every closed range with a name is an op, except

    - marks;
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
        are_marks: Which of them are marks; None if none are.

    Returns:
        The ops; none if the times are too far apart for one recording.
    """
    rows = _nestable(ranges, are_marks)
    closed = ranges if rows is None else gather_rows(ranges, rows)
    problem, no_ops = "", empty("ops")
    try:
        nesting = _nest_spilled(closed)
    except ValueError as error:
        problem = str(error)
    if problem or closed.is_empty():
        return RangeOps(no_ops, nest(no_ops), ranges, problem)
    ranges_with_depth = _add_depth(ranges, rows, nesting)
    texts = _Texts.from_names(closed["name"])
    sites = _call_sites(texts, nesting)
    steps = closed.filter(pl.col("iteration").is_not_null())
    is_op = _is_op_mask(closed, texts, nesting)
    if not is_op.all():
        kept = pl.Series(np.flatnonzero(is_op).astype(np.uint32))
        closed, texts = gather_rows(closed, kept), texts.gather(kept)
        sites = None if sites is None else sites.gather(kept)
        nesting = _nest_spilled(closed)
    columns: dict[str, Callable[[], pl.Series | None]] = {
        "op": lambda: pl.int_range(closed.height, dtype=pl.UInt32, eager=True),
        "name": lambda: texts.column("op_name"),
        "direction": lambda: _directions(texts, nesting),
        "group": lambda: _groups(texts, nesting, sites),
        "parent": lambda: parents(nesting),
        "forward": lambda: _forward(closed, texts, nesting),
        "dtype": lambda: texts.column("dtype"),
        "input_shapes": lambda: texts.column("input_shapes"),
        "stack": lambda: None if sites is None else sites.column("stack"),
        "iteration": lambda: iterations_at_times(steps, closed["start_ns"]) if steps.height else None,
    }
    built = {}
    for name, column_of in columns.items():
        column = column_of()
        built[name] = pl.lit(None, OPS[name]) if column is None else spill_to_disk(column)
        release_memory()
    ops = closed.select(name for name in OPS if name in closed.columns).with_columns(
        **built, op_source=pl.lit("nvtx", NAME)
    )
    return RangeOps(conform("ops", ops), nesting, ranges_with_depth)


def _nestable(ranges: pl.DataFrame, are_marks: pl.Series | None) -> pl.Series | None:
    """Return the rows that can be ops or enclose them, by start, longer ones first; None if these are all, in order."""
    has_threads = ranges["tid"].null_count() < ranges.height
    can_nest = pl.col("start_ns").is_not_null() & is_plausible_duration().fill_null(False)
    if has_threads:
        can_nest &= pl.col("tid").is_not_null()
    if are_marks is not None:
        can_nest &= ~are_marks
    is_nestable = ranges.select(can_nest).to_series()
    rows = None if is_nestable.all() else is_nestable.arg_true()
    start, duration = (
        (ranges[name] if rows is None else ranges[name].gather(rows)).to_numpy() for name in ("start_ns", "duration_ns")
    )
    order = outer_first_order(start, duration)
    del start, duration
    release_memory()
    if order is None:
        return rows
    ordered_rows = pl.Series(order.astype(np.uint32))
    return ordered_rows if rows is None else rows.gather(ordered_rows)


def _nest_spilled(closed: pl.DataFrame) -> Nesting:
    release_memory()
    nesting = spill_to_disk(nest(closed, after_block=release_mapped))
    release_memory()
    return nesting


def _add_depth(ranges: pl.DataFrame, rows: pl.Series | None, nesting: Nesting) -> pl.DataFrame:
    """Return the ranges with the depth of the nested ones among them."""
    depth = pl.Series(nesting.depth)
    if rows is not None:
        all_depths = np.full(ranges.height, NONE, np.int32)
        all_depths[rows.to_numpy()] = nesting.depth
        depth = pl.Series(all_depths)
        depth = depth.set(depth == NONE, None)
    columns = [name for name in RANGES if name in ranges.columns or name == "depth"]
    return ranges.with_columns(spill_to_disk(depth.alias("depth"))).select(columns)


@dataclass(frozen=True, slots=True)
class _Texts:
    """The fields of `RangeText` of ranges."""

    table: pl.DataFrame
    """The fields by distinct text; a last row without any is for ranges without a text."""
    row: npt.NDArray[np.uint32]
    """The row of each range in the table."""

    @classmethod
    def from_names(cls, names: pl.Series) -> _Texts:
        distinct = names.unique().drop_nulls()
        table = read_texts(distinct.cast(pl.String))
        table = pl.concat([table, table.clear(1)])
        codes = distinct.to_physical().to_numpy()
        row_by_code = np.full(int(codes.max(initial=0)) + 2, table.height - 1, np.uint32)
        row_by_code[codes] = np.arange(len(codes), dtype=np.uint32)
        row = row_by_code[names.to_physical().fill_null(len(row_by_code) - 1).to_numpy()]
        return cls(table, row)

    def gather(self, rows: pl.Series) -> _Texts:
        """Return those of some ranges."""
        return _Texts(self.table, self.row[rows.to_numpy()])

    def matches(self, condition: pl.Expr) -> Flags:
        """Return which ranges meet a condition; none of those without a text."""
        mask: Flags = self.table.select(condition.fill_null(False)).to_series().to_numpy()[self.row]
        return mask

    def column(self, name: str) -> pl.Series | None:
        """Return a field as a categorical column; None if no range has it."""
        if self.table[name].null_count() == self.table.height:
            return None
        return self.table[name].cast(NAME).gather(pl.Series(self.row))


def _is_inside(nesting: Nesting, flags: Flags) -> Flags:
    """Return whether each range has a flag or is within one that has."""
    return inherit_bits(nesting, flags.view(np.uint8)).view(np.bool_) if flags.any() else flags


def _is_op_mask(closed: pl.DataFrame, texts: _Texts, nesting: Nesting) -> Flags:
    is_library = texts.matches(pl.col("text").str.contains(_LIBRARY_CALL))
    is_library |= map_distinct(closed["domain"], _is_library, pl.Boolean()).fill_null(False).to_numpy()
    is_op = texts.matches(pl.col("role") == Role.OP)
    # A range of a library is never a framework op, whatever its name.
    is_within_op = _is_inside(nesting, texts.matches(pl.col("framework") & (pl.col("role") == Role.OP)) & ~is_library)
    return is_op & ~_encloses_iteration(closed) & ~(is_library & is_within_op)


def _is_library(domain: str) -> bool:
    return _LIBRARY.match(domain) is not None


def _call_sites(texts: _Texts, nesting: Nesting) -> _Texts | None:
    """Return the texts of the innermost call site around each range; None if there are no call sites."""
    is_site = texts.matches(pl.col("role") == Role.CALL_SITE)
    if not is_site.any():
        return None
    sites = np.where(is_site, np.arange(len(is_site), dtype=np.int32), np.int32(NONE))
    nearest = parent_values(nesting, inherit(nesting, sites))
    return _Texts(texts.table, np.where(nearest == NONE, np.uint32(texts.table.height - 1), texts.row[nearest]))


def _directions(texts: _Texts, nesting: Nesting) -> pl.Series | None:
    """Return the direction of each op: fprop, bprop or null; None if all are null."""
    parent = nesting.parent
    backward, forward = (
        _is_inside(nesting, texts.matches(condition)) for condition in (pl.col("backward"), pl.col("seq").is_not_null())
    )
    direction = np.where(backward, 2, np.where(forward, 1, 0)).astype(np.uint8)
    if not direction.any():
        return None
    # A wrapped call has no sequence number: it has the direction of the ops within it.
    calls = texts.matches(pl.col("call"))
    for _ in range(_PATH_LEVELS if calls.any() else 0):
        inner = (parent != NONE) & (direction != 0)
        inner &= calls[parent] & (direction[parent] == 0)
        if not inner.any():
            break
        direction[parent[inner]] = direction[inner]
    return pl.Series([None, "fprop", "bprop"], dtype=NAME).gather(pl.Series(direction))


def _forward(closed: pl.DataFrame, texts: _Texts, nesting: Nesting) -> pl.Series | None:
    """Return the op that each backward op belongs to; None if there are no backward ops."""
    backward = texts.matches(pl.col("backward"))
    if not backward.any():
        return None
    rows = np.flatnonzero(texts.matches(pl.col("seq").is_not_null())).astype(np.uint32)
    # Unknown process ids count as one process.
    numbered = closed.select("tid", "start_ns", pl.col("pid").fill_null(-1))[rows].with_columns(
        op=pl.Series(rows),
        seq=texts.table["seq"].gather(pl.Series(texts.row[rows])),
        backward=pl.Series(backward[rows]),
        within=pl.Series(_is_inside(nesting, backward)[rows]),
    )
    candidates = numbered.filter(~pl.col("within"))
    several = (
        candidates.group_by("pid", "seq").agg(pl.col("tid").n_unique().alias("threads")).filter(pl.col("threads") > 1)
    )
    candidates = candidates.join(several, on=["pid", "seq"], how="anti", maintain_order="left")
    matches = numbered.filter("backward").join_asof(
        candidates.select("pid", "seq", "start_ns", forward="op"),
        on="start_ns",
        by=["pid", "seq"],
        strategy="backward",
        check_sortedness=False,
    )
    no_forward = pl.repeat(None, closed.height, dtype=pl.UInt32, eager=True)
    return no_forward.scatter(matches["op"], matches["forward"])


def _groups(texts: _Texts, nesting: Nesting, sites: _Texts | None) -> pl.Series:
    """Return the modules of the call site, otherwise the names of the enclosing ops, outermost first."""
    op_names = texts.table["op_name"].fill_null("").str.slice(0, _PATH_NAME_LIMIT)
    names = op_names.unique()
    codes = op_names.replace_strict(names, np.arange(len(names), dtype=np.uint32)).to_numpy()[texts.row]
    paths = number_paths(nesting, codes, len(names), _PATH_LEVELS)
    del codes
    groups, _ = paths.texts(names, parent_values(nesting, paths.code), "/")
    modules = None if sites is None else sites.column("modules")
    if modules is None:
        return groups
    combined = pl.select(pl.coalesce(modules, groups)).to_series()
    return combined.set(combined == "", None)


def _encloses_iteration(closed: pl.DataFrame) -> Flags:
    """Return whether each range marks an iteration or encloses, on the same thread, a range that does."""
    encloses: Flags = closed.select(pl.col("iteration").is_not_null()).to_series().to_numpy(writable=True)
    marks = np.flatnonzero(encloses)
    if not len(marks):
        return encloses
    columns = [closed[name] for name in ("pid", "tid", "start_ns", "duration_ns")]
    pid, tid, start, duration = (column.gather(marks) for column in columns)
    threads, starts, ends = thread_codes(pid, tid), start.to_numpy(), (start + duration).to_numpy()
    for start_row in range(0, closed.height, _BLOCK_ROWS):
        block = slice(start_row, start_row + _BLOCK_ROWS)
        pid, tid, start, duration = (column[block] for column in columns)
        thread, end = thread_codes(pid, tid), (start + duration).to_numpy()
        for code in np.unique(threads):
            positions = np.flatnonzero(threads == code)
            # Iterations do not overlap: if one is within a range, so is the first that begins in it.
            first_inside = np.searchsorted(starts[positions], start.to_numpy())
            clipped = np.minimum(first_inside, len(positions) - 1)
            encloses[block] |= (thread == code) & (first_inside < len(positions)) & (ends[positions[clipped]] <= end)
    return encloses


_BLOCK_ROWS: Final = 1 << 20
"""Ranges that are compared with iterations at once, to bound the memory."""


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
_MAX_LITERAL_PARTS: Final = 64
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
        return _parse_literal(literal(text)) or RangeText(text[:_TEXT_LIMIT])
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


def _parse_literal(value: object) -> RangeText | None:
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
    tensors = [arg for arg in found[:_MAX_LITERAL_PARTS] if isinstance(arg.get("shape"), Sequence)]
    shapes = ", ".join(_shape(arg.get("shape")) for arg in found[:_MAX_LITERAL_PARTS])
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
    return "[" + ", ".join(str(size) for size in sizes[:_MAX_LITERAL_PARTS] if isinstance(size, int)) + "]"


def _call_site(value: Mapping[object, object]) -> RangeText | None:
    """``{'traceMarker': ['train.py:34', 'conv.py:446'], 'funcStack': '/<module>/Net::forward/conv2d'}``."""
    lines, path = value["traceMarker"], value.get("funcStack")
    if not isinstance(lines, Sequence) or isinstance(lines, str):
        return None
    source_lines = [line for line in lines if isinstance(line, str)][-_MAX_LITERAL_PARTS:]
    group = None
    if isinstance(path, str):
        # The last element is the op itself, the first the file's top level.
        parts = path.strip("/").split("/")[:-1]
        group = "/".join(parts[parts[:1] == ["<module>"] :][:_MAX_LITERAL_PARTS])[:_TEXT_LIMIT]
    return RangeText(
        "call site", Role.CALL_SITE, stack=";".join(reversed(source_lines))[:_TEXT_LIMIT] or None, group=group
    )
