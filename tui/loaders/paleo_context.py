"""What a Paleo text says above its tables: the network, the direction, and the static summary of the layers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tui.loaders.collector import Collector
    from tui.loaders.text.section import Line

_SUMMARY_ROW: Final = re.compile(r"\s+(?P<layer>\S+)\s+\[(?P<outputs>[\d, ]+)\]\s*(?P<rest>.*)")
_FILTERS: Final = re.compile(r"Filters: \[([\d, ]+)\]")
_PARAMS: Final = re.compile(r"Params: ([\d,]+)")
_PARAMS_TOTAL: Final = re.compile(r"Number of params: ([\d,]+)")

_TYPE_BY_DETAIL: Final = (
    ("Filters:", "conv2d"),
    ("Kernel:", "pool2d"),
    ("Keep prob:", "dropout"),
    ("Classes:", "softmax"),
)
"""Each kind of layer prints its own details: they tell the type, by Paleo's names."""


@dataclass(frozen=True, slots=True)
class Static:
    """A layer as the static summary describes it; shapes are batch, height, width, channels."""

    op_type: str | None
    """By Paleo's names, as ``conv2d``; None where its details do not tell."""
    output_shape: str
    """As ``128x55x55x96``."""
    filter_shape: str | None
    """None where the layer has no weights."""
    params: int | None
    """How many weights and biases."""


@dataclass(slots=True)
class Context:
    """What the lines above a table say of it."""

    network: str | None = None
    """The file of the network, as Paleo prints it."""
    direction: str | None = None
    """forward or backward."""
    gradient: str | None = None
    """What a backward pass is with respect to: data or filter."""
    first_line: int | None = None
    """Where the first summary or full pass began."""
    network_line: int | None = None
    """Where the network was named last."""
    statics: dict[str, Static] = field(default_factory=dict)
    """The layers of the last static summary, by name, in its order."""

    @property
    def phase(self) -> str | None:
        """As the ``phase`` column of ``layers``: forward, backward data, backward filter."""
        if self.direction == "backward" and self.gradient:
            return f"backward {self.gradient}"
        return self.direction


def _shape(text: str) -> str:
    return "x".join(part.strip() for part in text.split(","))


_MAX_DIGITS: Final = 15
"""Of a number of parameters: more would not fit into any memory, and are damage."""


def _whole(text: str) -> int:
    digits = text.replace(",", "")
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"{text} is too large a number")
    return int(digits)


class Summary:
    """The static summary: one line a layer."""

    def __init__(self, collector: Collector, context: Context) -> None:
        self._collector = collector
        self._context = context
        self._params = 0
        context.statics = {}

    def take(self, line: Line) -> bool:
        """Read a layer, the sum of the parameters, or what stands between."""
        text = line.text
        try:
            if row := _SUMMARY_ROW.fullmatch(text):
                self._layer(row["layer"], row["outputs"], row["rest"])
                return True
            if total := _PARAMS_TOTAL.match(text.lstrip(" \t")):
                if _whole(total[1]) != self._params:
                    reason = f"the layers above have {self._params:,} parameters, the summary says {total[1]}"
                    self._collector.issue("warning", line.number, text, reason)
                return True
        except ValueError as error:
            self._collector.issue("warning", line.number, text, f"{error}; this line of the summary is left out")
            return True
        return text.strip().startswith(("LAYER", "Activation:"))

    def _layer(self, name: str, outputs: str, rest: str) -> None:
        filters = _FILTERS.search(rest)
        params = _PARAMS.search(rest)
        op_type = next((op_type for detail, op_type in _TYPE_BY_DETAIL if rest.startswith(detail)), None)
        if op_type == "conv2d" and "Pad:" not in rest:
            op_type = "deconv2d"
        static = Static(
            op_type, _shape(outputs), _shape(filters[1]) if filters else None, _whole(params[1]) if params else None
        )
        self._params += static.params or 0
        self._context.statics[name] = static

    def close(self) -> None:
        """The layers wait in the context for the tables."""
