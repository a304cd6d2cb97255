from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from tui.keys import ACTIONS

ROOT = Path(__file__).parents[1]


def test_the_tables_of_the_readme_are_up_to_date() -> None:
    spec = spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    generate = module_from_spec(spec)
    spec.loader.exec_module(generate)
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert generate.readme(page) == page, "run make docs"


def test_links_of_the_documents_lead_to_existing_files() -> None:
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make (\w+)", (ROOT / "README.md").read_text(encoding="utf-8")):
        if target != "and":
            assert re.search(rf"^{target}:", makefile, re.M), target


def test_action_ids_are_unique_and_no_scope_uses_a_key_twice() -> None:
    ids = [action.id for action in ACTIONS]
    assert len(ids) == len(set(ids))
    keys = [(action.scope, key) for action in ACTIONS for key in action.keys.split(",")]
    assert len(keys) == len(set(keys))
