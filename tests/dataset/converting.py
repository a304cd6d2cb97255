"""Converts files for tests, and compares the result with the originals."""

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
    """Return the sample logs that are profiles."""
    return sorted(str(path) for path in SAMPLES.iterdir() if path.is_file() and path.name != "README.md")


def convert(folder: Path, *paths: str) -> str:
    """Convert files to a dataset, and return its folder."""
    prepare(str(folder), paths)
    finish(str(folder), [write_part(path, str(folder)) for path in paths])
    return str(folder)


def in_order(name: str, data: pl.DataFrame) -> pl.DataFrame:
    """Return a frame in the order of a dataset: by session and start."""
    if name in ("activities", "ops"):
        return data
    keys = ["session", "start_ns"] if "start_ns" in data.columns else ["session"]
    return data.sort(keys, nulls_last=True, maintain_order=True)


def assert_same_rows(read: Profile, loaded: Profile) -> None:
    """Assert that a dataset has the rows of a profile, except for issues about the dataset itself."""
    for name, data in read.frames.items():
        loaded_frame = loaded[name]
        assert loaded_frame.schema == data.schema
        if name == "issues":
            loaded_frame = loaded_frame.filter(~pl.col("reason").str.contains("the dataset|datasets do not"))
            loaded_frame, data = in_order(name, loaded_frame), in_order(name, data)
        else:
            data = in_order(name, data)
        assert loaded_frame.equals(data, null_equal=True), name


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of every file in a folder, by relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
