"""Optional packages that some export formats need."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Final

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from types import ModuleType

NEEDED: Final = {
    "xlsx": ("xlsxwriter", "excel", "Excel files"),
    "pdf": ("reportlab.pdfgen.canvas", "pdf", "PDF files"),
}
"""For each such format the module, the extra of proftui that installs it, and what it is for."""


def load(format_name: str) -> ModuleType:
    """The module that writes a format.

    Raises:
        ProftuiError: It is not installed; says the command.
    """
    try:
        return importlib.import_module(NEEDED[format_name][0])
    except ImportError:
        raise ProftuiError(*_words(format_name)) from None


def missing(format_name: str) -> str:
    """Why a format cannot be written for want of its package, with the command; empty where it can."""
    if format_name not in NEEDED:
        return ""
    try:
        is_there = importlib.util.find_spec(NEEDED[format_name][0].partition(".")[0]) is not None
    except (ImportError, ValueError):
        is_there = False
    return "" if is_there else "; ".join(_words(format_name))


def _words(format_name: str) -> tuple[str, str]:
    module, extra, purpose = NEEDED[format_name]
    return f"{purpose} need the package {module.partition('.')[0]}", f"pip install 'proftui[{extra}]'"
