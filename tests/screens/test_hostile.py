"""Text of a profile is never markup, and never reaches the terminal raw."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.parameters import others_slow
from tests.screens.explorer import app_of, open_explorer, press
from tests.snapshots import screen_text

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {
    "markup": "void k[bold red]<int>(a[i] = b[/x], [link=http://x]y[/link])",
    "escapes": "evil\x1b[31mred\x1b]0;title\x07\x9b2J",
    "bidi": "abc\u202egnp.exe\u2066",
    "blanks": "a\tb\vc\x00d",
    "wide": "核心_矩阵乘法_内核",
    "long": "void f<" + "int, " * 20_000 + "int>(int)",
    "formula": "=cmd|' /C calc'!A0",
}
USUAL_NAME = ("markup", "escapes", "bidi", "long")
HEADER = "Time(%)      Time     Calls       Avg       Min       Max  Name"


def log_with(name: str) -> str:
    return (
        "==1== NVPROF is profiling process 1, command: ./app [bold]x[/nope]\x1b[2J\n"
        "==1== Profiling application: ./app [bold]x[/nope]\x1b[2J\n"
        "==1== Profiling result:\n"
        f"{HEADER}\n"
        f" 60.00%  6.0000ms         2  3.0000ms  2.0000ms  4.0000ms  {name}\n"
        " 40.00%  4.0000ms         1  4.0000ms  4.0000ms  4.0000ms  plain\n"
        "\n"
        "==1== API calls:\n"
        f"{HEADER}\n"
        f"100.00%  5.0000ms         1  5.0000ms  5.0000ms  5.0000ms  cuda{name}\n"
    )


@pytest.mark.parametrize(
    "kind",
    # Of those that are slow the fuzz tests have more, and tests/test_text.py every character.
    others_slow(NAMES, USUAL_NAME),
)
async def test_every_screen_shows_a_hostile_name_as_text(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(log_with(NAMES[kind]), encoding="utf-8")
    async with open_explorer(str(path)) as pilot:
        assert app_of(pilot).profile_session.profile["summary"].height == 3
        for keys in ("", "4", "enter", "i", "v", "escape", "escape", "0", "i", "colon l o g enter", "m", "escape", "S"):
            await press(pilot, *keys.split())
            shown = screen_text(pilot.app)
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown), keys
        await press(pilot, "1")
        assert " GPU time         10 ms " in screen_text(pilot.app)


async def test_markup_in_a_name_is_shown_as_text(tmp_path: Path) -> None:
    path = tmp_path / "run[bold].log"
    path.write_text(log_with("k[bold red](a[i])"), encoding="utf-8")
    async with open_explorer(str(path)) as pilot:
        assert "k[bold red]" in screen_text(pilot.app)
        assert "run[bold].log" in screen_text(pilot.app)
        await press(pilot, "4", "enter", "i")
        assert "k[bold red](a[i])" in screen_text(pilot.app)
