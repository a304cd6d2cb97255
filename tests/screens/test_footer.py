"""The footer names the most useful keys, and each of them works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.screens.explorer import open_explorer, press, settle
from tests.snapshots import screen_text
from tests.waiting import wait_until
from tui.widgets.header_footer import KeyFooter

if TYPE_CHECKING:
    from textual.pilot import Pilot

TORCH = "resnet50_training.pt.trace.json.gz"


def footer_keys(pilot: Pilot[None]) -> list[str]:
    """Return the keys of the footer, each with its label."""
    return [part.strip() for part in screen_text(pilot.app).splitlines()[-1].split("  ") if part.strip()]


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ((), ["enter open", "i details", "tab next panel", "m views", "? help", "q quit"]),
        (("2",), ["enter open", "/ find", "f filter", "z fold", "? help", "q back"]),
        (("3",), ["enter open", "f filter", "z fold", ". group", "? help", "q back"]),
        (("4",), ["enter open", "/ find", "f filter", ". group", "? help", "q back"]),
        (("5",), ["enter open", "/ find", "f filter", "s sort", "? help", "q back"]),
        (("7",), ["enter open", "/ find", "f filter", "t slowest", "? help", "q back"]),
        (("colon", *"timeline", "enter"), ["enter open", "+ zoom in", "/ find", "I longest gaps", "? help", "q back"]),
        (("colon", *"sql", "enter"), ["up previous", "right complete", "enter run", "esc results"]),
        (("colon",), ["up previous", "right complete", "enter run", "esc cancel"]),
        (("4", "f"), ["enter keep", "esc undo", "tab find/filter"]),
        (("T", "slash"), ["enter find", "esc cancel"]),
        (("O", "slash"), ["enter find", "esc cancel"]),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else None,
)
async def test_the_footer_has_at_most_six_keys_those_of_the_view_first(keys: tuple[str, ...], shown: list[str]) -> None:
    async with open_explorer(TORCH, size=(80, 24)) as pilot:
        await press(pilot, *keys)
        assert footer_keys(pilot) == shown


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        ("dashboard", ["enter open", "tab next panel", "m views", "? help", "q quit"]),
        ("timeline", ["enter open", "+ zoom in", "I longest gaps", "? help", "q back"]),
    ],
)
async def test_the_footer_of_a_narrow_screen_leaves_out_keys_that_do_not_fit(view: str, shown: list[str]) -> None:
    async with open_explorer(TORCH, size=(60, 24), view=view) as pilot:
        assert footer_keys(pilot) == shown


async def test_the_footer_names_the_key_that_closes_details_on_a_narrow_screen() -> None:
    async with open_explorer(TORCH, size=(80, 24), view="ops-and-kernels") as pilot:
        await press(pilot, "i")
        assert footer_keys(pilot) == ["i close", ". group", "m views", "? help", "q back"]
        await press(pilot, "i")
        assert footer_keys(pilot)[0] == "enter open"


async def test_the_keys_are_selected_again_after_a_resize() -> None:
    async with open_explorer(TORCH, size=(120, 40), view="notes") as pilot:
        wide = footer_keys(pilot)
        await pilot.resize_terminal(80, 24)
        await wait_until(pilot, lambda: len(footer_keys(pilot)) < len(wide))
        assert footer_keys(pilot)[-2:] == ["? help", "q back"]
        await pilot.resize_terminal(120, 40)
        await wait_until(pilot, lambda: footer_keys(pilot) == wide)


async def test_q_is_in_the_footer_if_it_quits() -> None:
    async with open_explorer(TORCH, size=(80, 24)) as pilot:
        assert footer_keys(pilot)[-1] == "q quit"
        await press(pilot, "i")
        assert footer_keys(pilot)[-1] == "q back"
        await press(pilot, "q")
        assert footer_keys(pilot)[-1] == "q quit"
        await press(pilot, "2")
        assert footer_keys(pilot)[-1] == "q back"
        await press(pilot, "q")
        assert footer_keys(pilot)[-1] == "q quit"


def keys_below_dialog(pilot: Pilot[None]) -> list[str]:
    """Return the keys of the footer of the view below a dialog."""
    line = pilot.app.screen_stack[-2].query_one(KeyFooter).render().plain
    return [part.strip() for part in line.split("  ") if part.strip()]


@pytest.mark.parametrize("key", ["M", "d", "m", "c"])
async def test_the_footer_keeps_its_keys_below_a_dialog(key: str) -> None:
    async with open_explorer(TORCH, size=(80, 24), view="kernels") as pilot:
        keys, screen = footer_keys(pilot), pilot.app.screen
        await press(pilot, key)
        assert pilot.app.screen is not screen
        assert keys_below_dialog(pilot) == keys
        await press(pilot, "escape")
        assert footer_keys(pilot) == keys


async def test_the_keys_below_a_dialog_are_selected_again_after_a_resize() -> None:
    async with open_explorer(TORCH, size=(120, 40), view="kernels") as pilot:
        wide = footer_keys(pilot)
        await press(pilot, "d")
        await pilot.resize_terminal(80, 24)
        await wait_until(pilot, lambda: len(keys_below_dialog(pilot)) < len(wide))
        assert keys_below_dialog(pilot)[-2:] == ["? help", "q back"]


async def test_an_empty_table_has_no_keys_for_rows() -> None:
    async with open_explorer("gpt_summary.nvprof.log", size=(80, 24), view="notes") as pilot:
        assert footer_keys(pilot) == ["m views", "? help", "q back"]
        await press(pilot, "colon", *"kernels", "enter", "M", *"look", "ctrl+s")
        await press(pilot, "colon", *"notes", "enter")
        assert footer_keys(pilot)[0] == "enter open"


async def test_the_log_has_its_own_keys() -> None:
    async with open_explorer("caffe_conv1.nvprof.log", size=(80, 24), view="log") as pilot:
        assert footer_keys(pilot) == ["/ find", "i parsed as", "m views", "? help", "q back"]


async def test_a_click_on_a_key_presses_it() -> None:
    async with open_explorer(TORCH, size=(80, 24)) as pilot:
        footer = pilot.app.screen.query_one(KeyFooter)
        assert not footer.children
        place = screen_text(pilot.app).splitlines()[-1].index("m views")
        await pilot.hover(offset=(place + 6, 23))
        assert footer.tooltip == "Open the menu of views."
        await pilot.hover(offset=(place + 9, 23))
        assert footer.tooltip != "Open the menu of views."
        await pilot.click(offset=(79, 23))
        assert not pilot.app.screen.is_modal
        await pilot.click(offset=(place, 23))
        await settle(pilot)
        assert "Dashboard" in screen_text(pilot.app)
        assert pilot.app.screen.is_modal
