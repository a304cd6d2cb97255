"""Looks for retired words (`retired_words.txt`) in the texts that people read; exits with 1 where it finds one."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
WORDS: Final = Path(__file__).with_name("retired_words.txt")
PAGES: Final = ("README.md", "CONTRIBUTING.md", "docs/*.md")
PATTERN_FILES: Final = frozenset({"op_types.toml", "tensor_cores.toml", "host_phases.toml", "cupti_callbacks.toml"})
"""Data files of patterns and names, not of texts."""


def retired() -> dict[str, str]:
    """Each retired phrase with what is written instead."""
    lines = (line.strip() for line in WORDS.read_text(encoding="utf-8").splitlines())
    pairs = (line.partition(" => ") for line in lines if line and not line.startswith("#"))
    return {phrase.lower(): instead for phrase, _, instead in pairs}


def strings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of a Python file, docstrings included, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            # Texts of one word are names, keys and patterns.
            yield from [(node.lineno, node.value)] if " " in node.value.strip() else []


def texts() -> Iterator[tuple[Path, int, str]]:
    """Every text that people read, with its file and line."""
    for path in sorted((ROOT / "tui").rglob("*.py")):
        for line, text in strings(path.read_text(encoding="utf-8")):
            yield path, line, text
    pages = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern))]
    data = [path for path in sorted((ROOT / "tui" / "data").glob("*.toml")) if path.name not in PATTERN_FILES]
    for path in (*pages, *data):
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            yield path, line, text


def main() -> int:
    """Print every retired phrase with its place."""
    words = retired()
    phrase = re.compile(r"(?<![\w-])(?:" + "|".join(map(re.escape, words)) + r")(?![\w-])", re.IGNORECASE)
    found = 0
    for path, line, text in texts():
        for match in phrase.finditer(text):
            found += 1
            print(f"{path.relative_to(ROOT)}:{line}: {match[0]!r}: write {words[match[0].lower()]}")
    print(f"{found} retired words" if found else "no retired words", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
