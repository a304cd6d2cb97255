"""Reports on unified memory."""

from __future__ import annotations

import pytest

from tests.loaders.nsys_stats.test_text import as_text
from tests.loaders.reading import read, reasons, rows

TOTALS = (
    "Total HtoD Migration Size (MB),Total DtoH Migration Size (MB),Total CPU Page Faults,Total GPU PageFaults,"
    "Minimum Virtual Address,Maximum Virtual Address\n"
    "3050.439,1073.676,15360,38007,0x7F9C80000000,0x7F9D7FF83000\n"
)
BY_ADDRESS = (
    "Virtual Address,HtoD Migration Size (MB),DtoH Migration Size (MB),CPU Page Faults,GPU PageFaults,"
    "Migration Throughput (MB/s)\n"
    "0x7F9C80000000,2.097,,3,,11000.5\n"
    "0x7F9C80200000,,0.066,,7,900.0\n"
)
BY_INSTRUCTION = "CPU Page Faults,CPU Instruction Address\n15,0x55D0C0DE\n"
IN_TEXT = as_text(
    "Unified Memory Totals Summary (um_total_sum)",
    {
        "Total HtoD Migration Size (MB)": ["3,050.439"],
        "Total DtoH Migration Size (MB)": ["1,073.676"],
        "Total CPU Page Faults": ["15,360"],
        "Total GPU PageFaults": ["38,007"],
        "Minimum Virtual Address": ["0x7F9C80000000"],
        "Maximum Virtual Address": ["0x7F9D7FF83000"],
    },
)
COLUMNS = ("tool", "section", "name", "value", "unit")


@pytest.mark.parametrize("text", [TOTALS, IN_TEXT], ids=["csv", "text"])
def test_totals_are_figures(text: str) -> None:
    profile = read(text)
    assert rows(profile, "tool_figures", *COLUMNS) == [
        ("Nsight Systems", "unified memory", "migrated HtoD", 3_050_439_000.0, "B"),
        ("Nsight Systems", "unified memory", "migrated DtoH", 1_073_676_000.0, "B"),
        ("Nsight Systems", "unified memory", "CPU page faults", 15360.0, None),
        ("Nsight Systems", "unified memory", "GPU page faults", 38007.0, None),
    ]
    assert reasons(profile) == []


def test_figures_by_address() -> None:
    assert rows(read(BY_ADDRESS), "tool_figures", *COLUMNS[1:], "line") == [
        ("unified memory, migrated HtoD", "0x7F9C80000000", 2_097_000.0, "B", 2),
        ("unified memory, migrated DtoH", "0x7F9C80200000", 66_000.0, "B", 3),
        ("unified memory, CPU page faults", "0x7F9C80000000", 3.0, None, 2),
        ("unified memory, GPU page faults", "0x7F9C80200000", 7.0, None, 3),
    ]


def test_figures_by_instruction() -> None:
    assert rows(read(BY_INSTRUCTION), "tool_figures", *COLUMNS[1:]) == [
        ("unified memory, CPU page faults", "0x55D0C0DE", 15.0, None)
    ]


def test_a_size_in_an_unknown_unit_is_unknown() -> None:
    figures = read(TOTALS.replace("(MB)", "(pages)"))["tool_figures"]
    assert figures["name"].to_list() == ["CPU page faults", "GPU page faults"]
