"""No import cycles, counting imports inside functions; imports under TYPE_CHECKING are left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]


def module_name(path: Path) -> str:
    """Return the name that a file is imported by."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES: Final = {module_name(path): path for path in sorted((ROOT / "tui").rglob("*.py"))}


def imports(node: ast.AST) -> Iterator[str]:
    """Return the modules of the program that some code imports, in functions, too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # nothing is imported within one
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            for alias in child.names:
                full_name = f"{child.module}.{alias.name}"
                yield full_name if full_name in MODULES else child.module
        yield from imports(child)


def import_graph() -> dict[str, set[str]]:
    """Return what each module imports of the program."""
    edges = {}
    for name, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        edges[name] = {module for module in imports(tree) if module in MODULES} - {name}
    return edges


def find_cycle(edges: dict[str, set[str]]) -> list[str]:
    """Return a cycle of imports, each module imported by the next one; empty if there is none.

    >>> find_cycle({"a": {"b"}, "b": {"a"}, "c": {"a"}}), find_cycle({"a": {"b"}, "b": set()})
    (['a', 'b', 'a'], [])
    """
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_is_in_an_import_cycle() -> None:
    assert not find_cycle(import_graph())


def test_imports_inside_functions_count_and_type_checking_imports_do_not() -> None:
    source = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tui.app.app\ndef late():\n    import tui.fmt\n"
    )
    assert set(imports(ast.parse(source))) == {"typing", "tui.fmt"}
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (["b", "c", "b"], ["c", "b", "c"])
