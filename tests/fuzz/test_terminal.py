"""Hostile names of files, kernels, columns and arguments: no command writes them raw to a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from tests.fuzz.inputs import inputs
from tests.fuzz.survival import RAW
from tests.pseudo_terminal import PROGRAM, run_on_terminal
from tui.cli.crash import STATUS as CRASH_STATUS
from tui.output.export import for_terminal
from tui.query.sql.run import result_spec, with_row_numbers
from tui.text import printable

NAME = "\x1b]52;c;QUJD\x07\x1b[31m\x9b31m\u202e\x7f"
"""Sets the clipboard, colors, turns the direction of writing; no slash, so that a file can be called so."""
FORMATS = ("text", "csv", "tsv", "json", "ndjson", "markdown")


def commands(file: str, folder: str) -> list[list[str]]:
    """Return command lines with the name in every position where one is possible."""
    return [
        *(
            ["sql", file, f'SELECT kind AS "a{NAME}", name FROM kernels', "--format", format_name]
            for format_name in FORMATS
        ),
        *(["sql", file, f"SELECT '{NAME}' FROM kernels", "--format", format_name] for format_name in FORMATS),
        *(["sql", file, text] for text in (f'SELECT "{NAME}"', f'SELECT * FROM "{NAME}"', NAME, f"SELECT '{NAME}")),
        *(["report", file, "--view", view] for view in ("dashboard", "kernels", "findings", "issues", NAME)),
        *(["report", file, "--view", "kernels", "--format", format_name] for format_name in ("markdown", "json")),
        *(["check", file, "--format", format_name] for format_name in ("text", "json", "markdown", "sarif")),
        *(["report", file, option, NAME] for option in ("--gpu", "--key", "--iterations", "--format-in", "--color")),
        ["export", file, "--frame", NAME],
        ["export", file, "--frame", "kernels", "-o", f"{folder}/{NAME}/x.csv"],
        ["inspect", file],
        ["diff", file, file],
        ["report", file, "--format", "html"],
        ["baseline", "save", "x", file, "--dir", folder],
        ["baseline", "list", "--dir", folder],
        *(
            ["diff", "--baseline", "x", file, "--dir", folder, "--format", format_name]
            for format_name in ("text", "markdown", "json")
        ),
        ["diff", "--baseline", NAME, file],
        ["convert", file, "-o", f"{folder}/{NAME}.parts"],
        ["report", f"{folder}/{NAME}"],
        [f"--{NAME}"],
        [NAME],
    ]


@pytest.mark.slow
def test_no_command_writes_a_hostile_name_raw(tmp_path: Path) -> None:
    _, log = inputs()["caffe_conv1.nvprof.log"]
    file = tmp_path / f"run{NAME}.log"
    file.write_bytes(log.replace(b"cudnn", b"cudnn" + NAME.encode()))
    for arguments in commands(str(file), str(tmp_path)):
        status, written = run_on_terminal([*PROGRAM, *arguments], stdin=b"")
        assert status != CRASH_STATUS
        assert written
        # Our own styles are bold and dim, and no 31.
        without_styles = re.sub(r"\x1b\[[0-9;]*m", lambda match: match[0] if "31" in match[0] else "", written)
        match = RAW.search(without_styles)
        assert match is None, (arguments, match)


def test_headings_are_cleaned_like_values() -> None:
    frame = pl.DataFrame({f"a{NAME}": [f"x{NAME}"], f"a{NAME.replace(chr(7), chr(8))}": ["y"]})
    shown = for_terminal(frame)
    assert shown.columns == ["a·]52;c;QUJD··[31m·31m··", "a·]52;c;QUJD··[31m·31m·· (2)"]
    assert shown.row(0) == ("x·]52;c;QUJD··[31m·31m··", "y")
    assert not any(RAW.search(column.title + column.help) for column in result_spec(with_row_numbers(frame)).columns)


def test_printable_keeps_only_line_ends_tabs_and_styles() -> None:
    assert printable("\x1b[1;38;5;7mbold\x1b[0m\n\ttab\r\x1b[2J\x1b]0;t\x07\x9b\u202e") == (
        "\x1b[1;38;5;7mbold\x1b[0m\n\ttab··[2J·]0;t···"
    )
