"""Invalid input gets one clear line, or an issue with its line number and everything readable around it."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.corpus import corpus_files
from tests.loaders import test_proton, test_tensorrt
from tests.loaders.damage import sample
from tests.loaders.rocprof import test_rocprofv3_json
from tui.fmt import brief_size
from tui.loaders.input_file import InputFile
from tui.loaders.nvprof.nvprof_reader import NVPROF
from tui.loaders.registry import load_input
from tui.loaders.text.text_log import TextLogLoader
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import Path

    from tui.model.profile import Profile

TRACE = """\
==7207== NVPROF is profiling process 7207, command: ./train
==7207== Profiling application: ./train
==7207== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput\
  SrcMemType  DstMemType           Device   Context    Stream  Name
250.00ms  10.000us                    -               -         -         -         -  4.0000KB  390.63MB/s\
    Pageable      Device  Tesla V100-SXM2         1         7  [CUDA memcpy HtoD]
251.00ms  20.000us             (32 1 1)       (128 1 1)        32        0B        0B         -           -\
           -           -  Tesla V100-SXM2         1         7  scale(float*, int) [104]
252.00ms  30.000us             (64 2 1)       (256 1 1)        40  1.0000KB        0B         -           -\
           -           -  Tesla V100-SXM2         1         7  volta_sgemm_128x64_nn [111]

Regs: Number of registers used per CUDA thread. This number includes registers used internally by the CUDA driver.
"""
SUMMARY = """\
==5110== NVPROF is profiling process 5110, command: ./saxpy
==5110== Profiling application: ./saxpy
==5110== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:   75.00%  3.0000ms         3  1.0000ms  0.9000ms  1.1000ms  {name}
                   25.00%  1.0000ms         1  1.0000ms  1.0000ms  1.0000ms  [CUDA memcpy HtoD]
      API calls:  100.00%  9.0000ms         9  1.0000ms  1.0000ms  1.0000ms  cudaMalloc
"""
CAFFE = """\
I1230 17:32:15.849504  6463 caffe.cpp:297] Use GPU with device ID 0
I1230 17:32:17.100000  6463 caffe.cpp:356] Iteration: 1 forward-backward time: 13.5 ms.
I1230 17:32:17.100100  6463 caffe.cpp:359] Average time per layer:
I1230 17:32:17.100200  6463 caffe.cpp:362]      conv1\tforward: 1.5 ms.
I1230 17:32:17.100300  6463 caffe.cpp:365]      conv1\tbackward: 2.5 ms.
I1230 17:32:17.100400  6463 caffe.cpp:370] Average Forward pass: 1.6 ms.
I1230 17:32:17.100500  6463 caffe.cpp:372] Average Backward pass: 2.6 ms.
I1230 17:32:17.100600  6463 caffe.cpp:374] Average Forward-Backward: 4.5 ms.
I1230 17:32:17.100700  6463 caffe.cpp:376] Total Time: 4.5 ms.
"""


def read(content: str | bytes) -> Profile:
    content = content if isinstance(content, bytes) else content.encode()
    return load_input("-", stream=io.BytesIO(content))


def durations(profile: Profile) -> list[int]:
    return profile["activities"]["duration_ns"].to_list()


def input_issues(profile: Profile) -> list[tuple[int | None, str, str]]:
    """Return the issues about the file itself, not about nvprof's figures in it."""
    of_input = pl.col("reason").str.contains("^the line is|stream|^the file")
    return profile["issues"].filter(of_input).select("line", "severity", "reason").rows()


def gpu_names(profile: Profile) -> list[str]:
    return profile["summary"].filter(section="gpu")["name"].cast(pl.String).to_list()


# --- inputs that hold no profile: one clear line ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n", "it has only blank lines"),
        (b"hello world\n", "it begins with “hello world”"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(50), "is a PNG image"),
        (bytes(range(256)) * 300, "unknown binary file (it begins with 00 01 02"),
        (random.Random(5).randbytes(5000), "unknown binary file"),
        (bytes(5000), "it has only zero bytes"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "the gzip stream ends early"),
        (gzip.compress(b"hello world\n"), "it begins with “hello world”"),
        (b"[red]not markup[/red] \x1b[31m\x07\n", "it begins with “[red]not markup[/red]”"),
        (b"x" * (3 << 20), "it begins with “xxx"),
        ("\u202egolden\n".encode(), "it begins with"),
    ],
    ids=[
        "empty",
        "blank",
        "prose",
        "image",
        "every byte",
        "random",
        "zeros",
        "broken gzip",
        "gzip",
        "markup",
        "one line",
        "bidirectional",
    ],
)
def test_the_error_for_other_content_is_one_clear_line(content: bytes, words: str) -> None:
    with pytest.raises(ProftuiError) as caught:
        read(content)
    message = str(caught.value)
    assert message.startswith("standard input: ")
    assert words in message
    assert not re.search(r"[\x00-\x1f\x7f-\x9f]", message)
    assert len(message) < 600


def test_a_directory_a_missing_file_and_an_unreadable_one(tmp_path: Path) -> None:
    with pytest.raises(ProftuiError, match="the directory has no files"):
        load_input(str(tmp_path))
    with pytest.raises(ProftuiError, match="no such file"):
        load_input(str(tmp_path / "run.log"))
    (tmp_path / ".cache").mkdir()
    output = tmp_path / "OUTPUT"
    output.mkdir()
    for name in ("", "readme.txt"):
        if name:
            (tmp_path / name).write_text("The profiles are in OUTPUT.")
        with pytest.raises(ProftuiError) as caught:
            load_input(str(tmp_path))
        assert (
            caught.value.hint == f"to list the profiles in its folder OUTPUT: proftui report {tmp_path} --view profiles"
        )
    if os.geteuid() != 0:
        (tmp_path / "secret.log").touch(0)
        with pytest.raises(ProftuiError, match="permission denied"):
            load_input(str(tmp_path / "secret.log"))


def test_a_profile_without_kernels_is_reported() -> None:
    profile = read(
        "==9== NVPROF is profiling process 9, command: ./a.out\n"
        "==9== Profiling application: ./a.out\n"
        "==9== Profiling result:\n"
        "No kernels were profiled.\n"
    )
    assert profile["sessions"]["pid"].to_list() == [9]
    assert profile["issues"].filter(line=4).height == 1


@pytest.mark.parametrize(
    "text",
    [
        "==9== NVPROF is profiling process 9, command: ./a.out\n",
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n',
        "All Iterations\nOp ID,Op Name,Direction,Op Type,No. Calls,TC Eligible\n",
    ],
)
def test_an_empty_session_is_reported(text: str) -> None:
    (reported,) = read(text)["issues"].select("session", "severity", "reason").rows()
    assert reported[:2] == (0, "warning")
    assert reported[2].startswith("this session is empty")


# --- profiles that are damaged: the rest is read ---------------------------------------------------------------------


def test_a_log_cut_in_the_middle_of_a_row() -> None:
    all_durations = durations(read(TRACE))
    assert all_durations == [10_000, 20_000, 30_000]
    ends = range(TRACE.index("252.00ms") + 9, TRACE.index("volta_sgemm") + 3)
    # A cut within blanks gives the same cells as one before them.
    for end in sample((end for end in ends if not TRACE[end - 2 : end].isspace()), 30):
        profile = read(TRACE[:end])
        assert durations(profile)[:2] == all_durations[:2]
        assert profile["activities"].height == 3 or 7 in profile["issues"]["line"].to_list(), end


def test_nul_bytes_in_a_log_and_in_front_of_it() -> None:
    rotated = bytes(200_000) + b"\n" + TRACE.encode()
    assert durations(read(rotated)) == [10_000, 20_000, 30_000]
    assert durations(read(TRACE.replace("(32 1 1)", "(\x0032 1 1)").replace("scale", "sc\0ale"))) == [
        10_000,
        20_000,
        30_000,
    ]


def test_a_huge_line_next_to_a_profile_is_truncated() -> None:
    profile = read(b"x" * (3 << 20) + b"\n" + TRACE.encode() + b"y" * (2 << 20))
    assert durations(profile) == [10_000, 20_000, 30_000]
    assert input_issues(profile) == [
        (1, "warning", "the line is 3 MiB long; only its first 1 MiB was read"),
        (11, "warning", "the line is 2 MiB long; only its first 1 MiB was read"),
    ]


def test_a_truncated_gzip_of_a_log_shows_what_it_holds(tmp_path: Path) -> None:
    random.seed(3)
    noise = "".join(f"loss {random.random()}\n" for _ in range(20_000))
    content = gzip.compress((TRACE + noise).encode(), mtime=0)[:-100]
    path = tmp_path / "run.log.gz"
    path.write_bytes(content)
    profile = load_input(str(path))
    assert durations(profile) == [10_000, 20_000, 30_000]
    assert profile.partial == "the gzip stream ends early"
    ((line, severity, reason),) = input_issues(profile)
    assert (line, severity) == (None, "error")
    position = f"after all {brief_size(len(content))}"
    assert reason == f"the gzip stream ends early, {position}; the data before this point is shown"


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(TRACE)

    source = InputFile.open(str(path))
    with path.open("a") as file:
        file.write("more\n")
    profile = TextLogLoader((NVPROF,)).load(source)
    assert durations(profile) == [10_000, 20_000, 30_000]
    ((line, severity, reason),) = input_issues(profile)
    assert (line, severity) == (None, "warning")
    assert reason.startswith("the file changed while it was read")


@pytest.mark.parametrize(
    ("name", "cleaned"),
    [
        ("[bold red]kernel[/bold red](int*)", "[bold red]kernel[/bold red](int*)"),
        ("a[i] = b[/x]", "a[i] = b[/x]"),
        ("kernel\x1b[31m(int*)\x1b[0m", "kernel(int*)"),
        ("kernel\x1b]0;owned\x07(int*)", "kernel(int*)"),
        ("kernel\x07\x08\x08el(int*)", "kernel(int*)"),
        ("gr\x00öße(int*)", "größe(int*)"),
        ("k" * 100_000, "k" * 100_000),
        ("k<" * 30_000 + ">" * 30_000, "k<" * 30_000 + ">" * 30_000),
    ],
)
def test_hostile_names(name: str, cleaned: str) -> None:
    profile = read(SUMMARY.format(name=name))
    assert gpu_names(profile) == [cleaned, "[CUDA memcpy HtoD]"]
    assert profile["summary"]["total_ns"].to_list() == [3_000_000, 1_000_000, 9_000_000]


@pytest.mark.parametrize("number", ["99999999999999999999999", "-1", "nan", "inf", "1e400", "", "²", "\ufffd"])
@pytest.mark.parametrize("replaced", ["5110", "3.0000ms", "1.1000ms", "     3  ", "75.00%"])
def test_implausible_numbers_affect_no_other_row(number: str, replaced: str) -> None:
    text = SUMMARY.format(name="saxpy(int)")
    profile = read(text.replace(replaced, number.rjust(len(replaced)), 1))
    calls = profile["summary"].filter(section="api")
    assert calls["total_ns"].to_list() == [9_000_000]


mutation = st.tuples(
    st.integers(0, 10**6),
    st.integers(0, 60),
    st.one_of(
        st.binary(max_size=6),
        st.sampled_from([b"\n", b"\r", b"\0", b"99999999999999999999", b"-", b"\x1b[2K", b"==1==", b"1e400s", b'","']),
    ),
)


def mutate(content: bytes, mutations: list[tuple[int, int, bytes]]) -> bytes:
    for position, removed, inserted in mutations:
        position %= len(content) + 1
        content = content[:position] + inserted + content[position + removed :]
    return content


@given(st.sampled_from([TRACE, SUMMARY, CAFFE, TRACE + SUMMARY]), st.lists(mutation, min_size=1, max_size=6))
@example(SUMMARY.replace("==5110==", "==99999999999999999999=="), [])
def test_a_damaged_log_is_read_or_declined(text: str, mutations: list[tuple[int, int, bytes]]) -> None:
    content = mutate(text.encode(), mutations)
    try:
        profile = read(content)
    except ProftuiError:
        return
    lines = content.count(b"\n") + 1
    for frame in ("activities", "summary", "layers", "issues"):
        assert profile[frame]["line"].drop_nulls().is_between(1, lines).all()


@pytest.mark.parametrize("pattern", ["nvprof/*.txt", "nvprof_rendered/*", "seeds/*.txt"])
def test_damaged_real_logs_are_read_or_declined(pattern: str, corpus: Callable[[str], str]) -> None:
    corpus(pattern.partition("/")[0])
    rng = random.Random(11)
    for path in corpus_files(pattern):
        with open(path, "rb") as file:  # noqa: PTH123
            content = file.read(20_000)
        damage = [(rng.randrange(10**6), rng.choice((0, 1, 80)), rng.randbytes(3)) for _ in range(8)]
        with contextlib.suppress(ProftuiError):
            read(mutate(content, damage))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_json_saved_by_a_windows_editor_is_read(encoding: str) -> None:
    documents = {
        "proton": test_proton.TREE,
        "tensorrt-json": json.loads(test_tensorrt.EXPORTED),
        "rocprofv3-json": {"rocprofiler-sdk-tool": [test_rocprofv3_json.PROCESS]},
    }
    for format_name, document in documents.items():
        profile = load_input("-", stream=io.BytesIO(json.dumps(document).encode(encoding)))
        assert profile["sessions"]["format"].to_list() == [format_name]
        assert profile["issues"].filter(severity="error").is_empty()
