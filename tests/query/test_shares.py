from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.model.columns import columns
from tui.model.table_spec import TableSpec, TableState
from tui.query.apply import apply
from tui.query.facts import SMALL_PCT, frame_facts, share_base, share_total, small_rows, weight_pct

SPEC = TableSpec("t", "T", columns("name", "session", "total_ns"), ("name",), weight="total_ns")


def weighted_rows(weights: list[int | None], sessions: list[int] | None = None) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "name": [f"k{row}" for row in range(len(weights))],
            "session": sessions or [0] * len(weights),
            "total_ns": weights,
        },
        schema_overrides={"total_ns": pl.Int64},
    )


def test_the_smallest_rows_are_small_up_to_one_percent_in_all() -> None:
    frame = weighted_rows([9_000, 905, 60, 30, 4, 1, None])
    small = small_rows(frame, "total_ns", None)
    assert small is not None
    # 1 + 4 + 30 + 60 = 95 of 10,000; with 905 it would be 10%.
    assert small.to_list() == [False, False, True, True, True, True, False]


def test_rows_of_exactly_one_percent_are_small() -> None:
    assert small_rows(weighted_rows([9_900, 60, 40]), "total_ns", None).to_list() == [False, True, True]  # type: ignore[union-attr]
    assert small_rows(weighted_rows([9_899, 61, 40]), "total_ns", None).to_list() == [False, False, True]  # type: ignore[union-attr]


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float64])
@pytest.mark.parametrize("largest", [0, 10**15])
def test_small_rows_of_a_long_table_are_exact(dtype: pl.DataType, largest: int) -> None:
    """The limit is estimated from a sample, which may miss the row with nearly all of the weight."""
    weights = pl.Series("total_ns", [(row * 7919) % 60_013 for row in range(60_013)] + [largest]).cast(dtype)
    small = small_rows(pl.DataFrame({"total_ns": weights, "session": [0] * len(weights)}), "total_ns", None)
    assert small is not None
    ascending = weights.sort()
    min_kept = next(
        weight
        for weight, running_sum in zip(ascending, ascending.cum_sum(), strict=True)
        if running_sum * 100 > SMALL_PCT * ascending.sum()
    )
    assert small.to_list() == [weight < min_kept for weight in weights]


def test_rows_of_equal_weight_are_small_together() -> None:
    small = small_rows(weighted_rows([7] * 1_000), "total_ns", None)
    assert small is not None
    assert not small.any()


def test_small_rows_are_per_session() -> None:
    small = small_rows(weighted_rows([1_000_000, 5_000, 100, 1], [0, 0, 1, 1]), "total_ns", None)
    assert small is not None
    assert small.to_list() == [False, True, False, True]


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 10**12)), st.integers(0, 3), st.booleans()), max_size=60),
)
def test_hidden_and_shown_rows_add_up(rows: list[tuple[int | None, int, bool]]) -> None:
    frame = weighted_rows([weight for weight, _, _ in rows], [session for _, session, _ in rows])
    mask = pl.Series([passes for *_, passes in rows], dtype=pl.Boolean)
    small = small_rows(frame, "total_ns", mask)
    assert small is not None
    assert not (small & ~mask).any()
    for session in set(frame["session"]):
        total = frame.filter(mask & (pl.Series(frame["session"]) == session))["total_ns"].sum()
        hidden = frame.filter(small & (frame["session"] == session))["total_ns"].sum()
        assert hidden * 100 <= SMALL_PCT * total
    applied = apply(frame.with_columns(pick=mask), SPEC, TableState(hides_small=True))
    all_small = small_rows(frame, "total_ns", None)
    assert all_small is not None
    assert applied.small == all_small.sum()
    assert applied.shown + applied.small == frame.height == applied.passed
    assert applied.small_weight + applied.take(frame)["total_ns"].sum() == frame["total_ns"].sum()


def test_the_limit_keeps_the_first_rows_of_the_order() -> None:
    frame = weighted_rows([5, 1, 4, 2, 3])
    applied = apply(frame, SPEC, TableState(sort=(("total_ns", True),), max_rows=2))
    assert applied.take(frame)["total_ns"].to_list() == [5, 4]
    assert (applied.shown, applied.passed) == (2, 5)
    assert applied.weight_shown_pct == pytest.approx(100 * 9 / 15)
    assert apply(frame, SPEC, TableState(max_rows=9)).rows is None


def test_shares_are_of_all_or_of_shown_rows_of_all_sessions() -> None:
    frame = weighted_rows([60, 40, 100], [0, 0, 1])
    applied = apply(frame, SPEC, TableState(filter="name:k1 | name:k2", as_share=True))
    assert (applied.share_base, applied.share_base_shown) == (200, 140)
    assert apply(frame, SPEC, TableState()).share_base is None


def test_sessions_that_are_not_additive_have_their_own_shares() -> None:
    frame = weighted_rows([60, 40, 100], [0, 0, 1])
    assert share_base(frame, "total_ns", excluded_sessions=(1,)) is None
    assert share_base(frame.head(2), "total_ns", excluded_sessions=(1,)) == 100
    assert share_base(frame.tail(1), "total_ns", excluded_sessions=(1,)) == 100
    assert share_total(frame, "total_ns", excluded_sessions=(1,)) == 100
    assert share_total(frame, "total_ns") == 200
    assert share_total(frame, "total_ns", excluded_sessions=(0, 1)) is None
    assert weight_pct(frame, "total_ns", pl.Series([True, False, True]), (1,)) == 60.0
    assert weight_pct(frame, "nothing", None) is None


def test_the_sum_of_unknown_weights_is_unknown() -> None:
    frame = weighted_rows([60, 40], [0, 0]).with_columns(total_ns=pl.Series([60, None], dtype=pl.Int64))
    unknown = frame.tail(1)
    assert share_base(unknown, "total_ns") is share_total(unknown, "total_ns") is frame_facts(unknown)["total_ns"].total
    assert share_base(unknown, "total_ns") is None
    assert (share_base(frame, "total_ns"), share_base(frame.clear(), "total_ns")) == (60, 0)


def test_a_share_in_a_filter_is_of_all_rows_and_states_it() -> None:
    frame = weighted_rows([60, 40, 100], [0, 0, 1])
    applied = apply(frame, SPEC, TableState(filter="time>45%"))
    assert applied.take(frame)["name"].to_list() == ["k2"]
    assert applied.reading == "Total > 45% of all 200 ns"
    # Without the session that counts on its own, 60 of 100 is more.
    applied = apply(frame, SPEC, TableState(filter="time>45%"), excluded_sessions=(1,))
    assert applied.reading == "Total > 45% of all 100 ns"
