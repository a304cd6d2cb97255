"""Numbers in text: only ASCII digits count, and text is never cast strictly."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCES = sorted(Path("tui").rglob("*.py"))
NUMBER_TYPES = ("Int", "UInt", "Float", "Decimal")
ALLOWED_PATTERNS = (r"[^\W\d]", r"|(?P<other>\d[\w.]*|\S)")
"""The patterns with ``\\d`` for first characters of names and for tokens of SQL."""


@cache
def parsed_sources() -> tuple[tuple[Path, ast.AST], ...]:
    return tuple((path, ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES)


@cache
def relevant_nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return the nodes that any test looks at: walking a tree takes longer than the checks."""
    node_types = (ast.Constant, ast.Expr, ast.Call, ast.Attribute)
    return tuple(node for node in ast.walk(tree) if isinstance(node, node_types))


def docstring_ids(tree: ast.AST) -> set[int]:
    return {id(node.value) for node in relevant_nodes(tree) if isinstance(node, ast.Expr)}


def unicode_digit_patterns(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of strings with ``\\d``; in bytes it means ASCII digits alone."""
    ignored = docstring_ids(tree)
    for node in relevant_nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in ignored:
            text = node.value
            if "\\" not in text:
                continue
            for pattern in ALLOWED_PATTERNS:
                text = text.replace(pattern, "")
            if r"\d" in text.replace("\\\\", "") or r"\D" in text.replace("\\\\", ""):
                yield node.lineno


def strict_casts_of_text(tree: ast.AST) -> Iterator[int]:
    """Yield the lines with ``….str.….cast(pl.Int64)`` and the like, which fail if a text is no number."""
    for node in relevant_nodes(tree):
        is_cast = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cast"
        if not is_cast or any(keyword.arg == "strict" for keyword in node.keywords) or not node.args:
            continue
        dtype = node.args[0]
        if not isinstance(dtype, ast.Attribute) or not dtype.attr.startswith(NUMBER_TYPES):
            continue
        receiver = node.func.value
        if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
            inner = receiver.func.value
            is_text = isinstance(inner, ast.Attribute) and inner.attr == "str" and receiver.func.attr in TEXT_METHODS
            is_text = is_text or receiver.func.attr == "element"
            if is_text or (receiver.func.attr == "field" and isinstance(inner, ast.Attribute | ast.Name)):
                yield node.lineno


TEXT_METHODS = {"extract", "slice", "head", "tail", "replace", "replace_all"} | {
    f"strip_{part}" for part in ("chars", "chars_start", "chars_end", "prefix", "suffix")
}


@pytest.mark.parametrize("find", [unicode_digit_patterns, strict_casts_of_text])
def test_numbers_in_text_are_ascii_and_casts_are_not_strict(find: Callable[[ast.AST], Iterator[int]]) -> None:
    locations = [f"{path}:{line}" for path, tree in parsed_sources() for line in find(tree)]
    assert locations == [], "use [0-9], and tui.text.number_in"


def test_the_checks_find_faults() -> None:
    tree = ast.parse('x = re.compile(r"a\\d"); y = pl.col("a").str.extract(P).cast(pl.Int64)')
    assert list(unicode_digit_patterns(tree)) == [1]
    assert list(strict_casts_of_text(tree)) == [1]


def test_isdigit_and_isnumeric_are_not_used_on_text() -> None:
    locations = [
        f"{path}:{node.lineno}"
        for path, tree in parsed_sources()
        for node in relevant_nodes(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isnumeric")
    ]
    # ``"²".isdigit()`` is true and ``int("²")`` an error; of bytes only 0 to 9 are digits.
    assert locations == [location for location in locations if location.startswith("tui/loaders/text/line_tags.py")]
