"""Writes what the README repeats of the program: its tables of keys and formats."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
_OF_SEVERAL: Final = {"caffe_conv1.nvprof.log": "caffe", "gpt_cudagraph.nsys.sqlite.gz": "nsys-sqlite"}
"""Samples that hold two formats, or whose content is not looked into to recognize them."""


def samples() -> dict[str, str]:
    """Return the largest sample of each format, by the name of the format."""
    from tui.loaders.registry import recognized_format

    paths = [path for path in (ROOT / "sample_logs").rglob("*") if path.is_file() and path.name != "README.md"]
    of_format: dict[str, Path] = {}
    for path in sorted(paths, key=lambda path: (path.stat().st_size, path)):
        of_format[_OF_SEVERAL.get(path.name) or recognized_format(str(path))] = path
    return {name: path.relative_to(ROOT).as_posix() for name, path in of_format.items()}


def readme(text: str) -> str:
    """The README with the tables as the program has them now."""
    from tui.loaders.registry import formats
    from tui.output.listing import formats_markdown, keys_markdown

    for name, table in (("formats", formats_markdown(formats(), samples())), ("keys", keys_markdown())):
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
