from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import threading
import tracemalloc
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

import tui.loaders.input_file
from tests.parameters import others_slow
from tui.loaders.input_file import InputFile
from tui.loaders.text.lines import clean_bytes, clean_line, normalize_newlines, whole_lines
from tui.loaders.text.stored_text import StoredText
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.base import LoadProgress

COMPRESS = {
    "gzip": gzip.compress,
    "bzip2": partial(bz2.compress, compresslevel=1),
    "xz": partial(lzma.compress, preset=0),
    "zstd": zstandard.ZstdCompressor(write_content_size=False).compress,
}
TEXT = "".join(f"{n}: [CUDA memcpy HtoD] größe\n" for n in range(1, 3000))


class Trickle(io.BytesIO):
    """Returns few bytes for each read, as a pipe may."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(min(size or 0, 100))


def source_of(content: bytes) -> InputFile:
    return InputFile.open("run.log", stream=Trickle(content))


def texts_of(source: InputFile, **options: int) -> list[str]:
    return [block.line(index).text for block in source.blocks(**options) for index in range(block.line_count)]


def split_at(content: bytes, cuts: list[int]) -> list[bytes]:
    positions = sorted({min(cut, len(content)) for cut in cuts})
    return [content[begin:end] for begin, end in zip([0, *positions], [*positions, len(content)], strict=True)]


# --- whole lines -----------------------------------------------------------------------------------------------------

few_bytes = st.lists(st.sampled_from([b"a", b"bc", b"\n", "é".encode(), b"\xff", b"\t", b"0123456789"])).map(b"".join)


@given(few_bytes, st.lists(st.integers(0, 200)), st.integers(1, 50))
def test_joined_chunks_equal_the_content(content: bytes, cuts: list[int], piece_size: int) -> None:
    pieces = list(whole_lines(split_at(content, cuts), piece_size=piece_size, line_limit=10_000))
    missing = b"" if not content or content.endswith(b"\n") else b"\n"
    assert b"".join(piece.data for piece in pieces) == content + missing
    assert sum(piece.covered for piece in pieces) == len(content)
    assert all(piece.data.endswith(b"\n") for piece in pieces if piece.data)


@given(few_bytes, st.lists(st.integers(0, 200)), st.integers(1, 50), st.integers(4, 30))
def test_long_lines_are_cut_independently_of_chunks(content: bytes, cuts: list[int], size: int, limit: int) -> None:
    pieces = list(whole_lines(split_at(content, cuts), piece_size=size, line_limit=limit))
    lines = content.split(b"\n")[: None if content.rpartition(b"\n")[2] else -1]
    read = b"".join(piece.data for piece in pieces).split(b"\n")[:-1]
    assert len(read) == len(lines)
    for line_read, line in zip(read, lines, strict=True):
        assert line.startswith(line_read)
        assert len(line_read) == len(line) if len(line) <= limit else limit - 3 <= len(line_read) <= limit
    assert [piece.cut_line_size for piece in pieces if piece.cut_line_size] == [
        len(line) for line in lines if len(line) > limit
    ]
    assert sum(piece.covered for piece in pieces) == len(content)


def test_a_cut_line_ends_at_a_whole_character() -> None:
    (piece,) = whole_lines(["é".encode() * 10], piece_size=100, line_limit=5)
    assert piece.data == "éé\n".encode()


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufeff\xa0"))))
def test_lines_are_numbered_through_all_blocks(lines: list[str]) -> None:
    content = "".join(line + "\n" for line in lines).encode()
    if not content:
        return
    read = [block.line(index) for block in source_of(content).blocks(block_size=8) for index in range(block.line_count)]
    assert [line.text for line in read] == lines
    assert [line.number for line in read] == list(range(1, len(lines) + 1))


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_carriage_returns_end_lines_where_no_newline_does(tmp_path: Path, piece: int) -> None:
    path = tmp_path / "mac.csv"
    path.write_bytes(b"==1== a\r10%\r\rb\r")
    source = InputFile.open(str(path))
    assert source.head == b"==1== a\n10%\n\nb\n"
    assert texts_of(source) == ["==1== a", "10%", "", "b"]
    assert source.text().lines(1, 4) == ["==1== a", "10%", "", "b"]
    content = b"a\rb\r\nc\n\r"
    chunks = [content[begin : begin + piece] for begin in range(0, len(content), piece)]
    assert b"".join(normalize_newlines(chunks)) == b"a\nb\r\nc\n\n"


def test_carriage_returns_within_lines_are_those_of_a_progress_bar() -> None:
    assert texts_of(source_of(b" 10%\r 20%\rdone\nnext\n")) == ["done", "next"]


def test_a_block_has_the_starts_of_its_lines() -> None:
    (block,) = source_of(b"==1== a\n\n\tb\nlast").blocks()
    assert block.data == b"==1== a\n\n\tb\nlast\n"
    assert block.starts.tolist() == [0, 8, 9, 12, 17]
    assert (block.line_count, block.first_line) == (4, 1)
    assert block.raw(2) == b"\tb"
    assert bytes(block.array) == block.data


def test_an_endless_line_is_cut_and_noted() -> None:
    class Endless(io.RawIOBase):
        left = 64 << 20

        def read(self, size: int = -1) -> bytes:
            if self.left == 0:
                self.left = -1
                return b"\n==1== after it\n"
            size = min(size, max(self.left, 0))
            self.left -= size
            return b"x" * size

    source = InputFile.open("run.log", stream=Endless())
    tracemalloc.start()
    lines = texts_of(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [len(line) for line in lines] == [1 << 20, len("==1== after it")]
    assert peak < 30 << 20
    (note,) = source.notes
    assert (note.line, note.severity) == (1, "warning")
    assert note.reason == "the line is 64 MiB long; only its first 1 MiB was read"
    assert source.text().lines(2, 1) == ["==1== after it"]


# --- what a terminal would show --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[1;31m==7== Profiling\x1b[0m result:\n", "==7== Profiling result:"),
        (b"\x1b]0;a title\x07text\n", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link"),
        (b"\x1b(Btext\x1b[K\n", "text"),
        (b"text\x1b\n", "text"),
        (b"text\x1b[12\n", "text"),
        (b"  row\r\n", "  row"),
        (b"row\r\r\n", "row"),
        (b" 10%\r 50%\r100% done\n", "100% done"),
        (b" 50%\r==7== Profiling result:\r\n", "==7== Profiling result:"),
        (b"\xe2\xa3\xbe\b\xe2\xa3\xbd\b\b waiting\n", " waiting"),
        (b"ab\b\b\b\bc\n", "c"),
        (b"N\bNA\bAME\n", "NAME"),
        (b"a\0b\0\n", "ab"),
        (b"\ta\tb\n", "\ta\tb"),
        (b"\x0cpage two\n", "page two"),
        (b"damaged \xff byte\n", "damaged \ufffd byte"),
        ("\x9b31mold\x85 \x7f\n".encode(), "31mold "),
        ("\ufeff==7== Profiling\n".encode(), "==7== Profiling"),
    ],
)
def test_lines_read_as_a_terminal_shows_them(raw: bytes, shown: str) -> None:
    assert texts_of(source_of(b"first\n" + raw + b"last\n")) == ["first", shown, "last"]


@given(st.binary())
def test_cleaning_keeps_lines_and_removes_control_characters(content: bytes) -> None:
    cleaned = clean_bytes(content + b"\n")
    assert cleaned.count(b"\n") == content.count(b"\n") + 1
    for line in cleaned.split(b"\n"):
        assert all(character == "\t" or not "\0" <= character < " " for character in clean_line(line))
    assert clean_bytes(cleaned) == cleaned


def test_many_backspaces_take_no_more_than_linear_time() -> None:
    line = b"x" * 400_000 + b"a\b" * 300_000
    assert texts_of(source_of(line)) == ["x" * 400_000]


# --- encodings and compression ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-8"])
@pytest.mark.parametrize("compression", [None, *COMPRESS])
def test_every_encoding_and_compression_reads_as_the_same_text(
    encoding: str, compression: str | None, tmp_path: Path
) -> None:
    content = TEXT.replace("\n", "\r\n").encode(encoding)
    path = tmp_path / "run.log"
    path.write_bytes(content if compression is None else COMPRESS[compression](content))
    source = InputFile.open(str(path))
    assert source.compression == compression
    assert source.encoding == {"utf-8-sig": "utf-8", "utf-16": "utf-16-le"}.get(encoding, encoding)
    assert source.head.startswith(b"1: [CUDA memcpy HtoD]")
    assert texts_of(source) == TEXT.splitlines()
    assert source.text().lines(2500, 2) == TEXT.splitlines()[2499:2501]
    assert source.bytes_read == source.size == path.stat().st_size
    assert source.notes == []


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufeff"), min_size=1))
def test_utf_16_with_a_mark_reads_as_utf_8(text: str) -> None:
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        assert texts_of(source_of(mark + (text + "\n").encode(encoding))) == [text]


@pytest.mark.parametrize("compression", COMPRESS)
def test_concatenated_streams_are_all_read(compression: str) -> None:
    compress = COMPRESS[compression]
    assert texts_of(source_of(compress(b"first\n") + compress(b"second\n"))) == ["first", "second"]


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize("share", others_slow((0.3, 0.6, 0.95), (0.6,)))
def test_a_truncated_stream_keeps_its_beginning(compression: str, share: float) -> None:
    random.seed(7)
    text = "".join(f"{random.random()}\n" for _ in range(60_000))
    packed = COMPRESS[compression](text.encode())
    source = source_of(packed[: int(share * len(packed))])
    lines = texts_of(source)
    assert len(lines) > 1000
    assert text.startswith("\n".join(lines))
    assert source.cut_short == f"the {compression} stream ends early"
    assert [note.severity for note in source.notes] == ["error"]
    assert source.notes[0].reason.startswith(f"the {compression} stream ends early, at about ")


@given(st.binary(max_size=40), st.data())
def test_damaged_gzip_gives_a_prefix_or_an_error(junk: bytes, data: st.DataObject) -> None:
    packed = gzip.compress(TEXT.encode())
    position = data.draw(st.integers(2, len(packed)))
    try:
        source = source_of(packed[:position] + junk)
        lines = texts_of(source)
        reason = source.cut_short
    except ProftuiError as error:
        lines, reason = [], error.message
    assert "gzip stream" in reason or lines == TEXT.splitlines()
    assert position < len(packed) or lines == TEXT.splitlines()


@pytest.mark.parametrize("compression", others_slow(COMPRESS, list(COMPRESS)[:2]))
def test_a_bomb_is_read_in_bounded_memory(compression: str) -> None:
    packed = COMPRESS[compression](bytes(100 << 20))
    tracemalloc.start()
    source = source_of(packed)
    lines = texts_of(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(lines) == 1
    assert peak < 50 << 20
    assert source.notes[0].reason == "the line is 100 MiB long; only its first 1 MiB was read"


def test_reading_stops_at_the_limit_of_decompressed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.input_file, "MIN_BOMB_BYTES", 4 << 20)
    source = source_of(gzip.compress(b"\n" * (64 << 20)))
    size = sum(map(len, source.chunks()))
    assert 3 << 20 <= size <= 4 << 20
    assert "decompresses to more than 500 times its size" in source.cut_short


def test_an_empty_compressed_file_is_an_error_that_says_so() -> None:
    with pytest.raises(ProftuiError, match=r"run\.log: contains only empty gzip data"):
        source_of(gzip.compress(b""))


# --- errors of the file system ---------------------------------------------------------------------------------------


def test_missing_and_empty_files_and_directories_are_one_line_errors(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    for name, words in (("none.log", "no such file"), ("", "this is a directory"), ("empty.log", "is empty")):
        with pytest.raises(ProftuiError) as caught:
            InputFile.open(str(tmp_path / name))
        assert caught.value.message == f"{tmp_path / name}: {words}"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("run.log", "record with --log-file FILE"),
        ("run.sqlite", "nsys export --type sqlite --force-overwrite true "),
        ("run.details.csv", "--page raw"),
        ("rank0.pt.trace.json.gz", "stop the profiler earlier"),
        ("run.ncu-rep", "let the program finish"),
        ("run.NVVP", "let the program finish"),
    ],
)
def test_the_advice_for_an_empty_file_depends_on_its_name(tmp_path: Path, name: str, advice: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ProftuiError, match="is empty") as caught:
        InputFile.open(str(tmp_path / name))
    assert advice in caught.value.hint


@pytest.mark.parametrize("path", ["a\0b", "x" * 5000])
def test_impossible_paths_are_one_line_errors(path: str) -> None:
    with pytest.raises(ProftuiError, match="cannot be read"):
        InputFile.open(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unreadable for root")
def test_an_unreadable_file_is_a_one_line_error(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("==1== NVPROF\n")
    path.chmod(0)
    with pytest.raises(ProftuiError, match="permission denied"):
        InputFile.open(str(path))


def test_a_failing_read_keeps_the_data_before_it() -> None:
    class Failing(io.RawIOBase):
        left = 3

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            if self.left < 0:
                raise OSError(5, "Input/output error")
            return b"a line\n" * 20_000

    source = InputFile.open("run.log", stream=Failing())
    assert len(texts_of(source)) == 60_000
    assert source.cut_short == "reading failed (Input/output error)"


def test_standard_input_that_is_a_terminal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    class Buffer(io.BytesIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(Buffer()))
    with pytest.raises(ProftuiError, match="standard input is a terminal"):
        InputFile.open("-")


def test_closed_standard_input_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(ProftuiError, match="standard input is closed"):
        InputFile.open("-")


# --- a file that changes ---------------------------------------------------------------------------------------------


def change_file(path: Path, kind: str) -> None:
    if kind == "appended":
        with path.open("a") as file:
            file.write("more\n")
    elif kind == "rewritten":
        path.write_text("other\n" * 1000)
    elif kind == "replaced":
        path.with_suffix(".new").write_text("other\n")
        path.with_suffix(".new").replace(path)
    else:
        path.unlink()


@pytest.mark.parametrize("kind", ["appended", "rewritten", "replaced", "deleted"])
def test_a_file_that_changes_while_it_is_read_is_noted(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("a line\n" * 300_000)
    source = InputFile.open(str(path))
    blocks = source.blocks(block_size=1 << 16)
    next(blocks)
    change_file(path, kind)
    for _ in blocks:
        pass
    assert [note.severity for note in source.notes] == ["warning"]
    assert source.notes[0].reason.startswith("the file changed while it was read")


@pytest.mark.parametrize(
    ("kind", "first"),
    [("appended", "line 1"), ("replaced", "line 1"), ("deleted", "line 1"), ("rewritten", None)],
)
def test_lines_of_a_changed_file(kind: str, first: str | None, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("line 1\nline 2\nno end")
    source = InputFile.open(str(path))
    assert texts_of(source) == ["line 1", "line 2", "no end"]
    change_file(path, kind)
    expected = first or f"({path} has changed since it was read; this line is no longer in it)"
    assert source.text().lines(1, 2) == [expected, "line 2" if first else ""]
    assert source.text().lines(3, 1) == ["no end" if first and kind != "appended" else source.text().lines(3, 1)[0]]


# --- the text again --------------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), min_size=1), st.integers(1, 40))
def test_stored_lines_equal_those_of_the_input(lines: list[bytes], block_size: int) -> None:
    content = b"\n".join(lines)
    source = source_of(b"begin " + content)
    if source.encoding != "utf-8" or source.compression:
        return
    for _ in source.blocks(block_size=block_size):
        pass
    expected = [line.decode("utf-8", "replace").removesuffix("\r") for line in (b"begin " + content).split(b"\n")]
    if (b"begin " + content).endswith(b"\n"):
        expected.pop()
    text = source.text()
    assert text.line_count == len(expected)
    assert text.lines(1, len(expected) + 5) == expected
    for first in range(1, len(expected) + 1):
        assert text.lines(first, 2) == expected[first - 1 : first + 1]
    assert text.lines(len(expected) + 1, 3) == []


def test_stored_lines_of_a_file_come_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("5: ", "\x1b[1m5: ").encode())
    source = InputFile.open(str(path))
    for _ in source.blocks(block_size=3000):
        pass
    expected = TEXT.replace("5: ", "\x1b[1m5: ").splitlines()
    assert source.text().lines(1, 10_000) == expected
    assert source.text().lines(2000, 3) == expected[1999:2002]


def test_a_stored_line_is_cut_for_the_screen() -> None:
    source = source_of(b"x" * 100_000 + b"\nnext\n")
    for _ in source.blocks():
        pass
    long, following = source.text().lines(1, 2)
    assert (len(long), long[-2:], following) == (20_001, "x…", "next")


def test_lines_after_a_long_line_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(b"one\n" + b"x" * 5000 + b"\nthree\n" + b"y" * 5000 + b"\nfive")
    source = InputFile.open(str(path))
    for _ in source.blocks(block_size=600, line_limit=1000):
        pass
    assert [note.line for note in source.notes] == [2, 4]
    lines = source.text().lines(1, 9)
    assert [lines[0], lines[2], lines[4]] == ["one", "three", "five"]
    assert lines[1].startswith("x" * 1000)


def test_a_copy_stops_at_its_limit_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        tui.loaders.input_file, "StoredText", lambda name, fd: StoredText(name, fd, spool_limit=200_000)
    )
    source = source_of(3 * TEXT.encode())
    assert len(texts_of(source, block_size=4000)) == 3 * 2999
    text = source.text()
    assert text.line_count == 3 * 2999
    stored = text.lines(1, 3 * 2999)
    lost = stored.index("") - 1
    assert 190_000 < len("".join(stored[:lost]).encode()) + lost <= 200_000
    assert stored[:lost] == (3 * TEXT.splitlines())[:lost]
    assert stored[lost] == f"(run.log is not available from line {lost + 1}: the temporary file is full)"
    assert set(stored[lost + 1 :]) == {""}
    assert [note.severity for note in source.notes] == ["info"]


def test_lines_can_be_read_while_more_are_added() -> None:
    source = source_of(TEXT.encode())
    text = source.text()
    mismatches: list[list[str]] = []
    expected = TEXT.splitlines()
    is_done = threading.Event()

    def look() -> None:
        while not is_done.is_set():
            first = random.randrange(1, 2999)
            lines = text.lines(first, 5)
            if lines != expected[first - 1 : first - 1 + len(lines)]:
                mismatches.append(lines)

    reader = threading.Thread(target=look)
    reader.start()
    for _ in source.blocks(block_size=500):
        pass
    is_done.set()
    reader.join()
    assert mismatches == []


# --- progress --------------------------------------------------------------------------------------------------------


def test_a_silent_pipe_can_be_stopped() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        os.write(writing, b"==7== NVPROF is profiling process 7\n" * 20)
        reports: list[int] = []
        source = InputFile.open(
            "-", stream=pipe, on_progress=lambda progress: bool(reports.append(progress.bytes_read))
        )
        os.close(writing)
    assert source.stopped
    assert reports == [720]
    assert source.size is None
    assert len(texts_of(source)) == 20


def test_a_named_pipe_without_a_writer_can_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ProftuiError, match="stopped without any output"):
        InputFile.open(str(path), on_progress=lambda _progress: False)
    # One that is written to later is waited for.
    text = "==7== NVPROF is profiling process 7\n"
    writer = threading.Thread(target=path.write_text, args=(text,))

    def begin_to_write(_progress: LoadProgress) -> bool:
        if writer.ident is None:
            writer.start()
        return True

    source = InputFile.open(str(path), on_progress=begin_to_write)
    writer.join()
    assert texts_of(source) == [text.strip()]


def test_a_pipe_that_closes_is_read_to_its_end() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        os.write(writing, b"one\ntwo")
        os.close(writing)
        assert texts_of(InputFile.open("-", stream=pipe)) == ["one", "two"]


def test_redirected_input_is_read_as_a_file(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("one\ntwo\n")
    with path.open("rb") as file:
        file.seek(4)
        source = InputFile.open("-", stream=file)
    assert source.size in (4, 8)
    assert texts_of(source)[-1] == "two"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_not_waited_for(device: str) -> None:
    with pytest.raises(ProftuiError, match=f"^{device}: this is a device"):
        InputFile.open(device)
