"""The structure of the classes of the user interface: shallow, and independent of the application's classes."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import pytest
from textual.app import App

ROOT = Path(__file__).parents[1]
FOLDERS = ("app", "screens", "widgets")
MAX_DEPTH = 2
"""The number of classes of this program from a class to Textual's, itself included."""

APP_ATTRIBUTES = frozenset(dir(App[None]()))


def files_of(folder: str) -> list[Path]:
    return sorted((ROOT / "tui" / folder).rglob("*.py"))


def inheritance_depth(cls: type) -> int:
    """Return the number of classes of this program from a class to one of Textual's or Python's."""
    if not cls.__module__.startswith("tui."):
        return 0
    return 1 + max(map(inheritance_depth, cls.__bases__))


@pytest.mark.parametrize("folder", FOLDERS)
def test_classes_are_at_most_two_levels_below_the_library(folder: str) -> None:
    too_deep = {}
    for path in files_of(folder):
        module = importlib.import_module(
            ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        )
        for name, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == module.__name__ and inheritance_depth(cls) > MAX_DEPTH:
                too_deep[f"{module.__name__}.{name}"] = inheritance_depth(cls)
    assert too_deep == {}


def is_self_app(node: ast.expr) -> bool:
    """Return whether an expression is `self.app`."""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == "app"
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


@pytest.mark.parametrize("folder", ["screens", "widgets"])
def test_screens_and_widgets_use_only_the_protocols_of_the_app(folder: str) -> None:
    for path in files_of(folder):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            location = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr"):
                assert "app" not in ast.unparse(node.args[0]).split("."), f"{location}: {ast.unparse(node)}"
            if isinstance(node, ast.Attribute) and is_self_app(node.value):
                assert node.attr in APP_ATTRIBUTES, f"{location}: {ast.unparse(node)} is not of Textual's App"
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("tui.app"), f"{location} imports {node.module}"


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
    """Textual formats all arguments of a worker without one: the lanes of a timeline are long arrays."""
    assert [location for path in files_of(folder) for location in workers_without_description(path)] == []
