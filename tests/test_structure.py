"""How classes of the user interface are built: shallow, and without the application's classes."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest
from textual.app import App

ROOT = Path(__file__).parents[1]
FOLDERS = ("app", "screens", "widgets")
DEEPEST = 2
"""Classes of this program on the way from a class to Textual's, itself included."""

TEXTUAL = frozenset(dir(App[None]()))


def files(folder: str) -> list[Path]:
    return sorted((ROOT / "tui" / folder).rglob("*.py"))


def depth(one: type) -> int:
    """How many classes of this program there are from a class to one of Textual's or Python's."""
    if not one.__module__.startswith("tui."):
        return 0
    return 1 + max(map(depth, one.__bases__))


@pytest.mark.parametrize("folder", FOLDERS)
def test_classes_inherit_two_deep_at_most(folder: str) -> None:
    found = {}
    for path in files(folder):
        module = importlib.import_module(
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        )
        for name, one in inspect.getmembers(module, inspect.isclass):
            if one.__module__ == module.__name__ and depth(one) > DEEPEST:
                found[f"{module.__name__}.{name}"] = depth(one)
    assert found == {}


def is_own_app(node: ast.expr) -> bool:
    """Whether it is `self.app`."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "app"
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


@pytest.mark.parametrize("folder", ["screens", "widgets"])
def test_screens_and_widgets_know_the_app_by_its_protocols_alone(folder: str) -> None:
    for path in files(folder):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
                assert "app" not in ast.unparse(node.args[0]).split("."), f"{where}: {ast.unparse(node)}"
            if isinstance(node, ast.Attribute) and is_own_app(node.value):
                assert node.attr in TEXTUAL, f"{where}: {ast.unparse(node)} is not of Textual's App"
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("tui.app"), f"{where} imports {node.module}"


def workers_without_description(path: Path) -> list[str]:
    return [
        f"{path.name}:{node.lineno}"
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in function.decorator_list
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "work"
        if "description" not in {keyword.arg for keyword in node.keywords}
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_workers_have_a_description(folder: str) -> None:
    """Textual writes out all arguments of a worker without one: the lanes of a timeline are long arrays."""
    assert [found for path in files(folder) for found in workers_without_description(path)] == []
