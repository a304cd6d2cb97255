from __future__ import annotations

import polars as pl
import pytest

from tests.query.tables import COLUMNS, FRAME
from tui.query.compile import compile_query
from tui.query.complete import Completion, CompletionKind, best_completion, complete


def completions_of(text: str, *, frame: pl.DataFrame = FRAME, limit: int = 20) -> list[Completion]:
    return complete(text, len(text), columns=COLUMNS, frame=frame, limit=limit)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # columns
        ("to", ["total"]),
        ("gemm to", ["total"]),
        ("(to", ["total"]),
        ("!to", ["total"]),
        ("gemm|to", ["total"]),
        ("si", ["size"]),
        ("tot", ["total"]),
        ("TOT", ["total"]),
        # operators
        ("stream", ["stream=", "stream!=", "stream>", "stream>=", "stream<", "stream<="]),
        ("total", ["total>", "total>=", "total<", "total<=", "total=", "total!="]),
        ("name", ["name:", "name=", "name!=", "name~"]),
        ("tc", ["tc="]),
        # values by frequency
        ("kind=", ["kernel", "memcpy", "memset"]),
        ("kind:mem", ["memcpy", "memset"]),
        ("kind = m", ["memcpy", "memset"]),
        ('kind="mem', ['"memcpy"', '"memset"']),
        ("kind:set", ["memset"]),
        ("device=", ["0", "1"]),
        ("stream=1", ["14"]),
        ("tc=", ["yes", "no", "?"]),
        ("tc=n", ["no"]),
        # what needs quotes gets them
        ("name:cuda", ['"[CUDA memcpy HtoD]"', '"[CUDA memset]"']),
        ("grid=(64", []),
        # a number wants a unit
        ("total>1", ["1ms", "1us", "1s", "1ns"]),
        ("total>", []),
        ("size>=4", ["4MiB", "4KiB", "4GiB", "4B"]),
        # the rest of a name
        ("volta_s", ["volta_sgemm_128x64_tn"]),
        # nothing to go on
        ("gemm)", []),
        ("nosuch=", []),
        ('"open', []),
        ("xyz", []),
    ],
)
def test_completions_of_the_next_word(text: str, expected: list[str]) -> None:
    assert [completion.text for completion in completions_of(text)] == expected


def test_columns_have_descriptions_and_values_have_counts() -> None:
    assert completions_of("cal")[0] == Completion("calls", 0, 3, CompletionKind.COLUMN, "Number of calls.")
    assert completions_of("a kind=ker")[0] == Completion("kernel", 7, 10, CompletionKind.VALUE, "4 rows")
    assert completions_of("device=1")[0].help == "2 rows"
    assert completions_of("kind=memc")[0].help == "1 row"


def test_an_empty_query_offers_the_columns_of_the_table() -> None:
    assert [completion.text for completion in completions_of("", limit=4)] == ["name", "kind", "count", "total"]
    assert [completion.text for completion in completions_of("gemm ", limit=2)] == ["name", "kind"]


def test_completions_in_the_middle_of_a_query() -> None:
    completion = complete("to gemm", 2, columns=COLUMNS, frame=FRAME)[0]
    assert completion.apply_to("to gemm") == "total gemm"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("gemm ", None),
        ("to", "total"),
        ("gemm kind=ker", "gemm kind=kernel"),
        ("kind=", "kind=kernel"),
        # what begins otherwise cannot be shown behind the cursor
        ("kind:set", None),
        ("name:cuda", None),
        ('name="[C', 'name="[CUDA memcpy HtoD]"'),
        ("total>1", "total>1ms"),
        ("stream=7", None),
    ],
)
def test_suggestion(text: str, expected: str | None) -> None:
    assert best_completion(text, columns=COLUMNS, frame=FRAME) == expected


@pytest.mark.parametrize("text", ["k", "kind=", "kind:", 'name="', "name:", "device=", "total>1", "rate>1", "tc=", "v"])
def test_every_completed_value_parses(text: str) -> None:
    completions = [
        completion for completion in completions_of(text, limit=50) if completion.kind is CompletionKind.VALUE
    ]
    assert completions
    for completion in completions:
        query = compile_query(completion.apply_to(text), columns=COLUMNS, frame=FRAME)
        assert completion.help == "" or query.mask(FRAME).any()


def test_measured_numbers_are_not_completed() -> None:
    frame = pl.DataFrame({"stream": range(1000)})
    assert complete("stream=", 7, columns=COLUMNS, frame=frame) == []


def test_long_values_are_not_completed() -> None:
    frame = pl.DataFrame({"name": ["a" * 201, "a" * 200]})
    assert [completion.text for completion in complete("name=a", 6, columns=COLUMNS, frame=frame)] == ["a" * 200]
