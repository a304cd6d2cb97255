"""Writes what the documentation repeats of the program: the README's tables of keys and formats, and its picture."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SAMPLE: Final = "sample_logs/resnet50_training.nvprof.log"
SIZE: Final = (120, 40)


def readme(text: str) -> str:
    """The README with the tables as the program has them now."""
    from tui.loaders.registry import formats
    from tui.output.listing import formats_markdown, keys_markdown

    for name, table in (("formats", formats_markdown(formats())), ("keys", keys_markdown())):
        begin, end = f"<!-- {name}: written by docs/generate.py -->", f"<!-- end of {name} -->"
        before, begun, rest = text.partition(begin)
        _, ended, after = rest.partition(end)
        if not begun or not ended:
            raise SystemExit(f"README.md has no place for the {name}: {begin} ... {end}")
        text = f"{before}{begin}\n\n{table.strip()}\n\n{end}{after}"
    return text


async def picture() -> str:
    """The dashboard as the app draws it."""
    from tui.app import ProftuiApp
    from tui.options import OpenOptions
    from tui.screens.dashboard import DashboardScreen

    app = ProftuiApp(OpenOptions(paths=(SAMPLE,)))
    async with app.run_test(size=SIZE) as pilot:
        while not isinstance(app.screen, DashboardScreen):
            await pilot.pause(0.05)
        # What one thread has worked out another one waits for.
        for _ in range(10):
            await app.workers.wait_for_complete()
            await pilot.pause(0.2)
        return re.sub(r"terminal-\d+-", "terminal-", app.export_screenshot(title=f"proftui {Path(SAMPLE).name}"))


def main() -> None:
    """Write both."""
    page = ROOT / "README.md"
    page.write_text(readme(page.read_text(encoding="utf-8")), encoding="utf-8")
    (ROOT / "docs" / "dashboard.svg").write_text(asyncio.run(picture()), encoding="utf-8")


if __name__ == "__main__":
    main()
