"""What a Caffe log says of the network itself: the dump of its definition, and the shapes that set-up prints."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import prod
from typing import Final

Message = dict[str, list["Value"]]
"""A message in protobuf's text format: every field can repeat."""

Value = str | Message

_FIELD: Final = re.compile(r"\s*(?P<key>\w+)\s*:\s*(?P<value>\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[^\s{}]+)\s*")
_OPEN: Final = re.compile(r"\s*(?P<key>\w+)\s*:?\s*\{\s*")
_CLOSE: Final = re.compile(r"\s*\}\s*")
_COUNT: Final = re.compile(r"\d{1,10}")
_MAX_LINE: Final = 4_000
"""Characters: no line of a dump that says anything of a layer is longer."""

_ESCAPE: Final = re.compile(r"\\(.)")


class NetText:
    """Reads the dump of a network definition, as Caffe prints it: one field, opening or closing brace a line."""

    def __init__(self) -> None:
        self.message: Message = {}
        self._open: list[Message] = [self.message]

    def take(self, text: str) -> bool:
        """Read a line; False where it is no line of such a dump."""
        if len(text) > _MAX_LINE:
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
"""More than any memory holds."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The weights of a layer: their shape in Caffe's order, and how many parameters they are with the bias."""

    shape: tuple[int, ...]
    """Without the bias."""
    params: int
    """Weights and biases."""


@dataclass(slots=True)
class Network:
    """What is known of one network of a log."""

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

    def define(self, text: NetText) -> None:
        """Take over the dump of the definition."""
        self.name = _text(text.message, "name")
        for layer in _messages(text.message, "layer") + _messages(text.message, "layers"):
            if (name := _text(layer, "name")) is not None:
                self.layers[name] = layer
        inputs = [value for value in text.message.get("input", ()) if isinstance(value, str)]
        shapes = [_numbers(shape, "dim") for shape in _messages(text.message, "input_shape")]
        dims = _numbers(text.message, "input_dim")
        # The older way to give the shapes of the inputs: four numbers for each.
        shapes = shapes or [dims[start : start + 4] for start in range(0, len(dims), 4)]
        if len(shapes) == len(inputs):
            self.blobs.update(zip(inputs, shapes, strict=True))

    def begin_layer(self, layer: str) -> None:
        """Its set-up begins: what follows is of this layer."""
        self.bottoms[layer], self.tops[layer], self.shapes[layer] = [], [], []

    def top_shape(self, layer: str, shape: tuple[int, ...]) -> None:
        """The shape of the layer's next output."""
        shapes = self.shapes.setdefault(layer, [])
        tops = self.tops.get(layer, [])
        if len(shapes) < len(tops):
            self.blobs[tops[len(shapes)]] = shape
        shapes.append(shape)

    def op_type(self, layer: str) -> str | None:
        """The layer's type as the dump names it; a Split, which Caffe adds by itself, is in no dump."""
        return _text(self.layers.get(layer, {}), "type")

    def output_shape(self, layer: str) -> tuple[int, ...] | None:
        """The shape of the layer's first output."""
        shapes = self.shapes.get(layer)
        return shapes[0] if shapes else None

    def filter(self, layer: str) -> Filter | None:
        """The layer's weights, where the log proves their shape: convolution and inner product."""
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
    """Outputs, inputs of a group, kernel height, kernel width; the first two change places when transposed."""
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
    """Outputs, inputs: everything from the second axis on."""
    params = next(iter(_messages(definition, "inner_product_param")), {})
    outputs = _number(params, "num_output")
    if outputs is None or "axis" in params or "transpose" in params or len(inputs) < 2:
        return None
    return _filter(params, outputs, (outputs, prod(inputs[1:])))


def _filter(params: Message, outputs: int, shape: tuple[int, ...]) -> Filter | None:
    """With a bias for each output, unless the layer has none; more parameters than memory are damage."""
    count = prod(shape) + (outputs if _text(params, "bias_term") != "false" else 0)
    return Filter(shape, count) if count < _MAX_PARAMS else None
