"""Baselines: the times of several runs under a name, each a small Parquet file in a folder or an object store."""

from __future__ import annotations

import io
import re
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import polars as pl

from tui.analysis.compare.run_times import SCHEMA
from tui.loaders.dataset_loader import FAST_FAIL_OPTIONS, UNREADABLE, is_address
from tui.model.errors import ProftuiError, first_line

NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
MAX_BYTES: Final = 256 << 20
"""The largest file that is taken for a baseline."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A summary of a baseline."""

    name: str
    runs: int
    iterations: int
    """Iterations of all runs."""
    gpu: str
    files: tuple[str, ...]


def baseline_path(folder: str, name: str) -> str:
    """Return the path or address of a baseline.

    Raises:
        ProftuiError: The name cannot be one of a baseline.
    """
    if not NAME.fullmatch(name):
        raise ProftuiError(f"{name}: invalid baseline name", "use letters, digits, _ . and -")
    return f"{folder.rstrip('/')}/{name}.parquet"


def to_parquet(times: pl.DataFrame) -> bytes:
    """Serialize a baseline; the same runs give the same bytes."""
    buffer = io.BytesIO()
    _write_parquet(times, buffer)
    return buffer.getvalue()


def _write_parquet(times: pl.DataFrame, target: IO[bytes] | str, storage_options: dict[str, Any] | None = None) -> None:
    times.sort(times.columns, nulls_last=True).write_parquet(
        target, compression="zstd", compression_level=9, storage_options=storage_options
    )


def read_baseline(folder: str, name: str) -> pl.DataFrame:
    """Return the times of a baseline, as `tui.analysis.compare.run_times.SCHEMA`.

    Raises:
        ProftuiError: There is none, or it cannot be read.
    """
    path = baseline_path(folder, name)
    try:
        if is_address(path):
            # Without a region Polars determines it, with a warning that contains code.
            warnings.filterwarnings("ignore", message=".*region' not set", category=UserWarning)
            times = pl.read_parquet(path, storage_options=FAST_FAIL_OPTIONS, glob=False)
        else:
            if Path(path).stat().st_size > MAX_BYTES:
                raise ProftuiError(f"{path}: too large to be a baseline")
            times = pl.read_parquet(Path(path).read_bytes())
    except FileNotFoundError:
        saved_names = "" if is_address(folder) else ", ".join(baseline_names(folder))
        hint = (
            f"saved baselines: {saved_names}" if saved_names else f"proftui baseline save {name} FILE... --dir {folder}"
        )
        raise ProftuiError(f"{path}: no such baseline", hint) from None
    except (OSError, *UNREADABLE) as error:
        raise ProftuiError(f"{path}: cannot be read ({first_line(error)})") from error
    if times.schema == SCHEMA and times.is_empty():
        raise ProftuiError(f"{path}: no such baseline", f"proftui baseline save {name} FILE... --dir {folder}")
    if times.schema != SCHEMA or not times["time_ns"].ge(0).fill_null(value=False).all():
        raise ProftuiError(
            f"{path}: not a baseline of this proftui version", f"save it again: proftui baseline save {name}"
        )
    return times


def upload(folder: str, name: str, times: pl.DataFrame, *, overwrite: bool) -> None:
    """Write a baseline to an object store.

    Raises:
        ProftuiError: It is there already, or the store cannot be written to.
    """
    path = baseline_path(folder, name)
    if not overwrite and _exists(folder, name):
        raise ProftuiError(f"{path} exists", "choose another name, or use --overwrite")
    try:
        _write_parquet(times, path, FAST_FAIL_OPTIONS)
    except (OSError, *UNREADABLE) as error:
        raise ProftuiError(f"{path}: cannot be written ({first_line(error)})") from error


def _exists(folder: str, name: str) -> bool:
    with suppress(ProftuiError):
        return not read_baseline(folder, name).is_empty()
    return False


def baseline_names(folder: str) -> list[str]:
    """Return the names of the baselines in a folder or an object store.

    Raises:
        ProftuiError: The store cannot be read.
    """
    paths = () if is_address(folder) else Path(folder).glob("*.parquet")
    names = _names_in_store(folder) if is_address(folder) else [path.stem for path in paths]
    return sorted(name for name in names if NAME.fullmatch(name))


def _names_in_store(folder: str) -> list[str]:
    """Return the names of the files that hold times: one that was removed holds none."""
    pattern = f"{folder.rstrip('/')}/*.parquet"
    warnings.filterwarnings("ignore", message=".*region' not set", category=UserWarning)
    try:
        times = pl.scan_parquet(pattern, include_file_paths="path", storage_options=FAST_FAIL_OPTIONS)
        paths = times.select("path").unique().collect()["path"]
    except (OSError, *UNREADABLE) as error:
        if "expanded paths were empty" in str(error):
            return []
        raise ProftuiError(f"{folder}: cannot be listed ({first_line(error)})") from error
    return [path.rpartition("/")[2].removesuffix(".parquet") for path in paths]


def summarize_baseline(folder: str, name: str) -> Baseline:
    """Summarize a baseline.

    Raises:
        ProftuiError: It cannot be read.
    """
    times = read_baseline(folder, name)
    iterations = times.filter(pl.col("what") == "iteration").height
    gpus = times["gpu"].drop_nulls().unique().sort().to_list()
    files = times.select("run", "file").unique().sort("run")["file"].to_list()
    return Baseline(name, times["run"].n_unique(), iterations, ", ".join(gpus), tuple(files))


def remove_baseline(folder: str, name: str) -> None:
    """Delete a baseline; in an object store an empty one remains, because Polars deletes nothing there.

    Raises:
        ProftuiError: There is none.
    """
    path = baseline_path(folder, name)
    if is_address(path):
        read_baseline(folder, name)
        upload(folder, name, pl.DataFrame(schema=SCHEMA), overwrite=True)
        return
    try:
        Path(path).unlink()
    except FileNotFoundError:
        raise ProftuiError(f"{path}: no such baseline", "proftui baseline list") from None
