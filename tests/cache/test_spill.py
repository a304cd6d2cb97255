"""Spilled frames are unchanged, and spilled files are reused."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.analysis.frames import make_profile
from tui.analysis import memo
from tui.analysis.memo import once_per_profile
from tui.cache import spill
from tui.cache.spill import PieceCollector, held_bytes, is_mapped, release_memory, sort_rows, spill_to_disk
from tui.model.schema import NAME

if TYPE_CHECKING:
    from tui.model.profile import Profile

ROWS = 100_000


@pytest.fixture(autouse=True)
def _larger_than_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill._Memory, "is_low", True)


def frame() -> pl.DataFrame:
    numbers = pl.int_range(ROWS, eager=True)
    return pl.DataFrame(
        {
            "number": numbers,
            "rate": numbers / 7,
            "name": pl.Series(["f(int)", None, "g"] * (ROWS // 3) + ["g"] * (ROWS % 3), dtype=NAME),
            "some": pl.select(pl.when(numbers % 3 > 0).then(numbers)).to_series(),
            "flag": numbers % 5 == 0,
            "nothing": pl.Series([None] * ROWS, dtype=pl.Int64),
            "no_name": pl.Series([None] * ROWS, dtype=NAME),
            "text": numbers.cast(pl.String),
        }
    )


def test_a_spilled_frame_is_unchanged() -> None:
    assert_frame_equal(spill_to_disk(frame()), frame())


def test_a_spilled_frame_takes_no_memory() -> None:
    data = frame().drop("text", "flag")
    assert held_bytes(data) >= ROWS * 24
    assert held_bytes(spill_to_disk(data)) == 0


def test_two_dimensional_arrays_are_unchanged() -> None:
    values = np.arange(2 * ROWS).reshape(ROWS, 2)
    spilled = spill_to_disk((values, [values[:, 0]]))
    assert (spilled[0] == values).all()
    assert (spilled[1][0] == values[:, 0]).all()
    assert held_bytes(spilled) == 0
    assert held_bytes((values, [values])) == 2 * values.nbytes


def test_unmapped_files_are_forgotten() -> None:
    # What other tests have left to the garbage collector is not to go meanwhile.
    gc.collect()
    before = dict(spill._MAPPED)
    spilled = spill_to_disk(pl.Series("a", np.arange(ROWS)))
    assert is_mapped(spilled)
    assert is_mapped(spilled.slice(10, 5))
    assert len(spill._MAPPED) == len(before) + 1
    # Anything else may come to lie in its place.
    del spilled
    assert before == spill._MAPPED


def test_spilled_results_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def remembering(name: str) -> Callable[[Profile], pl.Series]:
        @once_per_profile("activities")
        def result(_profile: Profile) -> pl.Series:
            computed.append(name)
            return pl.Series([f"{name}: no text is ever put on the disk"] * 1000)

        return result

    whole = make_profile()
    first, second, third = remembering("first"), remembering("second"), remembering("third")
    monkeypatch.setattr(memo, "_SIZES", memo._ResultSizes())
    monkeypatch.setattr(memo, "MAX_BYTES", 5 * held_bytes(first(whole)) // 2)
    second(whole)
    first(whole)
    third(whole)
    assert computed == ["first", "second", "third"]
    # What was asked for least lately has made room.
    first(whole)
    third(whole)
    assert computed == ["first", "second", "third"]
    assert second(whole)[0].startswith("second")
    assert computed == ["first", "second", "third", "second"]


def test_a_frame_spilled_in_parts_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "_PIECE_ROWS", 30_000)
    data = frame().drop("text")
    pieces = PieceCollector(data.schema | {"missing": pl.Int64()})
    for first in range(0, ROWS, 7_000):
        piece = data.slice(first, 7_000)
        pieces.add(piece if first else piece.drop("some"))
    found = pieces.frame()

    expected = data.with_columns(
        pl.when(pl.col("number") >= 7_000).then("some").alias("some"), missing=pl.lit(None, pl.Int64)
    )
    assert_frame_equal(found, expected)
    assert all(is_mapped(found[name]) for name in ("number", "name", "some"))
    release_memory()
    assert_frame_equal(found, expected)
    assert PieceCollector(data.schema).frame().schema == data.schema


def test_sorted_rows_keep_the_order_of_equal_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "_AT_ONCE", 1_000)
    data = frame().drop("text").with_columns(key=pl.col("number") % 17)
    found = sort_rows(data, "key")

    assert_frame_equal(found, data.sort("key", maintain_order=True))
    assert is_mapped(found["number"])
    assert sort_rows(found, "key") is found
