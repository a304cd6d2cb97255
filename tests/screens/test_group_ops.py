"""Group Ops: a tree as a table, folded, sorted, filtered and searched, with links to ops and back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest

from tests.analysis.frames import kernel, make_profile
from tests.screens.explorer import app_of, assert_at_sizes, message_of, open_explorer, press, screen_of
from tests.screens.made_profiles import open_profile
from tests.snapshots import assert_screen, screen_text
from tests.waiting import WorkerGate, wait_until
from tui.screens import base, group_ops
from tui.screens.group_ops import GroupOpsScreen, chosen_tree
from tui.widgets.table import tree
from tui.widgets.table.pane import TablePane

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion
    from textual.pilot import Pilot

    from tui.analysis.ops.op_trees import TreeGrouping
    from tui.model.profile import Profile
    from tui.widgets.table.tree import TreePane

TRACE, MODULES, LOG = "resnet50_training.pt.trace.json.gz", "mlp_modules.pt.trace.json.gz", "caffe_conv1.nvprof.log"
STATES = {
    "unfolded": (MODULES, "3 Z Z"),
    "callers": (TRACE, "3 b j l"),
    "types": (LOG, "3 b"),
}


def tree_of(pilot: Pilot[None]) -> TreePane:
    screen = screen_of(pilot, GroupOpsScreen)
    return screen.pane


def node_names(pilot: Pilot[None]) -> list[str]:
    found: list[str] = tree_of(pilot).model.shown_frame()["node"].to_list()
    return found


def current_node(pilot: Pilot[None]) -> str:
    row = tree_of(pilot).current_row
    assert row is not None
    return str(row["node"])


@pytest.fixture
def folded_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unfold new trees only to their first branch, as in a terminal with little room."""
    monkeypatch.setattr(tree, "MIN_UNFOLDED_SHARE", 1)


def deep_profile() -> Profile:
    """Return two branches of a model; the first has one child at every level down to the ops."""
    places = [("net/a/x", "mm", 50), ("net/a/x", "relu", 30), ("net/b", "mm", 15), (None, "sum", 5)]
    ops = [
        {"op": place, "name": name, "group": group, "start_ns": 10 * place, "duration_ns": 5, "op_source": "recorded"}
        for place, (group, name, _) in enumerate(places)
    ]
    work = [
        kernel("k", gpu_ns, start_ns=100 * place, op=place, op_join="launch")
        for place, (_, _, gpu_ns) in enumerate(places)
    ]
    return make_profile(ops=ops, activities=work)


@pytest.mark.parametrize("state", STATES)
async def test_screen(state: str, snapshot: SnapshotAssertion) -> None:
    sample, keys = STATES[state]
    async with open_explorer(sample) as pilot:
        await press(pilot, *keys.split())
        await assert_at_sizes(pilot, snapshot)


async def test_ascii_mode(snapshot: SnapshotAssertion) -> None:
    async with open_explorer(MODULES, size=(80, 24), ascii_only=True, view="group-ops") as pilot:
        assert screen_text(pilot.app).isascii()
        assert_screen(pilot.app, snapshot)


async def test_groups_with_most_time_are_unfolded_as_far_as_they_fit() -> None:
    async with open_profile(deep_profile(), view="group-ops") as pilot:
        assert node_names(pilot) == ["all", "net", "a", "x", "mm", "relu", "b", "mm", "sum"]
        # Short names are indented all the same.
        signs = [line.index("▾") for line in screen_text(pilot.app).splitlines() if "▾" in line]
        assert signs == [2, 4, 6, 8, 6]
    async with open_explorer(TRACE, size=(80, 24), view="group-ops") as pilot:
        shown = ["all", "backward", "aten::conv2d", "aten::batch_norm", "aten::relu"]
        assert (node_names(pilot)[:5], len(node_names(pilot))) == (shown, 17)
        # What ran in backward lies in no range named forward.
        passes = tree_of(pilot).frame.filter(pl.col("node").is_in(["backward", "forward"]), level=2)
        times = passes.select("node", "forward_gpu_ns", "backward_gpu_ns").rows()
        assert [(node, forward > 0, backward > 0) for node, forward, backward in times] == [
            ("backward", False, True),
            ("forward", True, False),
        ]
        # What is folded by hand stays so when the view is filled again.
        await press(pilot, "h", "2", "3")
        assert node_names(pilot) == ["all"]
    async with open_explorer(TRACE, size=(200, 50), view="group-ops") as pilot:
        assert node_names(pilot)[3:6] == ["aten::conv2d", "aten::convolution", "aten::convolution_backward"]
        # What has its time itself stays folded: what is in it has next to none.
        assert "aten::native_batch_norm" in node_names(pilot)
        assert not {"aten::zeros", "aten::zero_"}.intersection(node_names(pilot))
        # Names have the room of less important columns; both passes come before those.
        text = screen_text(pilot.app)
        assert "aten::cudnn_convolution " in text
        assert "Forward ms   Backward ms" in text
        assert "Level" not in text


@pytest.mark.usefixtures("folded_trees")
async def test_the_tree_is_unfolded_to_its_first_branch_and_folds_by_keys() -> None:
    async with open_profile(deep_profile(), view="group-ops") as pilot:
        assert node_names(pilot) == ["all", "net", "sum"]
        # A chain of groups unfolds down to where it branches; h folds, and goes out from there.
        await press(pilot, "j", "l")
        assert node_names(pilot) == ["all", "net", "a", "b", "sum"]
        await press(pilot, "j", "l")
        assert node_names(pilot) == ["all", "net", "a", "x", "mm", "relu", "b", "sum"]
        await press(pilot, "l", "l")
        assert current_node(pilot) == "mm"
        await press(pilot, "h", "h")
        assert (current_node(pilot), node_names(pilot)) == ("x", ["all", "net", "a", "x", "b", "sum"])
        await press(pilot, "h", "h", "h", "h")
        assert (current_node(pilot), node_names(pilot)) == ("net", ["all", "net", "sum"])


@pytest.mark.usefixtures("folded_trees")
async def test_levels_fold_and_unfold_and_the_cursor_stays_visible() -> None:
    async with open_profile(deep_profile(), view="group-ops") as pilot:
        await press(pilot, "Z")
        assert node_names(pilot) == ["all", "net", "a", "b", "sum"]
        await press(pilot, "Z", "Z", "G", "k")
        assert current_node(pilot) == "mm"
        assert len(node_names(pilot)) == 9
        await press(pilot, "z", "z", "z")
        assert (current_node(pilot), node_names(pilot)) == ("net", ["all", "net", "sum"])
        await press(pilot, "z")
        assert node_names(pilot) == ["all"]


async def test_sorting_sorts_within_each_group() -> None:
    async with open_profile(deep_profile(), view="group-ops") as pilot:
        await press(pilot, "Z", "Z", "Z")
        tree_of(pilot).set_sort((("gpu_ns", False),))
        await press(pilot, "g")
        assert node_names(pilot) == ["all", "sum", "net", "b", "mm", "a", "x", "relu", "mm"]


@pytest.mark.usefixtures("folded_trees")
async def test_a_filter_keeps_the_ancestors_of_matches_and_shows_their_share() -> None:
    async with open_profile(deep_profile(), view="group-ops") as pilot:
        await press(pilot, "f", *"relu", "enter")
        assert node_names(pilot) == ["all", "net", "a", "x", "relu"]
        assert "30.00% of time" in screen_text(pilot.app)
        await press(pilot, "escape")
        # What was under the cursor stays in sight, the rest is as it was.
        assert node_names(pilot) == ["all", "net", "sum"]


@pytest.mark.usefixtures("folded_trees")
async def test_find_unfolds_groups_with_matches() -> None:
    async with open_profile(deep_profile(), view="group-ops") as pilot:
        await press(pilot, "slash", *"mm", "enter")
        assert current_node(pilot) == "mm"
        assert tree_of(pilot).current_row["path"] == "net/a/x/mm"  # type: ignore[index]
        await press(pilot, "n")
        assert tree_of(pilot).current_row["path"] == "net/b/mm"  # type: ignore[index]
        await press(pilot, "escape")
        assert current_node(pilot) == "mm"
        assert node_names(pilot) == ["all", "net", "a", "b", "mm", "sum"]


async def test_links_lead_from_an_op_to_its_kernels_and_back() -> None:
    async with open_explorer(MODULES, view="ops-and-kernels") as pilot:
        screen = screen_of(pilot)
        ops = screen.query_one("#ops", TablePane)
        first: dict[str, Any] = ops.frame.row(0, named=True)
        await press(pilot, "t")
        assert current_node(pilot) == first["op"]
        most = tree_of(pilot).frame.filter(pl.col("op") == first["op"])["gpu_self_ns"].max()
        assert tree_of(pilot).current_row["gpu_self_ns"] == most  # type: ignore[index]
        await press(pilot, "enter")
        assert ops.state.filter == f'op="{first["op"]}"'
        assert ops.model.shown_frame()["op"].to_list() == [first["op"]]


async def test_a_link_leads_from_a_launch_to_its_op_in_the_tree() -> None:
    async with open_explorer(MODULES, view="ops-and-kernels") as pilot:
        await press(pilot, "enter", "enter", "j", "j", "j", "j")
        screen = screen_of(pilot)
        launch = screen.query_one("#launches", TablePane).current_row
        assert launch is not None
        whole = app_of(pilot).profile_session.profile
        number = whole["activities"].filter(pl.col("activity") == launch["activity"])["op"][0]
        name, group = whole["ops"].filter(pl.col("op") == number).select("name", "group").row(0)
        await press(pilot, "t")
        assert group
        assert tree_of(pilot).current_row["path"] == f"{group}/{name}"  # type: ignore[index]


async def test_a_key_cycles_through_the_groupings() -> None:
    async with open_explorer(TRACE, view="group-ops") as pilot:
        total_ns = tree_of(pilot).frame["gpu_ns"][0]
        for grouping in ("by caller", "by NVTX range", "by type", "by module or range"):
            await press(pilot, "full_stop")
            assert f"[{grouping.removeprefix('by ')}]" in screen_text(pilot.app)
            assert tree_of(pilot).frame["gpu_ns"][0] == total_ns
        await press(pilot, "comma")
        assert "[type]" in screen_text(pilot.app)
        await press(pilot, "colon", *"group range", "enter")
        assert "[NVTX range]" in screen_text(pilot.app)
        # Back in the history the grouping is what it was.
        await press(pilot, "4", "minus")
        assert "[NVTX range]" in screen_text(pilot.app)
        # What the tab says is what can be typed.
        await press(pilot, "colon", *"group module or range", "enter")
        assert "[module or range]" in screen_text(pilot.app)


async def test_an_unavailable_grouping_says_why() -> None:
    async with open_explorer(LOG, notifications=True, view="group-ops") as pilot:
        await press(pilot, "colon", *"group caller", "enter")
        assert "callers of ops not recorded" in screen_text(pilot.app)
        assert "[layer]" in screen_text(pilot.app)


async def test_a_hundred_thousand_groups_fold_quickly() -> None:
    async with open_profile(deep_profile(), view="group-ops") as pilot:
        tree = tree_of(pilot)
        rows = 100_000
        parent = np.maximum(0, (np.arange(rows) - 1) // 10)
        parent[0] = -1
        # Each row has ten below it.
        depth = np.searchsorted(np.cumsum(10 ** np.arange(6)), np.arange(rows), side="right")
        frame = pl.DataFrame(
            {
                "session": np.zeros(rows, np.uint32),
                "node": [f"node {row}" for row in range(rows)],
                "path": [f"node {row}" for row in range(rows)],
                "node_kind": ["group"] * rows,
                "parent": parent,
                "level": depth + 1,
                "gpu_ns": np.arange(rows)[::-1],
                "gpu_self_ns": np.ones(rows, np.int64),
                "time_pct": np.zeros(rows),
            }
        )
        tree.show(frame)
        await press(pilot, "Z", "Z", "Z", "Z", "Z")
        assert len(node_names(pilot)) == rows
        used_s = time.process_time()
        await pilot.press("h")
        assert time.process_time() - used_s < 2
        assert len(node_names(pilot)) == 1


@pytest.mark.usefixtures("folded_trees")
async def test_rows_of_many_launches_are_computed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 2)
    async with open_profile(deep_profile(), view="group-ops") as pilot:
        assert node_names(pilot) == ["all", "net", "sum"]
        await press(pilot, "full_stop")
        assert "[type]" in screen_text(pilot.app)
        await press(pilot, "2")
        screen = screen_of(pilot)
        assert screen.query_one("#table", TablePane).frame["gpu_ns"].sum() == 100
        await press(pilot, "4", "comma")
        assert screen_text(pilot.app).count("[op instance]") == 1
        screen = screen_of(pilot)
        assert screen.query_one("#ops", TablePane).frame["total_ns"].sum() == 100


@pytest.mark.usefixtures("folded_trees")
async def test_an_op_is_shown_in_the_tree_when_a_thread_has_computed_that(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = WorkerGate()

    def slow(profile: Profile, chosen: TreeGrouping | None) -> pl.DataFrame:
        gate.wait()
        return chosen_tree(profile, chosen)

    monkeypatch.setattr(group_ops, "chosen_tree", slow)
    # A check after that long does not count as being at work.
    monkeypatch.setattr(base, "CHECK_EVERY_S", 0.05)
    async with open_profile(deep_profile(), view="ops-and-kernels", notifications=True) as pilot:
        await press(pilot, "j")
        monkeypatch.setattr(base, "MAX_ROWS_WITHOUT_THREAD", 0)
        await press(pilot, "t")
        await wait_until(pilot, lambda: bool(WorkerGate.blocked), "the thread that computes the tree")
        gate.set()
        await wait_until(pilot, lambda: tree_of(pilot).current_row is not None, "the tree")
        await wait_until(pilot, lambda: current_node(pilot) == "relu", "the op")
        assert message_of(pilot) == ""


async def test_the_help_has_no_keys_of_the_flame_view() -> None:
    async with open_explorer(TRACE, view="group-ops") as pilot:
        await press(pilot, "question_mark", "tab")
        text = screen_text(pilot.app)
        assert text.count("Go to the next grouping.") == 1
        assert " b " not in text


async def test_cut_names_keep_their_distinct_ends() -> None:
    async with open_explorer("resnet50_training.pt.trace.json.gz", size=(80, 24), view="group-ops") as pilot:
        text = screen_text(pilot.app)
        assert "(autograd engine, no forward op)" in text
        assert "autograd::engine" not in text
        # The names of rows that are unfolded are whole.
        assert " (unattributed: launch not recorded) " in text
