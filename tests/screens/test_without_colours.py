"""Where no colour is sent, the line under the cursor is told by how its text is set."""

from __future__ import annotations

from textual.command import CommandList

from tests.screens.opening import opened, press, until


async def test_the_line_under_the_cursor_of_the_palette_is_in_reverse() -> None:
    async with opened("caffe_conv1.nvprof.log", color="none") as pilot:
        await press(pilot, "ctrl+p")
        lines = pilot.app.screen.query_one(CommandList)
        await until(pilot, lambda: lines.option_count > 1, "commands to choose from")
        await press(pilot, "down", "down")
        in_reverse = {
            segment.style.meta.get("option")
            for y in range(lines.size.height)
            for segment in lines.render_line(y)
            if segment.style is not None and segment.style.reverse
        }
        assert in_reverse == {lines.highlighted}
