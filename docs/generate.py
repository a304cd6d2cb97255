"""Writes what the README repeats of the program: its tables of keys and formats."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


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


def main() -> None:
    """Write them into the README."""
    page = ROOT / "README.md"
    page.write_text(readme(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
