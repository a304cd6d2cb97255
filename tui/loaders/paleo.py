"""Reads the output of Paleo: static summary of a network, full pass, and layer times.

Paleo (github.com/TalwalkarLab/paleo) predicts how long each layer of a network takes and can also run the layers with
cuDNN or TensorFlow. A run prints one table: the prediction (``ours``), a column for each executor, and the algorithms.
One file often holds several runs one after another, each for one direction and one executor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.text.section import TextFormat

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Value
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section


_SUMMARY_ROW: Final = re.compile(r"\s+(?P<layer>\S+)\s+\[(?P<outputs>[0-9, ]+)\]\s*(?P<rest>.*)")
_FILTERS: Final = re.compile(r"Filters: \[([0-9, ]+)\]")
_PARAMS: Final = re.compile(r"Params: ([0-9,]+)")
_PARAMS_TOTAL: Final = re.compile(r"Number of params: ([0-9,]+)")

_TYPE_BY_DETAIL: Final = (
    ("Filters:", "conv2d"),
    ("Kernel:", "pool2d"),
    ("Keep prob:", "dropout"),
    ("Classes:", "softmax"),
)
"""The details that each kind of layer prints, which identify its type."""


@dataclass(frozen=True, slots=True)
class StaticLayer:
    """A layer as the static summary describes it; shapes are batch, height, width, channels."""

    op_type: str | None
    """Paleo's name of the type, such as ``conv2d``; None if unknown."""
    output_shape: str
    """Such as ``128x55x55x96``."""
    filter_shape: str | None
    """None if the layer has no weights."""
    params: int | None
    """The number of weights and biases."""


@dataclass(slots=True)
class PaleoContext:
    """The facts in the lines above a table."""

    network: str | None = None
    """The file of the network, as Paleo prints it."""
    direction: str | None = None
    """forward or backward."""
    gradient: str | None = None
    """The gradient that a backward pass computes: data or filter."""
    first_line: int | None = None
    """The line of the first summary or full pass."""
    network_line: int | None = None
    """The last line that names the network."""
    statics: dict[str, StaticLayer] = field(default_factory=dict)
    """The layers of the last static summary, by name, in its order."""

    @property
    def phase(self) -> str | None:
        """The phase in ``layers``: forward, backward data, backward filter."""
        if self.direction == "backward" and self.gradient:
            return f"backward {self.gradient}"
        return self.direction


def _shape(text: str) -> str:
    return "x".join(part.strip() for part in text.split(","))


_MAX_DIGITS: Final = 15
"""Digits of a number of parameters; more would not fit into any memory."""


def _parse_integer(text: str) -> int:
    digits = text.replace(",", "")
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"{text} is too large")
    return int(digits)


class PaleoSummary:
    """The static summary: one line per layer."""

    def __init__(self, collector: Collector, context: PaleoContext) -> None:
        self._collector = collector
        self._context = context
        self._params = 0
        context.statics = {}

    def take(self, line: Line) -> bool:
        """Read a layer, the sum of the parameters, or other output between them."""
        text = line.text
        try:
            if row := _SUMMARY_ROW.fullmatch(text):
                self._layer(row["layer"], row["outputs"], row["rest"])
                return True
            if total := _PARAMS_TOTAL.match(text.lstrip(" \t")):
                if _parse_integer(total[1]) != self._params:
                    reason = f"the layers above have {self._params:,} parameters, the summary says {total[1]}"
                    self._collector.issue("warning", line.number, text, reason)
                return True
        except ValueError as error:
            self._collector.issue("warning", line.number, text, f"{error}: this line of the summary is skipped")
            return True
        return text.strip().startswith(("LAYER", "Activation:"))

    def _layer(self, name: str, outputs: str, details: str) -> None:
        filters = _FILTERS.search(details)
        params = _PARAMS.search(details)
        op_type = next((op_type for detail, op_type in _TYPE_BY_DETAIL if details.startswith(detail)), None)
        if op_type == "conv2d" and "Pad:" not in details:
            op_type = "deconv2d"
        static = StaticLayer(
            op_type,
            _shape(outputs),
            _shape(filters[1]) if filters else None,
            _parse_integer(params[1]) if params else None,
        )
        self._params += static.params or 0
        self._context.statics[name] = static

    def close(self) -> None:
        """Do nothing: the context holds the layers for the tables."""


NS_PER_MS: Final = 1_000_000
MAX_MS: Final = 10**12
"""The longest plausible time, over 30 years."""

BYTES_PER_MB: Final = 1_000_000
"""Paleo divides bytes by 10^6."""

SIGNIFICANT_DIGITS: Final = 12
"""The digits of a float that Python 2 prints, which Paleo needs."""

EXECUTORS: Final = ("cudnn", "tensorflow")
"""The executors of layers; each is a column of the tables."""

FORMAT: Final = Format(
    name="paleo",
    title="Paleo layer tables",
    recognized_by="the line 'layer ours cudnn tensorflow ours_alg cu_alg', or 'A summary of static characteristics'",
    feeds=("sessions", "layers", "issues"),
    record_with="./paleo.sh profile NET.json --direction=forward --executor=cudnn > run.txt",
)

_SUMMARY_START: Final = "A summary of static characteristics of network."
_HEADER: Final = re.compile(r"layer\s+ours\s+cudnn\s+tensorflow\s+ours_alg\s+cu_alg\s*")
_CONTEXT: Final = re.compile(r"(?P<key>Network|Direction|Gradient wrt): *(?P<value>.*)")
_FULL_PASS: Final = re.compile(r"(?P<phase>Forward|Backward|Softmax) time\s+(?P<ms>\S+)\s*")
_FULL_PASS_START: Final = "Fullpass profiling with Tensorflow"
_FOREIGN: Final = re.compile(
    r"\s*$|==[0-9]+==|={8}|layer\s+ours\s|A summary of static|Fullpass profiling|[A-Z][a-z ]+: "
)
"""Matches lines that end a table, besides its sums."""

MAX_STRAY_LINES: Final = 3
"""The most consecutive lines between the rows of a table; after more, the table has ended."""

_NUMBER: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,40})?(?:[eE][+-]?[0-9]{1,3})?")
_ROW: Final = re.compile(r"(?P<layer>\S+)\s+(?P<ours>\S+)\s+(?P<cudnn>\S+)\s+(?P<tensorflow>\S+)(?P<rest>.*)")
_ALGORITHMS: Final = re.compile(
    r"(?P<ours>Heuristic disabled\.|GEMM 1x1|\S+ [0-9]{1,9}(?:\.[0-9]{1,12})? MB|) ?(?P<cudnn>[A-Z][A-Z0-9_]*)?"
)
_WORKSPACE: Final = re.compile(r"(?P<name>\S+) (?P<mb>[0-9.]+) MB")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of a table; times as printed, in milliseconds; None if Paleo ran or modeled nothing."""

    layer: str
    times: dict[str, Decimal | None]
    algorithm: str | None
    predicted_algorithm: str | None
    workspace_bytes: int | None
    line: int


def _ensure_session(collector: Collector, context: PaleoContext, line: int) -> None:
    """Open a session if the current one is not Paleo's."""
    if collector.session is None or collector.session.format != FORMAT.name:
        collector.open_session(FORMAT.name, context.first_line or context.network_line or line)


def _time_ms(text: str) -> Decimal | None:
    """Return a time as Paleo prints it.

    A bare ``0`` is the value that Paleo starts with and prints for a layer that it did not run or model; whatever it
    has measured or estimated is a float and has a decimal point.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"expected a time in milliseconds, found {text!r}")
    if Decimal(text) > MAX_MS:
        raise ValueError(f"{text} ms is an implausible time for a layer")
    return None if text == "0" else Decimal(text)


def _step(value: Decimal, decimals: int) -> Decimal:
    """Return the value of the last printed digit of a number in a column with ``decimals`` decimals."""
    return max(Decimal(1).scaleb(value.adjusted() + 1 - SIGNIFICANT_DIGITS), Decimal(1).scaleb(-decimals))


def _decimals(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _ns(ms: Decimal | None) -> int | None:
    return None if ms is None else int((ms * NS_PER_MS).to_integral_value())


class _FullPass:
    """The times of whole passes, which belong to no layer."""

    def __init__(self, collector: Collector, context: PaleoContext, line: Line) -> None:
        self._collector = collector
        self._context = context
        self._line = line
        self._times: list[str] = []

    def take(self, line: Line) -> bool:
        match = _FULL_PASS.fullmatch(line.text.lstrip(" \t"))
        if match is None:
            return False
        self._times.append(f"{match['phase'].lower()} {float(match['ms']):,.6g} ms")
        return True

    def close(self) -> None:
        if self._times:
            _ensure_session(self._collector, self._context, self._line.number)
            reason = f"full pass with TensorFlow: {', '.join(self._times)}; not part of any layer's time"
            self._collector.issue("info", self._line.number, self._line.text, reason)


class _Table:
    """A table of layer times, from its header to its sums."""

    def __init__(self, collector: Collector, context: PaleoContext, line: Line) -> None:
        self._collector = collector
        self._context = context
        self._header = line
        self._rows: list[_Row] = []
        self._damaged = False
        self._is_finished = False
        self._stray = 0
        _ensure_session(collector, context, line.number)

    def take(self, line: Line) -> bool:
        text = line.text.lstrip(" \t")
        if self._is_finished or _FOREIGN.match(text) or self._stray == MAX_STRAY_LINES:
            return False
        match = _ROW.fullmatch(text)
        if match is None or not (_NUMBER.fullmatch(match["ours"]) or _NUMBER.fullmatch(match["cudnn"])):
            self._stray += 1
            self._damaged = True
            reason = "expected a layer with three times in this table: line skipped"
            self._collector.issue("warning", line.number, line.text, reason)
            return True
        self._stray = 0
        if match["layer"] == "Sum":
            self._is_finished = True
            self._check_sums(match, line)
            return True
        try:
            self._rows.append(self._row(match, line))
        except ValueError as error:
            self._damaged = True
            self._collector.issue("warning", line.number, line.text, f"{error}: this layer is skipped")
        return True

    def _row(self, match: re.Match[str], line: Line) -> _Row:
        """Return a row; a cell that is no time or algorithm raises ValueError."""
        times = {column: _time_ms(match[column]) for column in ("ours", *EXECUTORS)}
        algorithms = _ALGORITHMS.fullmatch(" ".join(match["rest"].split()))
        if algorithms is None:
            raise ValueError(f"expected the algorithms ours_alg and cu_alg, found {match['rest'].strip()!r}")
        predicted: str | None = algorithms["ours"] or None
        workspace_bytes = None
        if predicted and (workspace := _WORKSPACE.fullmatch(predicted)):
            predicted = workspace["name"]
            workspace_bytes = int(Decimal(workspace["mb"]) * BYTES_PER_MB)
        elif predicted == "Heuristic disabled.":
            predicted = None
        return _Row(match["layer"], times, algorithms["cudnn"], predicted, workspace_bytes, line.number)

    def _check_sums(self, match: re.Match[str], line: Line) -> None:
        """Report columns whose layers do not add up to the printed total, within its rounding."""
        if self._damaged:
            return
        for column in ("ours", *EXECUTORS):
            printed = match[column]
            if not _NUMBER.fullmatch(printed):
                self._collector.issue("warning", line.number, line.text, f"the total of {column} is not a number")
                continue
            values = [value for row in self._rows if (value := row.times[column]) is not None]
            decimals = max(map(_decimals, values), default=0)
            total = Decimal(printed)
            step = sum((_step(value, decimals) for value in (*values, total)), Decimal(0))
            if abs(sum(values, Decimal(0)) - total) > step / 2:
                reason = f"the layers above add up to {sum(values, Decimal(0))} ms of {column}, not to {printed} ms"
                self._collector.issue("warning", line.number, line.text, reason)

    def close(self) -> None:
        """Add a row of ``layers`` for each layer and executor that ran; without one, Paleo's prediction as the time."""
        if not self._is_finished:
            self._damaged = True
            reason = "the table ends without totals: layers may be missing"
            self._collector.issue("warning", self._header.number, self._header.text, reason)
        ran = [column for column in EXECUTORS if any(row.times[column] is not None for row in self._rows)]
        statics = self._statics()
        for position, row in enumerate(self._rows):
            static = statics.get(row.layer)
            layer: dict[str, Value] = {
                "model": self._context.network,
                "position": position,
                "layer": row.layer,
                "op_type": static.op_type if static else None,
                "phase": self._context.phase,
                "output_shape": static.output_shape if static else None,
                "filter_shape": static.filter_shape if static else None,
                "params": static.params if static else None,
                "workspace_bytes": row.workspace_bytes,
                "measured": bool(ran),
                "line": row.line,
            }
            prediction = _ns(row.times["ours"])
            if not ran:
                times = {"algorithm": row.predicted_algorithm, "time_ns": prediction}
                self._collector.add("layers", {**layer, "executor": "paleo", **times})
            predicted = {"predicted_ns": prediction, "predicted_algorithm": row.predicted_algorithm}
            for executor in ran:
                algorithm = row.algorithm if executor == "cudnn" else None
                times = {"algorithm": algorithm, "time_ns": _ns(row.times[executor])}
                self._collector.add("layers", {**layer, "executor": executor, **times, **predicted})

    def _statics(self) -> dict[str, StaticLayer]:
        """Return the layers of the static summary; empty if it is of another network.

        The tables omit the input layer, ``data``.
        """
        statics = self._context.statics
        expected = [layer for layer in statics if layer != "data"]
        layers = [row.layer for row in self._rows]
        if not statics or layers == expected or (self._damaged and set(layers) <= set(expected)):
            return statics
        reason = "the static summary above has different layers: shapes and parameters of this table are unknown"
        self._collector.issue("info", self._header.number, self._header.text, reason)
        return {}


class _PaleoReader:
    """Reads Paleo's lines in one text."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._context = PaleoContext()

    def begin(self, line: Line) -> Section | bool:
        """Open a summary, a full pass or a table, or read a line about the next table."""
        text = line.text.lstrip(" \t")
        if text.startswith(_SUMMARY_START):
            self._context.first_line = self._context.first_line or line.number
            return PaleoSummary(self._collector, self._context)
        if text.startswith(_FULL_PASS_START):
            self._context.first_line = self._context.first_line or line.number
            return _FullPass(self._collector, self._context, line)
        if _HEADER.fullmatch(text):
            if self._context.direction is None:
                reason = "the line 'Direction: …' above this table is missing: the phase of its layers is unknown"
                self._collector.issue("info", line.number, text, reason)
            return _Table(self._collector, self._context, line)
        if match := _CONTEXT.fullmatch(text):
            self._note(match["key"], match["value"].strip() or None, line.number)
            return True
        return False

    def _note(self, key: str, value: str | None, number: int) -> None:
        context = self._context
        if key == "Network":
            context.network, context.direction, context.gradient = value, None, None
            context.network_line = number
        elif key == "Direction":
            context.direction, context.gradient = value, None
        else:
            context.gradient = value

    def finish(self) -> None:
        """Do nothing: tables end with their section."""


PALEO: Final = TextFormat(
    FORMAT,
    (
        rb"^[ \t]*(?:A summary of static characteristics of network\.|Fullpass profiling with Tensorflow"
        rb"|layer\s+ours\s+cudnn\s|Network: |Direction: |Gradient wrt: )"
    ),
    _PaleoReader,
)
"""The format, for the list of text formats.

Rows of ``layers``: one for each line of a table and executor that ran, the executor's time in ``time_ns`` and Paleo's
prediction beside it in ``predicted_ns``. A table that ran nothing gives rows of the executor ``paleo``, the prediction
in ``time_ns`` and ``measured`` false.
"""
