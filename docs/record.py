"""Records the animated picture of the README from the program itself: ``make docs``.

The program runs without a terminal, presses the keys of `SCENES` and is drawn cell by cell after each. It needs Pillow
(in the dependency group ``docs``) and the font DejaVu Sans Mono (Debian: fonts-dejavu-core).
"""

from __future__ import annotations

import asyncio
import html
import os
import re
import tempfile
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from textual.pilot import Pilot

ROOT: Final = Path(__file__).parents[1]
SAMPLE: Final = "sample_logs/resnet50_training.pt.trace.json.gz"
SIZE: Final = (120, 34)
CELL: Final = (9, 18)
"""Pixels of a cell."""
CELL_OF_SCREENSHOT: Final = (12.2, 24.4)
"""The same in the SVG that Textual exports."""
SHADES: Final = {"░": 1, "▒": 2, "▓": 3}


@dataclass(frozen=True)
class Scene:
    """What to press, and how long the result stays."""

    keys: tuple[str, ...]
    seconds: float
    caption: str


SCENES: Final = (
    Scene((), 3.0, "proftui run.pt.trace.json.gz: where did the time go?"),
    Scene(("9",), 3.0, "9: what costs time, and what to do about it"),
    Scene(("4",), 2.5, "4: which op, which kernel"),
    Scene(("slash", "c", "o", "n", "v", "enter"), 2.0, "/conv: find"),
    Scene(("tab",), 1.5, "tab: its kernels"),
    Scene(("i",), 3.0, "i: the details of a kernel"),
    Scene(("7",), 2.5, "7: how long each iteration took"),
    Scene(("T",), 3.0, "T: this iteration on the timeline"),
    Scene(("1",), 1.5, "1: back to the dashboard"),
)


async def settle(pilot: Pilot[object]) -> None:
    """Wait until nothing is being worked out or drawn."""
    for _ in range(6):
        await pilot.app.workers.wait_for_complete()
        await pilot.pause(0.2)


async def screenshots() -> list[str]:
    """The screen after each scene, as SVG."""
    from tui.app import ProftuiApp
    from tui.options import OpenOptions
    from tui.screens.dashboard import DashboardScreen

    # Nothing that was left off before is offered.
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp()
    app = ProftuiApp(OpenOptions(paths=(SAMPLE,)))
    found = []
    async with app.run_test(size=SIZE) as pilot:
        while not isinstance(app.screen, DashboardScreen):
            await pilot.pause(0.05)
        await settle(pilot)
        for scene in SCENES:
            for key in scene.keys:
                await pilot.press(key)
            await settle(pilot)
            found.append(app.export_screenshot())
    return found


def styles_of(svg: str) -> dict[str, tuple[str, bool]]:
    """Color and weight of each class of the SVG's style sheet."""
    return {
        name: (color, "bold" in rest)
        for name, color, rest in re.findall(r"\.(\S+-r[0-9]+) \{ fill: (#[0-9a-f]{6})(.*?) \}", svg)
    }


def drawn(svg: str, caption: str) -> Image.Image:
    """A screenshot drawn cell by cell, with a caption below it."""
    columns, rows = SIZE
    width, height = CELL
    regular, bold = (ImageFont.truetype(f"DejaVuSansMono{name}.ttf", 15) for name in ("", "-Bold"))
    image = Image.new("RGB", (columns * width, (rows + 2) * height), "#14171a")
    draw = ImageDraw.Draw(image)
    styles = styles_of(svg)
    tag = "{http://www.w3.org/2000/svg}"
    # The frame of a window around the terminal comes first.
    screen = next(group for group in ET.fromstring(svg).iter(f"{tag}g") if "matrix" in group.get("class", ""))
    parent = next(
        group for group in ET.fromstring(svg).iter(f"{tag}g") if screen.get("class") and group.find(f"{tag}g")
    )
    for rect in parent.findall(f"{tag}rect"):
        x, y = (
            round(float(rect.get(name, "0")) / size) for name, size in zip(("x", "y"), CELL_OF_SCREENSHOT, strict=True)
        )
        cells = round(float(rect.get("width", "0")) / CELL_OF_SCREENSHOT[0])
        if cells:
            box = (x * width, y * height, (x + cells) * width - 1, (y + 1) * height - 1)
            draw.rectangle(box, fill=rect.get("fill"))
    for text in screen.iter(f"{tag}text"):
        color, is_bold = styles.get(text.get("class", ""), ("#d6d9d2", False))
        x = round(float(text.get("x", "0")) / CELL_OF_SCREENSHOT[0])
        y = round((float(text.get("y", "0")) - 20) / CELL_OF_SCREENSHOT[1])
        for place, char in enumerate(html.unescape(text.text or "")):
            if char not in "\xa0 " and not block(draw, char, (x + place) * width, y * height, color):
                draw.text(((x + place) * width, y * height), char, font=bold if is_bold else regular, fill=color)
    draw.rectangle((0, rows * height, columns * width, (rows + 2) * height), fill="#242a30")
    draw.text((2 * width, rows * height + height // 2), caption, font=bold, fill="#d6d9d2")
    return image


def block(draw: ImageDraw.ImageDraw, char: str, x: int, y: int, color: str) -> bool:
    """Draw a block element or a line so that it meets its neighbors; False if the character is none."""
    width, height = CELL
    code = ord(char)
    if 0x2581 <= code <= 0x2588:
        box = (0, height - round(height * (code - 0x2580) / 8), width, height)
    elif 0x2589 <= code <= 0x258F:
        box = (0, 0, max(1, round(width * (0x2590 - code) / 8)), height)
    elif char == "▀":
        box = (0, 0, width, height // 2)
    elif char == "▔":
        box = (0, 0, width, max(1, height // 8))
    elif char in "─━":
        box = (0, height // 2 - 1, width, height // 2)
    elif char == "│":
        box = (width // 2, 0, width // 2 + 1, height)
    elif char in SHADES:
        for dy in range(height):
            for dx in range(width):
                if (dx + 2 * dy) % 4 < SHADES[char]:
                    draw.point((x + dx, y + dy), fill=color)
        return True
    else:
        return False
    draw.rectangle((x + box[0], y + box[1], x + box[2] - 1, y + box[3] - 1), fill=color)
    return True


def main() -> None:
    """Write the picture."""
    frames = [
        drawn(svg, scene.caption).quantize(128, dither=Image.Dither.NONE)
        for svg, scene in zip(asyncio.run(screenshots()), SCENES, strict=True)
    ]
    frames[0].save(
        ROOT / "docs" / "proftui.gif",
        save_all=True,
        append_images=frames[1:],
        duration=[round(1000 * scene.seconds) for scene in SCENES],
        loop=0,
        optimize=True,
    )


if __name__ == "__main__":
    main()
