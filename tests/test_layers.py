"""The layers of the program: which parts may import which."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tui"

LAYERS = (
    ("model", "text_width", "fmt", "labels", "options", "runtime", "terminal", "tables", "text"),
    ("correlation",),
    ("cache", "data", "loaders", "state"),
    ("analysis", "dataset"),
    ("query",),
    ("opening", "output"),
    ("textual_patches",),
    ("widgets",),
    ("commands", "screens"),
    ("app",),
    ("cli",),
)
"""From the bottom up: a layer imports itself and the layers below it."""

WITHOUT_A_LAYER = ("colors", "keys", "theme", "views")
"""Keys, views and colors: all layers may import them, and they import no other part of the program."""

HEADLESS = ("cli", *(name for layer in LAYERS[:6] for name in layer))
"""The parts that work without a screen; ``cli`` imports the app last."""


def modules_of(part: str) -> list[Path]:
    """Return the files of a subpackage or module."""
    folder = PACKAGE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{part}.py"]


def module_name(path: Path) -> str:
    """Return the name that a file is imported by."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


@cache
def imports_of(path: Path) -> frozenset[str]:
    """Return what a file imports, in functions and for types, too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} imports relatively"
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


def run_python(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return result.stdout


@pytest.mark.parametrize("position", range(len(LAYERS)))
def test_layers_import_downwards(position: int) -> None:
    higher = {name for layer in LAYERS[position + 1 :] for name in layer}
    for part in LAYERS[position]:
        for path in modules_of(part):
            invalid = {name for name in imports_of(path) if name.startswith("tui.") and name.split(".")[1] in higher}
            assert not invalid, f"{module_name(path)} imports {sorted(invalid)} from above it"


@pytest.mark.parametrize("part", HEADLESS)
def test_headless_parts_do_not_import_textual_or_rich(part: str) -> None:
    for path in modules_of(part):
        invalid = {name for name in imports_of(path) if name.partition(".")[0] in ("textual", "rich")}
        assert not invalid, f"{module_name(path)} imports {sorted(invalid)}"


def test_every_module_is_in_a_layer() -> None:
    expected = {*WITHOUT_A_LAYER, *(name for layer in LAYERS for name in layer)}
    present = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py"}
    present |= {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert present == expected | {"__init__", "__main__"}


@pytest.mark.parametrize("part", WITHOUT_A_LAYER)
def test_parts_without_a_layer_import_no_layer(part: str) -> None:
    imported = {name for path in modules_of(part) for name in imports_of(path) if name.startswith("tui.")}
    assert {name for name in imported if name.split(".")[1] not in WITHOUT_A_LAYER} == set()


def test_importing_headless_parts_does_not_load_textual_or_rich() -> None:
    names = [module_name(path) for part in HEADLESS for path in modules_of(part)]
    loaded = run_python(
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'textual', 'rich', 'polars'}))"
    )
    assert loaded == "['polars']\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["report", "--help"], ["export", "--help"]])
def test_help_loads_no_heavy_library(arguments: list[str]) -> None:
    loaded = run_python(
        "import sys\nfrom tui.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit as end: assert not end.code\n"
        "print(sorted({'textual', 'rich', 'polars', 'numpy', 'msgspec', 'lark'} & set(sys.modules)))"
    )
    assert loaded.splitlines()[-1] == "[]"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_version_and_help_load_no_command(option: str) -> None:
    loaded = run_python(
        f"import sys\nfrom tui.cli.main import main\ntry: main([{option!r}])\nexcept SystemExit: pass\n"
        "print(sorted({'dataclasses', 'inspect', 'pathlib', 'tui.cli.explore', 'tui.cli.headless'} & set(sys.modules)))"
    )
    assert loaded.splitlines()[-1] == "[]"


def test_the_loading_screen_is_drawn_before_heavy_libraries_are_imported() -> None:
    loaded = run_python(
        "import asyncio, sys\n"
        "import tui.cli.explore\n"
        "from tui.app import ProftuiApp\n"
        "from tui.options import OpenOptions\n"
        "from tui.screens.loading import LoadingScreen\n"
        "async def draw():\n"
        "    app = ProftuiApp(OpenOptions(paths=('run.log',)))\n"
        "    app.profile_loading.load = lambda: None\n"
        "    async with app.run_test(size=(120, 40)) as pilot:\n"
        "        await pilot.press('j', 'question_mark', 'colon')\n"
        "        assert isinstance(app.screen, LoadingScreen), app.screen\n"
        "asyncio.run(draw())\n"
        "heavy = ('polars', 'numpy', 'msgspec', 'lark', 'tree_sitter', 'tui.loaders',\n"
        "         'tui.analysis', 'tui.query', 'tui.output', 'tui.state', 'tui.screens.base')\n"
        "print(sorted(name for name in heavy if name in sys.modules))"
    )
    assert loaded == "[]\n"
