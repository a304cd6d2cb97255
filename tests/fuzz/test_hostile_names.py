"""Hostile names in the whole explorer: none of their control characters reach the terminal."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.inputs import inputs
from tests.pseudo_terminal import PROGRAM, TerminalProgram
from tui.views import VIEWS

MARKS = {
    "clipboard": "\x1b]52;c;UFdORUQ=\x07",
    "title": "\x1b]0;PWNED\x1b\\",
    "device control": "\x1bP1$r PWNED\x1b\\",
    "cursor": "\x1b[99;99H",
    "style": "\x1b[5;53;58;5;1m",
    "erase": "\x1b[3J",
    "C1": "\x9b5m\x9d0;PWNED\x9c\x85\x90",
    "C0": "\x07\x08\x0b\x0c\x0e\x0f\x7f\x00",
    "line ends": "\r\n\u2028\u2029",
    "bidi": "\u202e\u2066\u061c\u200f",
    "zero width": "\u200b\u200d\u2060\ufeff\U000e0041",
    "markup": "[red][/nope][@click=app.quit]x[/][link=http://x]",
    "surrogate": "\ud800",
}
HOSTILE = "".join(MARKS.values())
LONG = "n" * 10_000

_OWN = re.compile(
    r"\x1b\[[0-9;:]*m"  # styles
    r"|\x1b\[[0-9;]*[ABCDGHJKdsu]"  # the cursor, erasing
    r"|\x1b\[[?>=<][0-9;]*(?:\$p|[hlutcqp])|\x1b\[[0-9]* q|\x1b\[[0-9;]*[cnt]"  # modes and questions
    r"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"  # what was copied
    r"|\x1b\]22;[a-z-]*\x07"  # the pointer's shape
    r"|\x1b\]8;[^\x07\x1b]*;\x1b\\|\x1b\](?:10|11);\?(?:\x07|\x1b\\)"
    r"|\x1b[78=>]|\x1b[()][A-Z0-9]|\r\n|\n|\r"
)
"""What the program itself writes beside text."""
_RAW = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)


def poisoned(value: Any, key_path: str = "") -> Any:
    """Return JSON in which every text that is a name ends with control characters."""
    if isinstance(value, dict):
        unchanged_keys = ("ph", "cat", "s", "ts", "bp", "schemaVersion", "displayTimeUnit")
        is_told = value.get("ph") == "M"
        return {
            (key if key_path != "args" or key in _ARGUMENTS else key + HOSTILE): member
            if key in unchanged_keys or (is_told and key == "name")
            else poisoned(member, key)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [poisoned(member, key_path) for member in value]
    return value + HOSTILE if isinstance(value, str) and not re.fullmatch(r"[-0-9. ]*", value) else value


_ARGUMENTS = frozenset(
    {"External id", "correlation", "stream", "device", "name", "labels", "sort_index", "Input Dims", "Input type"}
    | {"Sequence number", "grid", "block", "Python id", "Python parent id", "Python module id", "Call stack", "bytes"}
    | {"Module Hierarchy", "Concrete Inputs", "registers per thread", "shared memory", "Device Id", "Addr", "Bytes"}
    | {"Total Allocated", "Total Reserved", "Device Type", "Memory bandwidth (GB/s)", "Ev Idx", "Fwd thread id"}
)


def write_hostile(folder: Path) -> None:
    """Write profiles of several formats, poisoned wherever they hold a text."""
    trace = json.loads(inputs()["mlp_modules.pt.trace.json.gz"][1])
    changed = poisoned(trace)
    first = next(event for event in changed["traceEvents"] if event.get("cat") == "kernel")
    first["name"] = LONG + HOSTILE
    # A file's name: of any bytes but a slash and a null.
    name = os.fsencode(HOSTILE.replace("/", "").replace("\0", "").replace("\ud800", "")[:60]) + b"\xff[red]"
    (folder / "traces").mkdir()
    path = os.path.join(os.fsencode(folder / "traces"), name + b".pt.trace.json")  # noqa: PTH118
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(json.dumps(changed).encode())
    database = folder / "nsys.sqlite"
    database.write_bytes(inputs()["nsys.sqlite"][1])
    ending = HOSTILE.replace("\0", "").replace("\ud800", "")
    with closing(sqlite3.connect(database)) as connection, connection:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for column in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
                if table.startswith("ENUM") or (column[1] in ("name",) and table.startswith("META")):
                    continue
                connection.execute(
                    f'UPDATE "{table}" SET "{column[1]}" = "{column[1]}" || ? '
                    f"WHERE typeof(\"{column[1]}\") = 'text' AND \"{column[1]}\" GLOB '*[A-Za-z]*'",
                    (ending,),
                )
    for name_of, words in (
        ("metrics_and_events.nvprof.log", ("gemm", "kernel", "Device", "achieved", "./")),
        ("gemm.ncu.csv", ("gemm", "Kernel", "sgemm", "python")),
        ("trtexec.log", ("conv", "ForeignNode")),
        ("caffe_conv1.nvprof.log", ("cudnn", "caffe", "cuda", "./")),
    ):
        text = inputs()[name_of][1].decode()
        for word in words:
            text = text.replace(word, word + ending.replace("\r\n", "").replace("\u2028\u2029", ""), 40)
        (folder / name_of).write_bytes(text.encode())


KEYS = (
    *("i", "v", "\x1b", "e", "\x1b", "c", "\x1b", "M", "\x1b", "y", "w", "w", "d", "\x1b", "\r", "i", "v", "\x1b"),
    *("f", "name", "\x1b", "/", "n", "\x1b", "?", "\x1b", "m", "\x1b", "S", "\x1b", "A", "\x1b", "\x10", "go", "\x1b"),
)
"""In every view: details, the cell, export, columns, a note, copy, names, comparison, the row below, lines, menus."""


def until_answered(program: TerminalProgram, since: int) -> None:
    """Wait until all keys have had their effect: of more than it can hold, as on a loaded machine, some are lost."""
    for _ in range(60):
        program.press(b"\x1b\x1b:nothing\r")
        try:
            program.wait_for_text("Unknown command: nothing", since=since, timeout_s=10)
        except AssertionError:
            assert program.status is None, program.text[-3000:]
        else:
            return
    raise AssertionError(f"no answer: {program.text[-3000:]}")


@pytest.mark.slow
def test_no_view_writes_a_hostile_name_raw(tmp_path: Path) -> None:
    folder = tmp_path / "run[blue]\x1b[5;53m"
    folder.mkdir()
    write_hostile(folder)
    with TerminalProgram([*PROGRAM, str(folder)], {"TERM": "xterm-256color"}, size=(200, 50)) as program:
        program.wait_for_text(" 6 profiles")
        program.press(b"a")
        program.wait_for_text("Dashboard")
        for view in VIEWS:
            since = len(program.output)
            for key in ("\x1b", "\x1b", f":{view.name}\r", *KEYS, "\x1b"):
                program.press(key.encode())
                program.run_for(0.05)
            until_answered(program, since)
        program.press(b"\x11")
        assert program.wait_for_exit() == 0
        written = program.output.decode("utf-8", "surrogateescape")
    assert "PWNED" in written
    for label, mark in MARKS.items():
        assert label in ("markup", "line ends", "C0") or mark not in written, label
    assert "[red][/nope]" in written
    other_output = _OWN.sub("", written)
    match = _RAW.search(other_output)
    assert match is None, repr(other_output[max(0, match.start() - 80) : match.end() + 40])
