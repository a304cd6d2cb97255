"""The links of the dashboard lead to the rows of their figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.analysis.frames import copy, kernel, make_profile
from tests.profiles import load_one
from tests.screens.explorer import sample_path
from tui.analysis.copies import TRANSFERS, transfers
from tui.analysis.dashboard import copies_over_sessions, dashboard
from tui.analysis.iterations.times import ITERATIONS_WITH_USES, iterations_with_uses
from tui.model.table_spec import TableState
from tui.query.apply import apply
from tui.screens.dashboard.entries import Link, copies_link, fact_link, input_entries

if TYPE_CHECKING:
    from tui.model.profile import Profile


def unusual_copies() -> Profile:
    """Return copies whose names tell the direction unlike the panel, and one whose name does not tell it."""
    return make_profile(
        activities=[
            copy("DtoH", 5, size_bytes=1),
            kernel("CopyDeviceToHost", 7, kind="memcpy"),
            kernel("CopyHostToDevice", 30, kind="memcpy", session=1),
            kernel("memcpy", 11, kind="memcpy"),
            kernel("[Unified Memory Memcpy HtoD]", 13, kind="um"),
        ]
    )


@pytest.mark.parametrize("name", ["made", "jax_train_step.trace.json.gz", "tracking_four_runs.nvprof.log"])
def test_the_copies_of_a_direction_add_up_to_its_figures(name: str) -> None:
    profile = unusual_copies() if name == "made" else load_one(sample_path(name))
    reported, behind = copies_over_sessions(profile), transfers(profile)
    assert reported.height > 1
    for row in reported.iter_rows(named=True):
        link = copies_link(row)
        found = apply(behind, TRANSFERS, TableState(filter=link.filter))
        assert (link.view, found.error) == ("memory", None)
        rows = found.take(behind)
        assert (rows["calls"].sum(), rows["total_ns"].sum()) == (row["calls"], row["total_ns"])


def test_the_iterations_of_a_figure_are_of_its_session() -> None:
    steps = [{"name": "step", "start_ns": 100 * number, "duration_ns": 90, "iteration": number} for number in range(3)]
    profile = make_profile(ranges=steps, activities=[kernel("k", 5, start_ns=7, device=0, session=1)])
    facts = dashboard(profile).performance
    reported, behind = next(fact for fact in facts if fact.name == "iterations"), iterations_with_uses(profile)
    assert (reported.value, behind["session"].to_list()) == (3, [0, 0, 0, 1])
    link = fact_link(reported, facts, iterated_session=0)
    rows = apply(behind, ITERATIONS_WITH_USES, TableState(filter=link.filter)).take(behind)
    assert rows.select("session", "iteration").rows() == [(0, 0), (0, 1), (0, 2)]


def test_ranges_without_gpu_work_are_an_input_that_leads_to_them() -> None:
    ranges = [{"name": "hcom_allReduce", "domain": "HCCL", "start_ns": 0, "duration_ns": 9}]
    profile = make_profile(ranges=ranges)
    (entry,) = input_entries(dashboard(profile), profile)
    assert (entry.row.label, entry.row.value, entry.link) == ("ranges", "1 row", Link("ranges"))
    with_work = make_profile(activities=[kernel("gemm", 7)], ranges=ranges)
    assert input_entries(dashboard(with_work), with_work) == []
