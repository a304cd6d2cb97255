"""Text in JSON strings: logs of containers and structured loggers, notebooks in one line, Python string literals."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.loaders import test_tensorrt, test_torch_table, test_unitrace
from tests.loaders.damage import load_damaged
from tests.loaders.nvprof.test_unseen_variants import SUMMARY as NVPROF
from tests.loaders.reading import read, rows
from tui.loaders.text.lines import JsonText

if TYPE_CHECKING:
    from tui.model.profile import Profile

TEXTS = {
    "nvprof": "\n".join([*NVPROF, ""]),
    "torch-table": test_torch_table.usual_table(),
    "unitrace": test_unitrace.SUMMARY,
    "timeline": test_unitrace.TIMELINE,
    "trtexec": test_tensorrt.NAME_FIRST,
}


def figures(profile: Profile) -> list[Any]:
    """Return every figure of the texts, with its line."""
    return [
        rows(profile, "summary", "section", "name", "calls", "total_ns", "line"),
        rows(profile, "activities", "name", "start_ns", "duration_ns", "line"),
        rows(profile, "metrics", "kernel", "metric", "avg", "line"),
        rows(profile, "layers", "layer", "time_ns", "line"),
    ]


def json_log_writer(**options: Callable[[str], str] | str) -> Callable[[str], str]:
    """Return a function that writes a log with one JSON object for each line."""

    def write(text: str) -> str:
        lines = (
            {key: value(line) if callable(value) else value for key, value in options.items()}
            for line in text.splitlines()
        )
        return "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in lines)

    return write


def notebook(text: str) -> dict[str, Any]:
    output = [f"{line}\n" for line in text.splitlines()]
    cell = {"cell_type": "code", "outputs": [{"name": "stdout", "text": output}], "source": ["run()\n"]}
    return {"cells": [{"cell_type": "markdown", "source": ["# Runs\n"]}, cell], "nbformat": 4}


SAME_LINES = {
    "docker": json_log_writer(log=lambda line: f"{line}\n", stream="stdout", time="2026-02-03T09:12:44.5Z"),
    "docker on windows": json_log_writer(log=lambda line: f"\x1b[32m{line}\x1b[0m\r\n", stream="stderr", time="2026"),
    "fluentd": json_log_writer(time="2026-02-03", stream="stdout", log=str, kubernetes="train-0"),
    "logger": json_log_writer(level="info", ts="1.5", msg=str),
    "journald": json_log_writer(__CURSOR="s=1", PRIORITY="6", MESSAGE=str, _PID="77"),
    "one record": lambda text: json.dumps({"level": "info", "message": text}) + "\n",
    "a string": json.dumps,
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("wrap", SAME_LINES.values(), ids=SAME_LINES)
def test_records_of_a_json_log_are_lines(wrap: Callable[[str], str], text: str) -> None:
    assert figures(read(wrap(text))) == figures(read(text))


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_notebooks_in_one_line_and_with_one_string_per_output(text: str) -> None:
    plain = figures(read("# Runs\n" + text))
    minified = json.dumps(notebook(text), separators=(",", ":"))
    cell = {"cell_type": "markdown", "source": "# Runs"}, {"outputs": [{"text": text}]}
    returned = {"outputs": [{"data": {"text/plain": [repr(text)]}}]}
    for written in (
        minified,
        json.dumps({"cells": cell, "nbformat": 4}),
        json.dumps({"cells": cell, "nbformat": 4}, indent=1),
        json.dumps({"nbformat": 4, "cells": [{"source": "# Runs"}, returned]}, indent=1),
    ):
        assert figures(read(written)) == plain


def test_a_table_as_a_python_string() -> None:
    text = test_torch_table.usual_table()
    assert rows(read(f"profile = {text!r}\n"), "summary", "name", "calls", "total_ns") == (
        rows(read(text), "summary", "name", "calls", "total_ns")
    )


def test_lines_between_records_are_read_too() -> None:
    log = json_log_writer(level="info", msg=str)("loading the model\nstep 1") + test_unitrace.TIMELINE
    assert rows(read(log), "activities", "start_ns", "line") == [(100, 3), (600, 4), (800, 5)]


def test_a_line_split_by_docker_is_joined() -> None:
    name = "kernel_" + "x" * 17_000
    (row,) = [line for line in test_unitrace.TIMELINE.splitlines() if '"g"' in line]
    line = row.replace('"g"', f'"{name}"') + "\n"
    log = "".join(json.dumps({"log": part, "stream": "stdout"}) + "\n" for part in (line[: 1 << 14], line[1 << 14 :]))
    assert rows(read(log), "activities", "name", "line") == [(name, 1)]


def test_the_log_view_shows_the_text() -> None:
    profile = read(SAME_LINES["docker"](TEXTS["nvprof"]))
    (text,) = profile.texts.values()
    assert text.lines(4, 1) == [NVPROF[3]]


@pytest.mark.parametrize(
    "head",
    [
        b'{"traceEvents": [{"name": "a", "args": {"log": "b\\n==7== c"}}]}',
        b'{"schemaVersion": 1, "deviceProperties": [{"id": 0}]}',
        b'{\n "cells": [\n  {\n   "source": [\n    "print(1)\\n"\n',
        b'[{"count": 641}, {"name": "conv", "averageMs": 0.1}]',
        b'"ID","Process ID","Kernel Name"\n"0","7","a\\nb"\n',
        b"==7== NVPROF is profiling process 7, command: printf 'a\\n'\n",
    ],
)
def test_other_json_and_text_is_unchanged(head: bytes) -> None:
    assert JsonText.from_head(head) is None


@given(text=st.text(st.sampled_from('ab\n\\"{:,é\t'), max_size=60), size=st.integers(1, 9))
def test_chunks_of_any_size_give_the_same_text(text: str, size: int) -> None:
    for write in (
        lambda: "".join(json.dumps({"x": "y", "log": f"{line}\n"}) + "\n" for line in text.split("\n")),
        lambda: json.dumps({"cells": [{"text": text.split("\n")}], "nbformat": 4}),
    ):
        data = write().encode()
        source = JsonText.from_head(data if b"cells" in data else data[:100])
        if source is not None:
            pieces = (data[begin : begin + size] for begin in range(0, len(data), size))
            assert b"".join(source.text(pieces)).decode() == text + "\n"


def test_damaged_logs_are_read_or_declined() -> None:
    load_damaged(SAME_LINES["docker"](TEXTS["nvprof"]), 40, at_least=0.3)
    load_damaged(json.dumps(notebook(TEXTS["torch-table"])), 40, at_least=0.3)
