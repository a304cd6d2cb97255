"""Converts files in tests, and compares what comes back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tests.profiles import SAMPLES
from tui.dataset.write_dataset import finish, prepare, write_part

if TYPE_CHECKING:
    from tui.model.profile import Profile

RANKS = [str(path) for path in sorted((SAMPLES / "ddp_ranks").iterdir())]


def samples() -> list[str]:
    """The sample logs that are profiles."""
    return sorted(str(path) for path in SAMPLES.iterdir() if path.is_file() and path.name != "README.md")


def convert(folder: Path, *paths: str) -> str:
    """A dataset of files."""
    prepare(str(folder), paths)
    finish(str(folder), [write_part(path, str(folder)) for path in paths])
    return str(folder)


def in_order(name: str, data: pl.DataFrame) -> pl.DataFrame:
    """A frame in the order in which a dataset has it: by session and start."""
    if name in ("activities", "ops"):
        return data
    by = ["session", "start_ns"] if "start_ns" in data.columns else ["session"]
    return data.sort(by, nulls_last=True, maintain_order=True)


def same(read: Profile, again: Profile) -> None:
    """Assert that a dataset holds what was read, but for what it says of itself."""
    for name, data in read.frames.items():
        found = again[name]
        assert found.schema == data.schema
        if name == "issues":
            found = found.filter(~pl.col("reason").str.contains("the dataset|datasets do not"))
            found, data = in_order(name, found), in_order(name, data)
        else:
            data = in_order(name, data)
        assert found.equals(data, null_equal=True), name


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, by where it lies."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
