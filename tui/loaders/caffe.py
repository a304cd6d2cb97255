"""Reads the log of ``caffe time``: the network, and forward and backward times of each layer.

Newer versions print averages over the iterations (``conv1  forward: 4.6583 ms.``); the oldest print the time of all
iterations together (``conv1  forward: 46.583 milliseconds.``), which is divided by their number here. Lines of a
benchmark may lack glog's prefix, which people cut from logs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from math import prod
from typing import TYPE_CHECKING, Final

from tui.loaders.base import Format
from tui.loaders.text.section import TextFormat

if TYPE_CHECKING:
    from tui.loaders.collector import Collector, Session
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section


Message = dict[str, list["Value"]]
"""A message in protobuf's text format: every field can repeat."""

Value = str | Message

_FIELD: Final = re.compile(r"\s*(?P<key>\w+)\s*:\s*(?P<value>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s{}]+)\s*")
_OPEN: Final = re.compile(r"\s*(?P<key>\w+)\s*(?::\s*)?\{\s*")
_CLOSE: Final = re.compile(r"\s*\}\s*")
_COUNT: Final = re.compile(r"[0-9]{1,10}")
_MAX_LINE_LENGTH: Final = 4_000
"""Characters of a line of a dump; longer lines say nothing about a layer."""

_ESCAPE: Final = re.compile(r"\\(.)")


class PrototxtParser:
    """Parses the dump of a network definition: one field, opening or closing brace per line."""

    def __init__(self) -> None:
        self.message: Message = {}
        self._open: list[Message] = [self.message]

    def take(self, text: str) -> bool:
        """Read a line; False if it is not part of the dump."""
        if len(text) > _MAX_LINE_LENGTH:
            return False
        if match := _FIELD.fullmatch(text):
            value = match["value"]
            if value[0] in "\"'":
                value = _ESCAPE.sub(r"\1", value[1:-1])
            self._open[-1].setdefault(match["key"], []).append(value)
            return True
        if match := _OPEN.fullmatch(text):
            inner: Message = {}
            self._open[-1].setdefault(match["key"], []).append(inner)
            self._open.append(inner)
            return True
        if _CLOSE.fullmatch(text) and len(self._open) > 1:
            self._open.pop()
            return True
        return False


def _text(message: Message, key: str) -> str | None:
    value = message.get(key, [None])[0]
    return value if isinstance(value, str) else None


def _numbers(message: Message, key: str) -> tuple[int, ...]:
    return tuple(int(value) for value in message.get(key, ()) if isinstance(value, str) and _COUNT.fullmatch(value))


def _number(message: Message, key: str) -> int | None:
    numbers = _numbers(message, key)
    return numbers[0] if len(numbers) == 1 else None


def _messages(message: Message, key: str) -> list[Message]:
    return [value for value in message.get(key, ()) if isinstance(value, dict)]


_MAX_PARAMS: Final = 10**15
"""The most parameters of a plausible layer."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The weights of a layer: their shape in Caffe's order, and the number of parameters with the bias."""

    shape: tuple[int, ...]
    """The shape without the bias."""
    params: int
    """Weights and biases."""


@dataclass(slots=True)
class Network:
    """The network of a log, as far as known."""

    name: str | None = None
    layers: dict[str, Message] = field(default_factory=dict)
    """The definition of each layer, by its name."""
    blobs: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """The shape of each blob, by its name."""
    bottoms: dict[str, list[str]] = field(default_factory=dict)
    """The names of each layer's inputs."""
    tops: dict[str, list[str]] = field(default_factory=dict)
    """The names of each layer's outputs."""
    shapes: dict[str, list[tuple[int, ...]]] = field(default_factory=dict)
    """The shapes of each layer's outputs, in the order of its tops."""

    def define(self, text: PrototxtParser) -> None:
        """Set the definition."""
        self.name = _text(text.message, "name")
        for layer in _messages(text.message, "layer") + _messages(text.message, "layers"):
            if (name := _text(layer, "name")) is not None:
                self.layers[name] = layer
        inputs = [value for value in text.message.get("input", ()) if isinstance(value, str)]
        shapes = [_numbers(shape, "dim") for shape in _messages(text.message, "input_shape")]
        dims = _numbers(text.message, "input_dim")
        # In older definitions, the shape of each input is four numbers.
        shapes = shapes or [dims[start : start + 4] for start in range(0, len(dims), 4)]
        if len(shapes) == len(inputs):
            self.blobs.update(zip(inputs, shapes, strict=True))

    def begin_layer(self, layer: str) -> None:
        """Begin the set-up of a layer: the following lines belong to it."""
        self.bottoms[layer], self.tops[layer], self.shapes[layer] = [], [], []

    def top_shape(self, layer: str, shape: tuple[int, ...]) -> None:
        """Add the shape of the next output of a layer."""
        shapes = self.shapes.setdefault(layer, [])
        tops = self.tops.get(layer, [])
        if len(shapes) < len(tops):
            self.blobs[tops[len(shapes)]] = shape
        shapes.append(shape)

    def op_type(self, layer: str) -> str | None:
        """Return the type of a layer in the dump; None for layers that Caffe inserts (Split)."""
        return _text(self.layers.get(layer, {}), "type")

    def output_shape(self, layer: str) -> tuple[int, ...] | None:
        """Return the shape of the layer's first output."""
        shapes = self.shapes.get(layer)
        return shapes[0] if shapes else None

    def filter(self, layer: str) -> Filter | None:
        """Return the weights of a convolution or inner product layer; None if the log does not show their shape."""
        definition = self.layers.get(layer, {})
        bottoms = self.bottoms.get(layer) or [name for name in definition.get("bottom", ()) if isinstance(name, str)]
        inputs = self.blobs.get(bottoms[0]) if bottoms else None
        if inputs is None:
            return None
        kind = (_text(definition, "type") or "").replace("_", "").lower()
        if kind in ("convolution", "deconvolution"):
            return _convolution(definition, inputs, transposed=kind == "deconvolution")
        if kind == "innerproduct":
            return _inner_product(definition, inputs)
        return None


def _convolution(definition: Message, inputs: tuple[int, ...], *, transposed: bool) -> Filter | None:
    """Return the weights as outputs, inputs per group, kernel height and width; transposed swaps the first two."""
    params = next(iter(_messages(definition, "convolution_param")), {})
    outputs = _number(params, "num_output")
    kernel = _numbers(params, "kernel_size") or _numbers(params, "kernel_h") + _numbers(params, "kernel_w")
    group = _number(params, "group") if "group" in params else 1
    if outputs is None or not group or not kernel or "axis" in params or len(inputs) < 3:
        return None
    if len(kernel) == 1:
        kernel *= len(inputs) - 2
    channels = inputs[1]
    first, second = (channels, outputs // group) if transposed else (outputs, channels // group)
    return _filter(params, outputs, (first, second, *kernel))


def _inner_product(definition: Message, inputs: tuple[int, ...]) -> Filter | None:
    """Return the weights: outputs, inputs (all axes from the second)."""
    params = next(iter(_messages(definition, "inner_product_param")), {})
    outputs = _number(params, "num_output")
    if outputs is None or "axis" in params or "transpose" in params or len(inputs) < 2:
        return None
    return _filter(params, outputs, (outputs, prod(inputs[1:])))


def _filter(params: Message, outputs: int, shape: tuple[int, ...]) -> Filter | None:
    """Return the weights with their number of parameters, a bias per output included; None if implausibly many."""
    count = prod(shape) + (outputs if _text(params, "bias_term") != "false" else 0)
    return Filter(shape, count) if count < _MAX_PARAMS else None


NS_PER_MS: Final = 1_000_000

MAX_MS: Final = 10**12
"""The longest plausible time, over 30 years."""

SIGNIFICANT_DIGITS: Final = 6
"""The digits of a float that C++ streams print."""

FORMAT: Final = Format(
    name="caffe",
    title="caffe time",
    recognized_by="Caffe log lines with the time of each layer: 'caffe.cpp:369] conv1 forward: 4.6583 ms.'",
    feeds=("sessions", "layers", "issues"),
    record_with="caffe time -model net.prototxt -gpu 0 -iterations 10 2> run.log",
)

_QUOTE_MARK: Final = r"[ \t]*(?:(?:[#*>|%]|//)[ \t]*)?"
_PREFIX: Final = (
    _QUOTE_MARK + r"[IWEF][0-9]{4}(?:[0-9]{4})? [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]+\s+"
    r"(?P<tid>[0-9]{1,18}) [\w./-]+:[0-9]+\] "
)
_LOG: Final = re.compile(_PREFIX + r"(?P<message>.*)")
_WITHOUT_PREFIX: Final = re.compile(_QUOTE_MARK + r"(?P<message>[^\]\s][^\]]*)")
_NUMBER: Final = r"(?P<ms>[0-9]{1,12}(?:\.[0-9]{0,18})?(?:[eE][+-]?[0-9]{1,3})?|-?nan|-?inf)"
_UNIT: Final = r" (?P<unit>ms|milli ?seconds)\.?\s*"

_CREATING: Final = re.compile(r"Creating Layer (?P<layer>.+)")
_SETTING_UP: Final = re.compile(r"Setting up (?P<layer>.+)")
_BOTTOM: Final = re.compile(r"(?P<layer>.+) <- (?P<blob>\S+)")
_TOP: Final = re.compile(r"(?P<layer>.+) -> (?P<blob>\S+)(?: \(in-place\))?")
_TOP_SHAPE: Final = re.compile(r"Top shape: (?P<dims>[0-9]{1,10}(?: [0-9]{1,10}){0,31}) \([0-9]+\)\s*")
_DEVICE: Final = re.compile(r"Use (?:(?P<cpu>CPU\.)|GPUs? with device ID\b.*)\s*")
_ITERATIONS: Final = re.compile(r"Testing for (?P<count>[0-9]{1,10}) iterations\.\s*")
_LAYER_TIME: Final = re.compile(r"\s*(?P<layer>\S+(?: \S+)*?)\s+(?P<phase>forward|backward): " + _NUMBER + _UNIT)
_TIME_OF_LAYER: Final = re.compile(r"\S\s+(?:forward|backward): +\S+ (?:ms|milli ?seconds)\.?\s*$")
_PASS: Final = re.compile(r"(?:Average )?(?P<phase>Forward pass|Backward pass|Forward-Backward): " + _NUMBER + _UNIT)
_KNOWN_MESSAGES: Final = re.compile(
    r"\*\*\* Benchmark (?:begins|ends) \*\*\*|Average time per layer: *|Total Time: .*"
    r"|Iteration: [0-9]+ forward-backward time: .*"
)

_BEGINNING: Final = re.compile(
    r"\*\*\* Benchmark begins \*\*\*\s*|Testing for [0-9]{1,10} iterations\.\s*|Average time per layer: *"
    r"|\S+\t(?:forward|backward): \S+ ms\.\s*"
)
"""A line that only Caffe prints: before the times of layers, or one of them with its tab."""

_PHASES: Final = {"Forward pass": "forward", "Backward pass": "backward"}


def _size(shape: tuple[int, ...] | None) -> str | None:
    return "x".join(map(str, shape)) if shape else None


def _rounding_error(value: Decimal) -> Decimal:
    """Return the largest rounding error of a printed number."""
    return Decimal(5).scaleb(value.adjusted() - SIGNIFICANT_DIGITS)


def _decimal_text(ms: Decimal) -> str:
    """Return milliseconds as text, without exponent, to the nanosecond."""
    return f"{round(ms, 6).normalize():f}"


@dataclass(slots=True)
class _TimingLoop:
    """One run of the timing loop."""

    iterations: int | None = None
    positions: dict[str, int] = field(default_factory=dict)
    """The position of each layer in the network, which is the order of timing."""
    times: dict[str, list[Decimal]] = field(default_factory=dict)
    """The times of each phase as printed, in milliseconds."""
    is_finished: bool = False
    last_line: int = 0


class _NetworkDump:
    """The network definition that Caffe logs before it builds the network."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._text = PrototxtParser()

    def take(self, line: Line) -> bool:
        return self._text.take(line.text)

    def close(self) -> None:
        self._network.define(self._text)


class _CaffeReader:
    """Reads Caffe's lines in one text."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._network = Network()
        self._layer: str | None = None
        self._benchmark = _TimingLoop()
        self._session: Session | None = None
        self._is_without_prefix = False
        self._executor = "caffe"

    def begin(self, line: Line) -> Section | bool:
        """Read a line of Caffe's log: the network, its set-up, or a time."""
        log = _LOG.fullmatch(line.text)
        if log is None:
            return self._begin_without_prefix(line) or self._report_damaged_line(line)
        self._is_without_prefix = False
        message = log["message"]
        if message.startswith("Initializing net from parameters"):
            self._network, self._layer = Network(), None
            return _NetworkDump(self._network)
        return (
            self._benchmark_line(message, line, int(log["tid"]))
            or self._set_up(message)
            or _KNOWN_MESSAGES.fullmatch(message) is not None
            or self._report_damaged_line(line)
        )

    def _begin_without_prefix(self, line: Line) -> bool:
        """Read a line of a benchmark without glog's prefix, from a line on that only Caffe prints."""
        bare = _WITHOUT_PREFIX.fullmatch(line.text)
        if bare is None:
            return False
        message = bare["message"]
        if _BEGINNING.fullmatch(message):
            self._is_without_prefix = True
        return self._is_without_prefix and self._benchmark_line(message, line, None)

    def _benchmark_line(self, message: str, line: Line, tid: int | None) -> bool:
        """Read the device, the number of iterations, or a time."""
        if match := _LAYER_TIME.fullmatch(message):
            self._layer_time(match, line, tid)
        elif match := _PASS.fullmatch(message):
            self._pass_time(match, line)
        elif match := _DEVICE.fullmatch(message):
            self._executor = "caffe (CPU)" if match["cpu"] else "caffe"
        elif match := _ITERATIONS.fullmatch(message):
            self.finish()
            self._benchmark = _TimingLoop(int(match["count"]))
        else:
            return False
        return True

    def _report_damaged_line(self, line: Line) -> bool:
        """Report an unreadable line within the timing loop that can only be the time of a layer."""
        if not self._benchmark.positions or self._benchmark.is_finished or not _TIME_OF_LAYER.search(line.text):
            return False
        reason = "damaged line, probably the time of a layer: skipped"
        self._collector.issue("warning", line.number, line.text, reason)
        return True

    def _set_up(self, message: str) -> bool:
        network = self._network
        if match := _CREATING.fullmatch(message):
            self._layer = match["layer"].strip()
            network.begin_layer(self._layer)
        elif match := _SETTING_UP.fullmatch(message):
            self._layer = match["layer"].strip()
        elif match := _TOP_SHAPE.fullmatch(message):
            if self._layer is not None:
                network.top_shape(self._layer, tuple(map(int, match["dims"].split())))
        elif (match := _BOTTOM.fullmatch(message)) and match["layer"] in network.bottoms:
            network.bottoms[match["layer"]].append(match["blob"])
        elif (match := _TOP.fullmatch(message)) and match["layer"] in network.tops:
            network.tops[match["layer"]].append(match["blob"])
        else:
            return False
        return True

    def _layer_time(self, match: re.Match[str], line: Line, tid: int | None) -> None:
        if self._benchmark.is_finished:
            self._benchmark = _TimingLoop()
        benchmark = self._benchmark
        self._ensure_session(line.number, tid)
        benchmark.last_line = line.number
        layer, phase, ms = match["layer"], match["phase"], self._milliseconds(match, line)
        position = benchmark.positions.setdefault(layer, len(benchmark.positions))
        if ms is not None:
            benchmark.times.setdefault(phase, []).append(ms)
        network = self._network
        weights = network.filter(layer)
        self._collector.add(
            "layers",
            {
                "model": network.name,
                "position": position,
                "layer": layer,
                "op_type": network.op_type(layer),
                "phase": phase,
                "output_shape": _size(network.output_shape(layer)),
                "filter_shape": _size(weights.shape) if weights else None,
                "params": weights.params if weights else None,
                "executor": self._executor,
                "time_ns": None if ms is None else int((ms * NS_PER_MS).to_integral_value()),
                "measured": True,
                "line": line.number,
            },
        )

    def _milliseconds(self, match: re.Match[str], line: Line) -> Decimal | None:
        """Return the time of one iteration; None, with an issue, if the log does not show it."""
        if "n" in match["ms"] or Decimal(match["ms"]) > MAX_MS:
            reason = "implausible time for a pass: shown as unknown"
        elif match["unit"] == "ms":
            return Decimal(match["ms"])
        elif self._benchmark.iterations:
            return Decimal(match["ms"]) / self._benchmark.iterations
        else:
            reason = (
                "this is the total of all iterations, and the log does not record their number: the time of each is "
                "unknown"
            )
        self._collector.issue("warning", line.number, line.text, reason)
        return None

    def _pass_time(self, match: re.Match[str], line: Line) -> None:
        """Add the time of a whole pass; the rest beyond the sum of its layers is Caffe's own."""
        benchmark = self._benchmark
        if self._session is None or not benchmark.positions or "n" in match["ms"]:
            return
        total_ms = self._milliseconds(match, line)
        if total_ms is None:
            return
        last_phase = "Forward-Backward" if match["unit"] == "ms" else "Backward pass"
        benchmark.is_finished = match["phase"] == last_phase
        phases = (_PHASES[match["phase"]],) if match["phase"] in _PHASES else ("forward", "backward")
        times = [time for phase in phases for time in benchmark.times.get(phase, ())]
        overhead_ms = total_ms - sum(times, Decimal(0))
        over = "an average" + (f" (iterations: {benchmark.iterations})" if benchmark.iterations else "")
        error = sum((_rounding_error(time) for time in (*times, total_ms)), Decimal(0))
        if len(phases) == 2:
            # Without GPU, Caffe takes the time of all iterations in whole milliseconds, the rest cut off.
            error += Decimal(1) / (benchmark.iterations or 1)
        if overhead_ms < -error:
            excess = _decimal_text(-overhead_ms)
            reason = f"the layers above add up to {excess} ms more than this {' and '.join(phases)} pass"
            self._collector.issue("warning", line.number, line.text, reason)
            return
        share = f"{_decimal_text(max(overhead_ms, Decimal(0)))} ms outside the layers"
        reason = f"{_decimal_text(total_ms)} ms {' and '.join(phases)}, {over}; {share}"
        self._collector.issue("info", line.number, line.text, reason)

    def _ensure_session(self, line: int, tid: int | None) -> None:
        """Use the session of the run that nvprof profiles, if any; a second timing loop gets its own session."""
        session = self._collector.session
        if session is None or (self._benchmark.positions == {} and not self._fits(session, tid)):
            session = self._collector.open_session(FORMAT.name, line, pid=tid)
        if "framework" not in session.facts:
            session.facts["framework"] = "Caffe"
        self._session = session

    def _fits(self, session: Session, tid: int | None) -> bool:
        """Return whether a new timing loop belongs to the session; the id of Caffe's main thread is the process id."""
        return session is not self._session and (tid is None or session.pid in (None, tid))

    def finish(self) -> None:
        """Report a truncated timing loop."""
        benchmark = self._benchmark
        if benchmark.positions and not benchmark.is_finished:
            reason = "the log ends before the averages of this benchmark: layers may be missing"
            self._collector.issue("warning", benchmark.last_line, "", reason)
            benchmark.is_finished = True


CAFFE: Final = TextFormat(
    FORMAT,
    (
        rb"^[ \t]*(?:(?:[#*>|%]|//)[ \t]*)?[IWEF]\d{4}(?:\d{4})? \d\d:\d\d:\d\d\.\d+ +\d+ [\w./-]+:\d+\] +"
        rb"(?:Initializing net from|Use CPU|Use GPU|Creating Layer |Setting up |Top shape: |Testing for \d|Average "
        rb"|Total Time: |Iteration: \d|\*\*\* Benchmark |Forward pass: |Backward pass: "
        rb"|\S.* (?:<-|->) |\S.*\s(?:forward|backward): )|\s(?:forward|backward): +\S+ (?:ms|milli)"
        rb"|^[ \t]*(?:(?:[#*>|%]|//)[ \t]*)?(?:\*\*\* Benchmark begins|Testing for \d+ iterations\."
        rb"|Average time per layer:|(?:Average )?(?:Forward pass|Backward pass|Forward-Backward): )"
    ),
    _CaffeReader,
)
"""The format, for the list of text formats."""
