"""Copies are held to what their link does."""

from __future__ import annotations

import pytest

from tests.analysis.expert.judging import ask
from tests.analysis.expert.profiles import MS, moved, run, traced
from tui.analysis.expert.model import Clean, Found


@pytest.mark.parametrize(
    ("name", "capability", "ceiling"),
    [
        ("Tesla C2050", "2.0", 6e9),
        ("Tesla K20m", "3.5", 6e9),
        ("a GPU", "3.5", 6e9),
        ("Tesla K40c", "3.5", 12e9),
        ("GeForce GTX 680", "3.0", 12e9),
        ("Quadro K5000", "3.0", 6e9),
        ("Tesla K80", "3.7", 12e9),
        ("Tesla V100-SXM2-16GB", "7.0", 12e9),
        ("NVIDIA A100-SXM4-40GB", "8.0", 24e9),
        ("NVIDIA H100 PCIe", "9.0", 50e9),
    ],
)
def test_copies_are_held_to_the_generation_of_their_link(name: str, capability: str, ceiling: float) -> None:
    """At 5 GB/s copies are healthy over PCIe 2 alone."""
    device = {"device": 0, "name": name, "compute_capability": capability}
    told = ask("T5", traced(run(0, MS), moved(0, 2 * MS, size=10 * MS), devices=[device]))
    assert isinstance(told, Clean if ceiling == 6e9 else Found)
    assert (told.numbers["rate"], told.numbers["ceiling"]) == (5e9, ceiling)
