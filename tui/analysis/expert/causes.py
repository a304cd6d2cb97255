"""Why time is lost: rules that see the same cause in different ways are one finding for a reader."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Cause(StrEnum):
    """What findings have in common; the values are what people read."""

    START_UP = "start-up"
    LAUNCH_BOUND = "launch-bound"
    PAUSES = "CPU pauses"
    INPUT = "input data"
    WAITS = "synchronization"
    ALLOCATION = "memory allocation"
    COPIES = "memory copies"
    COMMUNICATION = "communication"
    RANKS = "unequal ranks"
    SMALL_GRIDS = "underfilled GPU"
    PRECISION = "precision"
    LAYOUT = "data layout"
    FUSION = "unfused kernels"
    HOT_KERNEL = "hot kernel"
    GPUS = "unused GPUs"
    ITERATIONS = "uneven iterations"
    MEMORY = "GPU memory"


_RULES: Final = {
    Cause.START_UP: "A4 A9 A10 I10 P5 P12",
    Cause.LAUNCH_BOUND: "U1 U3 U6 U7 U10 A2 A3 A5 A6 A7 P11",
    Cause.PAUSES: "U2 U9 A14",
    Cause.INPUT: "I5 I6",
    Cause.WAITS: "A1 A13 T11",
    Cause.ALLOCATION: "A8",
    Cause.COPIES: "T1 T2 T3 T4 T5 T6 T7 T8 T9 T10 T12 T13 U8 A11",
    Cause.COMMUNICATION: "C1 C2 C3 C4 C6 C8 C9 P13",
    Cause.RANKS: "C5 C7",
    Cause.SMALL_GRIDS: "L1 L2 L3 L4 L5 L6 L7 L8 L9 A12",
    Cause.PRECISION: "P1 P2 P3",
    Cause.LAYOUT: "P4",
    Cause.FUSION: "P7 P8",
    Cause.HOT_KERNEL: "P10 L10",
    Cause.GPUS: "U4 U5",
    Cause.ITERATIONS: "I1 I2 I3 I4",
    Cause.MEMORY: "I7 I8 I9",
}
_BY_RULE: Final = {rule: cause.value for cause, rules in _RULES.items() for rule in rules.split()}


def cause_of(rule: str, name: str) -> str:
    """The cause that a rule looks at, where its finding names no other; a rule that shares none is its own.

    >>> cause_of("A2", "short-kernels"), cause_of("Q1", "impossible-rate")
    ('launch-bound', 'impossible rate')
    """
    return _BY_RULE.get(rule, name.replace("-", " "))
