"""The architecture: which parts may import which."""

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
"""From the bottom up: a layer imports itself and what is below it."""

WITHOUT_A_LAYER = ("colors", "keys", "theme", "views")
"""What keys, views and colors there are: all may ask, and they import no other part of the program."""

BELOW_THE_SCREEN = ("cli", *(name for layer in LAYERS[:6] for name in layer))
"""What works without a screen; ``cli`` begins the app last."""


def modules(part: str) -> list[Path]:
    """The files of a subpackage or module."""
    folder = PACKAGE / part
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [PACKAGE / f"{part}.py"]


def dotted(path: Path) -> str:
    """The name that a file is imported by."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


@cache
def imports(path: Path) -> frozenset[str]:
    """What a file imports, in functions and for types as well."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path} imports relatively"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


@pytest.mark.parametrize("position", range(len(LAYERS)))
def test_layers_import_downwards(position: int) -> None:
    above = {name for layer in LAYERS[position + 1 :] for name in layer}
    for part in LAYERS[position]:
        for path in modules(part):
            wrong = {name for name in imports(path) if name.startswith("tui.") and name.split(".")[1] in above}
            assert not wrong, f"{dotted(path)} imports {sorted(wrong)} from above it"


@pytest.mark.parametrize("part", BELOW_THE_SCREEN)
def test_nothing_below_the_screen_names_its_libraries(part: str) -> None:
    for path in modules(part):
        wrong = {name for name in imports(path) if name.partition(".")[0] in ("textual", "rich")}
        assert not wrong, f"{dotted(path)} imports {sorted(wrong)}"


def test_every_module_is_in_a_layer() -> None:
    known = {*WITHOUT_A_LAYER, *(name for layer in LAYERS for name in layer)}
    present = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py"}
    present |= {path.name for path in PACKAGE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert present == known | {"__init__", "__main__"}


@pytest.mark.parametrize("part", WITHOUT_A_LAYER)
def test_what_has_no_layer_imports_nothing_of_one(part: str) -> None:
    wrong = {name for path in modules(part) for name in imports(path) if name.startswith("tui.")}
    assert {name for name in wrong if name.split(".")[1] not in WITHOUT_A_LAYER} == set()


def test_importing_all_that_is_headless_loads_no_screen() -> None:
    names = [dotted(path) for part in BELOW_THE_SCREEN for path in modules(part)]
    loaded = run_python(
        f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'textual', 'rich', 'polars'}))"
    )
    assert loaded == "['polars']\n"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["report", "--help"], ["export", "--help"]])
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    loaded = run_python(
        "import sys\nfrom tui.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit as end: assert not end.code\n"
        "print(sorted({'textual', 'rich', 'polars', 'numpy', 'msgspec', 'lark'} & set(sys.modules)))"
    )
    assert loaded.splitlines()[-1] == "[]"


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_what_is_asked_most_loads_no_command(option: str) -> None:
    loaded = run_python(
        f"import sys\nfrom tui.cli.main import main\ntry: main([{option!r}])\nexcept SystemExit: pass\n"
        "print(sorted({'dataclasses', 'inspect', 'pathlib', 'tui.cli.explore', 'tui.cli.headless'} & set(sys.modules)))"
    )
    assert loaded.splitlines()[-1] == "[]"


def test_the_shell_is_drawn_before_anything_heavy_is_imported() -> None:
    loaded = run_python(
        "import asyncio, sys\n"
        "import tui.cli.explore\n"
        "from tui.app import ProftuiApp\n"
        "from tui.options import OpenOptions\n"
        "from tui.screens.loading import LoadingScreen\n"
        "async def draw():\n"
        "    app = ProftuiApp(OpenOptions(paths=('run.log',)))\n"
        "    app.loading_files.load = lambda: None\n"
        "    async with app.run_test(size=(120, 40)) as pilot:\n"
        "        await pilot.press('j', 'question_mark', 'colon')\n"
        "        assert isinstance(app.screen, LoadingScreen), app.screen\n"
        "asyncio.run(draw())\n"
        "heavy = ('polars', 'numpy', 'msgspec', 'lark', 'tree_sitter', 'tui.loaders',\n"
        "         'tui.analysis', 'tui.query', 'tui.output', 'tui.state', 'tui.screens.base')\n"
        "print(sorted(name for name in heavy if name in sys.modules))"
    )
    assert loaded == "[]\n"
