from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.query.tables import COLUMNS, FRAME, STRINGS, UNITS
from tui.query.compile import compile_query

if TYPE_CHECKING:
    from tui.query.compile import Query

ALL_IDS = [0, 1, 2, 3, 4, 5, 6]


def compiled_query(text: str, frame: pl.DataFrame = FRAME) -> Query:
    return compile_query(text, columns=COLUMNS, frame=frame, units=UNITS, weight="total_ns")


def matching_ids(text: str, frame: pl.DataFrame = FRAME) -> list[int]:
    mask = compiled_query(text, frame).mask(frame)
    assert mask.dtype == pl.Boolean
    assert mask.null_count() == 0
    return frame.filter(mask)["id"].to_list()


WORDS = [
    ("", ALL_IDS),
    ("   ", ALL_IDS),
    ("gemm", [0, 2]),
    ("gemm sgemm", [0]),
    ("gemm | conv", [0, 2, 3]),
    ("gemm|conv", [0, 2, 3]),
    ("!memcpy", [0, 1, 2, 3, 5, 6]),
    ("!!memcpy", [4]),
    ("nothing_of_this_name", []),
    # any text column: the kind, and the grid
    ("kernel", [0, 1, 2, 3]),
    ("128", [0, 1, 2]),
    # smart case: a capital makes it exact
    ("conv2d", [3]),
    ("Conv2D", [3]),
    ("CONV", []),
    ("cuda", [4, 5]),
    # and binds tighter than or
    ("gemm h884 | memset", [2, 5]),
    ("(gemm | memset) 64x64", [2]),
    ("!(gemm | cuda)", [1, 3, 6]),
    ("!gemm !cuda", [1, 3, 6]),
    # phrases, and what a profile's names are full of
    ('"cuda memcpy"', [4]),
    ('"memcpy cuda"', []),
    ("[CUDA memcpy HtoD]", [4]),
    ('"<float, 4>"', [1]),
    ("relu_kernel(int, float*)", []),
    ('"(int, float*)"', [1]),
    ('""', [0, 1, 2, 3, 4, 5]),
    # fuzzy
    ("~sgm128", [0]),
    ("~gmn", [0, 2]),
    ("~CVD", []),
    ("~CvD", [3]),
    ('~"cuda htod"', [4]),
    # regular expressions
    ("/^void .*</", [1]),
    (r"/gemm_\d+x64/", [0, 2]),
    ("/^CONV/", []),
    ("/^conv/", [3]),
    (r"/^\W.*SET/", []),
    (r"/^\W.*set/", [5]),
    (r"/volta_(s|h884)gemm/ !/nn$/", [0]),
    ("//", [0, 1, 2, 3, 4, 5]),
]

TEXT_COLUMNS = [
    ("name:relu", [1]),
    ("name: relu", [1]),
    ("name:Relu", []),
    ("kind:mem", [4, 5]),
    ('name:"float, 4"', [1]),
    ("kind=memcpy", [4]),
    ("kind=mem", []),
    ("kind = KERNEL", []),
    ("name=conv2d_forward", [3]),
    # in quotes: exactly
    ('name="conv2d_forward"', []),
    ('name="Conv2D_Forward"', [3]),
    ("name=?", [6]),
    ('name="?"', []),
    ("grid=?", [3, 4, 5, 6]),
    ("grid!=?", [0, 1, 2]),
    ("name:?", []),
    # a comparison with an unknown value is never true, but ! takes all the other rows
    ("kind!=kernel", [4, 5]),
    ("!kind=kernel", [4, 5, 6]),
    (r"grid~^\(128", [0, 2]),
    (r"grid~/^\(\d+ 1 /", [0]),
    (r'grid~"^\(\d+ 1 "', [0]),
    ("grid=(128 1 1)", [0]),
    ('"grid size"=(128 1 1)', [0]),
    ("name~(s|h884)gemm kind~^k", [0, 2]),
    ("(name~memset$|relu)", [1]),
    ("(name~conv | name:memset)", [3, 5]),
]

NUMBERS = [
    ("stream=7", [0, 1, 4]),
    ("stream:7", [0, 1, 4]),
    ("stream==7", [0, 1, 4]),
    ("stream>7", [2, 3]),
    ("stream>-1", [0, 1, 2, 3, 4]),
    ("stream>=-1e30", [0, 1, 2, 3, 4]),
    ("stream<-1", []),
    ("stream<=18446744073709551616", [0, 1, 2, 3, 4]),
    ("stream=7.5", []),
    ("stream<7.5", [0, 1, 4]),
    ("device!=0", [2, 5]),
    ("!device=0", [2, 3, 5, 6]),
    ("device=?", [3, 6]),
    ("device=unknown", [3, 6]),
    ("device!=?", [0, 1, 2, 4, 5]),
    ("calls<10", [0, 2, 3, 5]),
    ("calls>=0.01k", [1, 4]),
    ("calls=2..4", [0, 2, 5]),
    ("calls=4..", [1, 4, 5]),
    ("calls=..2", [2, 3]),
    ("calls!=2..4", [1, 3, 4]),
    ("!calls=2..4", [1, 3, 4, 6]),
    # 1.5 ms is 1,500,000 ns and nothing else
    ("total=1.5ms", [1]),
    ("total=1500us", [1]),
    ("total=1500µs", [1]),
    ("total=1500μs", [1]),
    ("total=0.0015s", [1]),
    ("total=1,500,000ns", [1]),
    ("total=1.5e6ns", [1]),
    ("total=1.5000001ms", []),
    ("total>1ms", [0, 1, 3]),
    ("total>1.000001ms", [0, 1]),
    ("total>=1.000001ms", [0, 1, 3]),
    ("total<0.5ms", [4, 5]),
    ("total<=0.499999ms", [4, 5]),
    ("total<0.499999ms", [5]),
    # a bare number is in the unit that the column is shown in
    ("total>1", [0, 1, 3]),
    ("total=1..1.5", [1, 2, 3]),
    # the unit behind a range is that of both ends
    ("total=500..1000us", [2]),
    ("total=500us..1", [2]),
    # a share of the total of 10,000,000 ns
    ("time>10%", [0, 1, 3]),
    ("time>=10%", [0, 1, 2, 3]),
    ("total=10%", [2]),
    ("total=10..15%", [1, 2, 3]),
    ("calls>=25%", [1, 4]),
    ("pct>=15", [0, 1]),
    ("time%>=15%", [0, 1]),
    ("size=4MiB", [4]),
    ("size=4MB", [5]),
    ("size=4096KiB", [4]),
    ("size>=4mb", [4, 5]),
    ("size=4194304", [4]),
    ("size=0B", [6]),
    ("rate>1GB/s", [4, 6]),
    ("rate>=1.5GB", [4, 6]),
    ("rate>1.4GiB/s", [6]),
    ("rate=inf", [6]),
    # NaN is no number
    ("rate=?", [0, 1, 2, 3, 5]),
    ("rate!=1.5GB/s", [6]),
    ("!rate<0", ALL_IDS),
]

FLAGS = [
    ("tc=yes", [2]),
    ("tc=True", [2]),
    ("tc=no", [0, 1]),
    ("tc=?", [3, 4, 5, 6]),
    ("tc=unknown", [3, 4, 5, 6]),
    ("tc!=yes", [0, 1]),
    ("!tc=yes", [0, 1, 3, 4, 5, 6]),
    ("tc!=?", [0, 1, 2]),
    ("tc:yes", [2]),
]

MIXED = [
    ("(gemm | conv) total>1ms !stream=7", [3]),
    ("NAME:relu", [1]),
    ("Total>1ms", [0, 1, 3]),
    ("total_ns>1ms", [0, 1, 3]),
    ("total > 1 ms", [0, 1, 3]),
    ("total > 1 ms gemm", [0]),
    ("total > 1 gemm", [0]),
    ("total>1 mss", []),
    ("size >= 4 MB", [4, 5]),
    ("(time > 10 %)", [0, 1, 3]),
]


@pytest.mark.parametrize(("text", "expected"), [*WORDS, *TEXT_COLUMNS, *NUMBERS, *FLAGS, *MIXED])
def test_matches(text: str, expected: list[int]) -> None:
    assert matching_ids(text) == expected


@pytest.mark.parametrize(("text", "expected"), [*WORDS, *TEXT_COLUMNS])
def test_strings_and_categories_match_the_same(text: str, expected: list[int]) -> None:
    assert matching_ids(text, STRINGS) == expected


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        ("", ""),
        ("total>1", "Total > 1 ms"),
        ("total>1s", "Total > 1 s"),
        ("gemm | Conv calls>2", 'contains "gemm" or (contains "Conv" (this case) and Calls > 2)'),
        ("!(a b)", 'not (contains "a" and contains "b")'),
        ("total=10us..2ms", "Total from 10 us to 2 ms"),
        ("total=..2ms", "Total at most 2 ms"),
        ("total!=2ms..", "Total not at least 2 ms"),
        ("time>5%", "Total > 5% of all 10,000,000 ns"),
        ("size>=4MB", "Size ≥ 4 MB (4,000,000 B)"),
        ("size>=4MiB", "Size ≥ 4 MiB"),
        ("size>=4", "Size ≥ 4 B"),
        ("pct<5", "Time% < 5%"),
        ("tc=no", "TC is no"),
        ("tc=?", "TC is unknown"),
        ("device!=?", "Dev is known"),
        ("~abc", 'contains the letters "abc" in order'),
        ("/^a/ grid~b", "matches /^a/ and Grid Size matches /b/"),
        ("kind=kernel name:x", 'Kind = "kernel" and Name contains "x"'),
    ],
)
def test_queries_are_explained(text: str, reading: str) -> None:
    assert compiled_query(text).reading == reading


def test_columns_used_by_a_query() -> None:
    assert compiled_query("total>1").columns == {"total_ns"}
    assert compiled_query("gemm").columns == {"name", "kind", "grid"}
    assert compiled_query("").everything
    assert not compiled_query("gemm").everything


def test_bare_words_search_text_columns_only() -> None:
    query = compile_query("kernel", columns=COLUMNS, frame=FRAME, searched={"name", "calls"})
    assert FRAME.filter(query.mask(FRAME))["id"].to_list() == [1]
    # A column that is not shown can still be named.
    column_query = compile_query("kind:kernel", columns=COLUMNS, frame=FRAME, searched={"name"})
    assert FRAME.filter(column_query.mask(FRAME))["id"].to_list() == [0, 1, 2, 3]


def test_text_columns_of_every_kind_are_searched() -> None:
    devices = pl.DataFrame({"device": ["Tesla K40c (0)", "Tesla K40c (1)", None]})
    query = compile_query("device:k40c !device:1", columns=COLUMNS, frame=devices)
    assert query.mask(devices).to_list() == [True, False, False]
    assert compile_query('k40c !"(1)"', columns=COLUMNS, frame=devices).mask(devices).to_list() == [True, False, False]


def test_columns_of_nulls() -> None:
    empty = FRAME.clear()
    assert matching_ids("gemm stream=7 tc=yes rate>1", empty) == []
    unknown = pl.DataFrame({"name": [None, None], "stream": [None, None]})
    for text in ("stream=7", "stream!=7"):
        assert compile_query(text, columns=COLUMNS, frame=unknown).mask(unknown).to_list() == [False, False]
    assert compile_query("stream=?", columns=COLUMNS, frame=unknown).mask(unknown).to_list() == [True, True]


def test_integers_beyond_float_precision_are_distinguished() -> None:
    limit = 2**53
    frame = pl.DataFrame({"stream": [limit, limit + 1, 2**63 - 1]})

    def matches(text: str) -> list[bool]:
        return compile_query(text, columns=COLUMNS, frame=frame).mask(frame).to_list()

    assert matches(f"stream={limit + 1}") == [False, True, False]
    assert matches(f"stream>{limit}") == [False, True, True]
    assert matches(f"stream>={2**63 - 1}") == [False, False, True]
    assert matches(f"stream<{2**63}") == [True, True, True]
