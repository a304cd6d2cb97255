"""Parses the text of an NVTX range: an op of a framework, a call wrapped by a profiling hook, or a plain name.

Frameworks write what they know of an op into the text of its range: torch's ``emit_nvtx`` appends notes
(``aten::mm, seq = 5, op_id = 9, sizes = [[2, 3], [3, 4]]``), PyProf and DLProf write Python literals. A text that looks
so and cannot be read is a name like any other.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import polars as pl

from tui.model.text_numbers import number_in


class Role(StrEnum):
    """What a range is for."""

    OP = "op"
    """It is what ran: an op, or a stretch of code that somebody named."""
    CALL_SITE = "call site"
    """It tells where in the source the op in it was called from, and is none itself."""
    SETTINGS = "settings"
    """It tells how the run was set up."""


@dataclass(frozen=True, slots=True)
class RangeText:
    """What a text says."""

    name: str
    """Of the op, without the notes."""
    role: Role = Role.OP
    framework: bool = False
    """A framework wrote it: it is an op for certain."""
    call: bool = False
    """It is a call of Python code that a hook wrapped; the ops in it are those of the framework."""
    backward: bool = False
    """It belongs to the backward pass by its name."""
    seq: int | None = None
    """Sequence number: a backward op has that of the forward op that it belongs to."""
    shapes: str | None = None
    """Of the inputs, as ``[[2, 3], [3, 4], []]``: empty brackets are no tensors."""
    dtype: str | None = None
    """The types of its tensors, as ``float32, int64``."""
    stack: str | None = None
    """Of a call site: source lines, innermost first, ``;`` between."""
    group: str | None = None
    """Of a call site: path of modules and functions, outermost first, ``/`` between; empty at the top."""


LITERAL_LIMIT: Final = 20_000
"""Longer texts are not read as literals."""

_DEPTH_LIMIT: Final = 12
_PART_LIMIT: Final = 64
"""So many tensors, source lines or path elements of one literal are kept."""
_TEXT_LIMIT: Final = 2000

_NOTES: Final = r"(?s), (?:stashed )?(?:seq|tid|op_id|sizes|input_op_ids) ?= ?[0-9\[(-].*$"
"""The notes of a text: all from the first on."""
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
    """What distinct texts say, a row each in their order.

    Columns: ``text`` and the fields of `RangeText`: op_name (of the op), role, framework, call, backward, seq,
    input_shapes, dtype, stack and modules (its group).

    >>> read_texts(pl.Series(["aten::mm, seq = 5, op_id = 9", "AddBackward0"])).select("op_name", "seq").rows()
    [('aten::mm', 5), ('AddBackward0', None)]
    """
    text = pl.col("text")
    # Texts that differ in their notes alone, of which there can be one for each op, are read all at once.
    named = texts.alias("text").to_frame().with_columns(raw_name=text.str.replace(_NOTES, ""))
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
    known = {one: told for one in texts.filter(texts.str.starts_with("{")) if (told := _read_literal(one)) is not None}
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
            "op_name": one.name,
            "role": str(one.role),
            "framework": one.framework,
            "call": one.call,
            "backward": one.backward,
            "seq": one.seq,
            "input_shapes": one.shapes,
            "dtype": one.dtype,
            "stack": one.stack,
            "modules": one.group,
        }
        for text, one in known.items()
    ]
    return pl.DataFrame(rows, schema=_NAMES)


def _read_literal(text: str) -> RangeText | None:
    if _SETTINGS.match(text):
        return RangeText(text[:_TEXT_LIMIT], Role.SETTINGS)
    if _LITERAL.match(text):
        return _of_literal(literal(text)) or RangeText(text[:_TEXT_LIMIT])
    return None


def literal(text: str) -> object:
    """The value of a Python literal; None where it is none, too long or too deep. Nothing in it is run."""
    if len(text) > LITERAL_LIMIT or _depth(text) > _DEPTH_LIMIT:
        return None
    try:
        with warnings.catch_warnings():
            # A path with backslashes is no mistake of ours.
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _depth(text: str) -> int:
    """How deep brackets lie in each other, those in quotes included."""
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
    kept = [line for line in lines if isinstance(line, str)][-_PART_LIMIT:]
    group = None
    if isinstance(path, str):
        # The last element is the op itself, the first the file's top level.
        parts = path.strip("/").split("/")[:-1]
        group = "/".join(parts[parts[:1] == ["<module>"] :][:_PART_LIMIT])[:_TEXT_LIMIT]
    return RangeText("call site", Role.CALL_SITE, stack=";".join(reversed(kept))[:_TEXT_LIMIT] or None, group=group)
