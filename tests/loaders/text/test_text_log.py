from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tui.loaders.input_file
import tui.loaders.raw_input
from tui.loaders.base import Format, LoadProgress, keep_going
from tui.loaders.input_file import InputFile
from tui.loaders.text.block import Block, Cues
from tui.loaders.text.section import TextFormat
from tui.loaders.text.text_log import TextLogLoader, looks_like_text
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.loaders.collector import Collector
    from tui.loaders.text.block import Line
    from tui.loaders.text.section import Section
    from tui.model.profile import Profile


class Table:
    """A table of a made-up format: ``TABLE NAME``, then rows ``row N``; blank lines belong to it."""

    def __init__(self, collector: Collector, name: str) -> None:
        self.collector = collector
        self.name = name
        self.rows: list[tuple[int, int]] = []

    def take(self, line: Line) -> bool:
        word, _, number = line.text.partition(" ")
        if word == "row":
            self.rows.append((int(number), line.number))
        return word in ("row", "")

    def close(self) -> None:
        for number, line in self.rows:
            self.collector.add("summary", {"section": "gpu", "name": self.name, "calls": number, "line": line})


@dataclass
class Reads:
    bulk: list[int] = field(default_factory=list)


class BulkTable(Table):
    """The same, with rows ``row N`` of one digit read in bulk."""

    reads: Reads

    def take_block(self, block: Block, start: int) -> int:
        widths = np.diff(block.starts)[start:]
        plain = (widths == len("row 1\n")) & (block.array[block.starts[start:-1]] == ord("r"))
        count = len(plain) if plain.all() else int(np.argmin(plain))
        self.rows += [(int(block.raw(index)[4:]), block.first_line + index) for index in range(start, start + count)]
        self.reads.bulk.append(count)
        return start + count


class ToyReader:
    def __init__(self, collector: Collector, table: Callable[[Collector, str], Section]) -> None:
        self.collector = collector
        self.table = table

    def begin(self, line: Line) -> Section | bool:
        word, _, name = line.text.partition(" ")
        if word == "NOTHING":
            self.collector.open_session("toy", line.number)
            return True
        if word != "TABLE":
            return False
        if name == "bad":
            raise ValueError("no such table")
        self.collector.open_session("toy", line.number)
        return self.table(self.collector, name)

    def finish(self) -> None:
        pass


FORMAT = Format("toy", "toy tables", "a line TABLE", ("summary",), "toy")


def toy_format(table: Callable[[Collector, str], Section] = Table) -> TextFormat:
    return TextFormat(FORMAT, rb"^(?:TABLE|NOTHING)\b", lambda collector: ToyReader(collector, table))


def load(text: str | bytes, table: Callable[[Collector, str], Section] = Table) -> Profile:
    content = text if isinstance(text, bytes) else text.encode()
    return TextLogLoader([toy_format(table)]).load(InputFile.open("run.log", stream=io.BytesIO(content)))


def rows(profile: Profile) -> list[tuple[str, int, int]]:
    return profile["summary"].with_columns(pl.col("name").cast(pl.String)).select("name", "calls", "line").rows()


def issues(profile: Profile) -> list[tuple[int, str, str, str]]:
    return profile["issues"].select("line", "severity", "text", "reason").rows()


def test_tables_are_found_between_other_text() -> None:
    profile = load("hello\nrow 9\nTABLE a\nrow 1\n\nrow 2\nbye\nrow 3\nTABLE b\nrow 4\nTABLE c\nrow 5\n")
    assert rows(profile) == [("a", 1, 4), ("a", 2, 6), ("b", 4, 10), ("c", 5, 12)]
    assert profile["sessions"]["first_line"].to_list() == [3, 9, 11]
    assert profile["issues"].is_empty()
    assert profile.partial == ""
    assert profile.texts["run.log"].lines(8, 2) == ["row 3", "TABLE b"]


def test_tables_far_apart_are_found_at_any_block_boundary() -> None:
    begins = [0, 1023, 1024, 1025, 9000, 9215, 9216, 9217, 9300, 30_000]
    lines = ["noise"] * 40_000
    for begin in begins:
        lines[begin] = "TABLE a"
    # A long table ends where lines were not searched yet.
    lines[9301:20_000] = ["row 1"] * (20_000 - 9301)
    lines[20_000] = "NOTHING"
    profile = load("\n".join(lines))
    assert profile["sessions"]["first_line"].to_list() == [begin + 1 for begin in sorted([*begins, 20_000])]
    assert profile["summary"].height == 20_000 - 9301


def test_a_line_consumed_by_a_reader_opens_no_section() -> None:
    profile = load("NOTHING here\nrow 1\n")
    assert profile["sessions"].height == 1
    assert profile["summary"].is_empty()


def test_the_error_for_an_unknown_text_shows_its_beginning() -> None:
    with pytest.raises(ProftuiError) as caught:
        load("\n  \n  \x1b[1mstep 1\x1b[0m " + "x" * 100 + "\nrow 1\n")
    assert str(caught.value) == (
        "run.log: no profile found; looked for toy tables; it begins with “step 1 " + "x" * 72 + "…”; "
        "proftui formats lists the supported formats"
    )


def test_a_file_of_blank_lines_is_an_error_that_says_so() -> None:
    with pytest.raises(ProftuiError, match="it has only blank lines"):
        load("\n \n\t\n")


def test_the_first_table_may_follow_much_other_text() -> None:
    profile = load("program output\n" * 400_000 + "TABLE a\nrow 1\n")
    assert rows(profile) == [("a", 1, 400_002)]


def test_a_row_that_fails_its_reader_is_an_issue() -> None:
    profile = load("TABLE a\nrow 1\nrow x\nrow 2\nTABLE bad\nTABLE b\nrow 3\n")
    assert rows(profile) == [("a", 1, 2), ("a", 2, 4), ("b", 3, 7)]
    assert issues(profile) == [
        (
            3,
            "error",
            "row x",
            "not a valid row of its table (invalid literal for int() with base 10: 'x')",
        ),
        (5, "error", "TABLE bad", "not a valid row of its table (no such table)"),
    ]


def test_a_last_row_without_a_line_end_is_reported_as_possibly_truncated() -> None:
    reason = "the file ends inside this line: the last row may be truncated"
    assert issues(load("TABLE a\nrow 1\nrow 25")) == [(3, "info", "row 25", reason)]
    assert issues(load("TABLE a\nrow 1\nrow 25", bulk_table(Reads()))) == [(3, "info", "row 25", reason)]
    for complete in ("TABLE a\nrow 1\nrow 25\n", "TABLE a\nrow 25\nthe end", "TABLE a\nrow 25\n\n  "):
        assert issues(load(complete)) == []
    # What is told of already needs no second word.
    assert [reason for _, _, _, reason in issues(load(f"TABLE a\nrow {10**30}"))] == [
        "number out of range: shown as unknown"
    ]


def test_a_last_line_with_too_little_of_a_row_is_reported() -> None:
    class Tolerant(Table):
        def take(self, line: Line) -> bool:
            return super().take(line) or True

    reason = "the file ends inside this line, below a row: another row may be truncated"
    assert issues(load("TABLE a\nrow 1\nro", Tolerant)) == [(3, "info", "ro", reason)]
    # Program output in the table, and a table that ended before.
    assert issues(load("TABLE a\nrow 1\nro\n", Tolerant)) == []
    assert issues(load("TABLE a\nrow 1\nloss\nro", Tolerant)) == []
    assert issues(load("TABLE a\nrow 1\nthe end")) == []


def test_a_failing_table_affects_no_other_table() -> None:
    class Stubborn(Table):
        def close(self) -> None:
            if self.name == "a":
                raise ValueError("its sums differ")
            super().close()

    profile = load("TABLE a\nrow 1\nTABLE b\nrow 2\n", Stubborn)
    assert rows(profile) == [("b", 2, 4)]
    assert issues(profile) == [(2, "error", "", "the table that ends here could not be used (its sums differ)")]


def test_a_number_too_large_for_its_column_affects_only_itself() -> None:
    profile = load(f"TABLE a\nrow 1\nrow {10**30}\nrow 2\n")
    assert rows(profile) == [("a", 1, 2), ("a", None, 3), ("a", 2, 4)]
    assert [(line, severity) for line, severity, _, _ in issues(profile)] == [(3, "warning")]


# --- bulk ------------------------------------------------------------------------------------------------------------


def bulk_table(reads: Reads) -> Callable[[Collector, str], Section]:
    def make(collector: Collector, name: str) -> Section:
        table = BulkTable(collector, name)
        table.reads = reads
        return table

    return make


@given(
    st.lists(st.sampled_from(["row 1", "row 2", "row 33", "", "TABLE b", "TABLE c", "other"]), max_size=40),
    st.integers(1, 60),
)
def test_bulk_reading_equals_reading_line_by_line(lines: list[str], block_size: int) -> None:
    text = "\n".join(["TABLE a", *lines])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InputFile.blocks, "__kwdefaults__", {"block_size": block_size, "line_limit": 1000})
        patch.setattr(tui.loaders.input_file, "_READ_BYTES", 7)
        assert rows(load(text, bulk_table(Reads()))) == rows(load(text))


def test_bulk_reading_that_often_stops_is_given_up() -> None:
    reads = Reads()
    text = "TABLE a\n" + "row 1\nrow 22\n" * 20_000
    assert len(rows(load(text, bulk_table(reads)))) == 40_000
    assert len(reads.bulk) < 30


def test_bulk_reading_resumes_after_a_few_irregular_lines() -> None:
    reads = Reads()
    text = "TABLE a\n" + ("row 1\n" * 5000 + "row 22\n") * 8
    assert len(rows(load(text, bulk_table(reads)))) == 8 * 5001
    assert sum(reads.bulk) == 40_000


def test_bulk_reading_that_fails_is_noted_and_done_line_by_line() -> None:
    class Failing(Table):
        def take_block(self, block: Block, start: int) -> int:
            raise pl.exceptions.ComputeError("not a number")

    profile = load("TABLE a\nrow 1\nrow 2\n", Failing)
    assert rows(profile) == [("a", 1, 2), ("a", 2, 3)]
    assert issues(profile) == [
        (
            2,
            "warning",
            "row 1",
            "the lines below could not be read as a table (not a number): read one by one",
        )
    ]


# --- progress, notes -------------------------------------------------------------------------------------------------


def test_a_stop_keeps_what_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.raw_input, "_REPORT_EVERY_S", 0.0)
    progress_reports: list[LoadProgress] = []

    def report(progress: LoadProgress) -> bool:
        progress_reports.append(progress)
        return len(progress_reports) < 3

    text = "TABLE a\n" + "row 1\n" * 400_000
    source = InputFile.open("run.log", stream=io.BytesIO(text.encode()))
    profile = TextLogLoader([toy_format()]).load(source, report)
    assert profile["summary"].height == 767  # 256 lines between looks, the first of them before any
    assert profile.partial == "stopped after 4.5 KiB"
    assert [progress.bytes_total for progress in progress_reports] == [None] * 3


def test_a_stopped_file_reports_its_progress(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(tui.loaders.raw_input, "_REPORT_EVERY_S", 0.0)
    path = f"{tmp_path}/run.log"
    with open(path, "w") as file:  # noqa: PTH123
        file.write("TABLE a\n" + "row 1\n" * 140_000)
    read: list[int] = []
    profile = TextLogLoader([toy_format()]).load(
        InputFile.open(path), lambda progress: not read.append(0) and len(read) < 150
    )
    assert profile["summary"].height == 150 * 256 - 1
    assert profile.partial == "stopped at 27%"


def test_a_stop_before_anything_was_found_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.raw_input, "_REPORT_EVERY_S", 0.0)
    source = InputFile.open("run.log", stream=io.BytesIO(b"other\n" * 1000))
    with pytest.raises(ProftuiError, match=r"run\.log: stopped after 5\.86 KiB before a profile was found"):
        TextLogLoader([toy_format()]).load(source, lambda progress: False)


def test_a_stop_of_a_silent_pipe_keeps_all_data_received() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"TABLE a\n" + b"row 1\n" * 3000)
    with os.fdopen(reading, "rb") as pipe:
        source = InputFile.open("-", stream=pipe, on_progress=lambda progress: False)
        profile = TextLogLoader([toy_format()]).load(source)
    os.close(writing)
    assert profile["summary"].height == 3000
    assert profile.partial == "stopped after 17.6 KiB"


def test_progress_is_reported_rarely() -> None:
    progress_reports: list[LoadProgress] = []
    source = InputFile.open("run.log", stream=io.BytesIO(b"TABLE a\n" + b"row 1\n" * 30_000))
    TextLogLoader([toy_format()]).load(source, lambda progress: not progress_reports.append(progress))
    assert len(progress_reports) < 50


def test_notes_on_the_input_become_issues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InputFile.blocks, "__kwdefaults__", {"block_size": 100, "line_limit": 50})
    profile = load("TABLE a\nrow 1\n" + "y" * 400 + "\nTABLE b\nrow 2\n")
    assert rows(profile) == [("a", 1, 2), ("b", 2, 5)]
    assert issues(profile) == [(3, "warning", "y" * 50, "the line is 400 B long; only its first 50 B was read")]


# --- what a text is --------------------------------------------------------------------------------------------------


def test_probe_by_content() -> None:
    loader = TextLogLoader([toy_format()])
    assert loader.probe(b"hello\nTABLE a\nrow 1\n", "x.png") == 0.9
    assert loader.probe(b"hello\nMY TABLE a\n", "x.log") == 0.1
    assert loader.probe(bytes(range(256)) * 10, "x.log") == 0.0
    assert loader.probe(bytes(1000), "x.log") == 0.1  # a log whose beginning was cut off by a rotation
    assert keep_going(LoadProgress("x.log", 1, None, 0))


def test_terminal_captures_and_non_ascii_letters_are_text() -> None:
    assert looks_like_text("\x1b[31mгрупа\x1b[0m\r 10%\r\b\b\a\tx\f\n".encode())
    assert looks_like_text("测试视频时长30s\n".encode("gbk"))
    assert not looks_like_text(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\0\x3e\0\x01\0\0\0")


@pytest.mark.parametrize(
    "line", ["TABLE a", "größe TABLE", "TABLE \ufffd", "x", "", "NOTHING", "TABLES", " TABLE a", "\tNOTHING"]
)
def test_cues_equal_regular_expressions_of_python(line: str) -> None:
    import re

    text = f"first\n{line}\nlast\n".encode()
    for content in (text, text + b"damaged \xff\n"):
        block = Block.from_data(content, 1)
        cues = Cues([toy_format().cue, b"never$"])
        line_indices = cues.indices(block, 0, block.line_count).tolist()
        middle = block.line_count // 2
        parts = [cues.indices(block, 0, middle), cues.indices(block, middle, block.line_count)]
        assert [index for part in parts for index in part.tolist()] == line_indices
        assert line_indices == ([1] if re.search(toy_format().cue, line.encode()) else [])
