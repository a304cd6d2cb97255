"""Numbers in texts: digits of other scripts are none, and no text is cast strictly."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCES = sorted(Path("tui").rglob("*.py"))
NUMBERS = ("Int", "UInt", "Float", "Decimal")
NOT_A_DIGIT = (r"[^\W\d]", r"|(?P<other>\d[\w.]*|\S)")
"""Where ``\\d`` is what a name must not begin with, and what SQL is split into to complete it."""


@cache
def trees() -> tuple[tuple[Path, ast.AST], ...]:
    return tuple((path, ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES)


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a file that any test looks at: listing them takes longer than looking."""
    looked_at = (ast.Constant, ast.Expr, ast.Call, ast.Attribute)
    return tuple(node for node in ast.walk(tree) if isinstance(node, looked_at))


def docstrings(tree: ast.AST) -> set[int]:
    return {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}


def patterns_with_foreign_digits(tree: ast.AST) -> Iterator[int]:
    """Lines of texts with ``\\d``; in bytes it means the digits of ASCII alone."""
    ignored = docstrings(tree)
    for node in nodes(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in ignored:
            text = node.value
            if "\\" not in text:
                continue
            for one in NOT_A_DIGIT:
                text = text.replace(one, "")
            if r"\d" in text.replace("\\\\", "") or r"\D" in text.replace("\\\\", ""):
                yield node.lineno


def strict_casts_of_texts(tree: ast.AST) -> Iterator[int]:
    """Lines with ``….str.….cast(pl.Int64)`` and the like, where a text that is no number is an error."""
    for node in nodes(tree):
        is_cast = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "cast"
        if not is_cast or any(keyword.arg == "strict" for keyword in node.keywords) or not node.args:
            continue
        wanted = node.args[0]
        if not isinstance(wanted, ast.Attribute) or not wanted.attr.startswith(NUMBERS):
            continue
        receiver = node.func.value
        if isinstance(receiver, ast.Call) and isinstance(receiver.func, ast.Attribute):
            of = receiver.func.value
            is_text = isinstance(of, ast.Attribute) and of.attr == "str" and receiver.func.attr in TO_TEXT
            is_text = is_text or receiver.func.attr == "element"
            if is_text or (receiver.func.attr == "field" and isinstance(of, ast.Attribute | ast.Name)):
                yield node.lineno


TO_TEXT = {"extract", "slice", "head", "tail", "replace", "replace_all"} | {
    f"strip_{part}" for part in ("chars", "chars_start", "chars_end", "prefix", "suffix")
}


@pytest.mark.parametrize("find", [patterns_with_foreign_digits, strict_casts_of_texts])
def test_numbers_are_read_in_one_way(find: Callable[[ast.AST], Iterator[int]]) -> None:
    found = [f"{path}:{line}" for path, tree in trees() for line in find(tree)]
    assert found == [], "use [0-9], and tui.text.number_in"


def test_what_is_looked_for_is_found() -> None:
    faulty = ast.parse('x = re.compile(r"a\\d"); y = pl.col("a").str.extract(P).cast(pl.Int64)')
    assert list(patterns_with_foreign_digits(faulty)) == [1]
    assert list(strict_casts_of_texts(faulty)) == [1]


def test_a_text_is_no_number_because_one_digit_looks_like_one() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in trees()
        for node in nodes(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("isdigit", "isnumeric")
    ]
    # ``"²".isdigit()`` is true and ``int("²")`` an error; of bytes only 0 to 9 are digits.
    assert found == [one for one in found if one.startswith("tui/loaders/text/lines.py")]
