from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.snapshots import assert_screen
from tests.waiting import wait_until
from tests.widgets.tables import TableApp

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

SIZES = [(80, 24), (120, 40), (200, 50)]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_table_with_a_cursor_and_a_mark(size: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    app = TableApp()
    async with app.run_test(size=size) as pilot:
        await pilot.press("space", "j", "l")
        assert_screen(app, snapshot, svg=size == (80, 24))


async def test_a_search_with_its_matches(snapshot: SnapshotAssertion) -> None:
    app = TableApp()
    async with app.run_test(size=(100, 14)) as pilot:
        await pilot.press("slash", *"gemm")
        await wait_until(pilot, lambda: app.pane.model.found_count == 2)
        await pilot.pause()
        assert_screen(app, snapshot, svg=True)


async def test_an_invalid_filter(snapshot: SnapshotAssertion) -> None:
    app = TableApp()
    async with app.run_test(size=(100, 14)) as pilot:
        await pilot.press("f", *"calls>x")
        await wait_until(pilot, lambda: app.pane.search.bar.query_one("#query-answer").has_class("-wrong"))
        await pilot.pause()
        assert_screen(app, snapshot, svg=True)


async def test_ascii_mode(snapshot: SnapshotAssertion) -> None:
    app = TableApp(ascii_only=True)
    async with app.run_test(size=(120, 14)) as pilot:
        await pilot.press("space", "s")
        assert_screen(app, snapshot)


async def test_without_colors(snapshot: SnapshotAssertion) -> None:
    app = TableApp()
    async with app.run_test(size=(80, 14)) as pilot:
        app.theme = "ansi-dark"
        await pilot.press("space", "j", "slash", *"gemm", "enter")
        await wait_until(pilot, lambda: not app.pane.search.bar.is_open)
        await pilot.pause()
        assert_screen(app, snapshot, svg=True)


@pytest.mark.parametrize("key", ["c", "v", "e"], ids=["columns", "cell", "export"])
async def test_dialogs(key: str, snapshot: SnapshotAssertion) -> None:
    app = TableApp()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(key)
        assert_screen(app, snapshot)
