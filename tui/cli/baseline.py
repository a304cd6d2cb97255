"""``proftui baseline``, and ``proftui diff --baseline``: runs compared with the saved times of earlier ones.

A baseline has a name and the times of several runs: a small Parquet file in a folder or an object store.
"""

from __future__ import annotations

import io
import re
import warnings
from argparse import Namespace
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.compare.run_times import SCHEMA, compare_runs, run_times
from tui.cli import console
from tui.cli.console import BAD_INPUT, write_data, write_text
from tui.cli.headless import EXIT_FINDINGS, check_input, load_files, text_style
from tui.cli.selected_tables import bounds_from_options, selection_from_options
from tui.loaders.dataset_loader import FAST_FAIL_OPTIONS, UNREADABLE, is_address
from tui.model.errors import ProftuiError, first_line
from tui.output.baseline_diff import BaselineDiff
from tui.output.export import write_file
from tui.output.json_document import JsonTable, document, schema_fields
from tui.text import plain, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def baseline(options: Namespace) -> int:
    """Save, list or remove baselines."""
    if options.action == "list":
        return _list(options.dir, options.format)
    if options.action == "rm":
        remove_baseline(options.dir, options.name)
        console.info(f"removed {options.name} from {options.dir}")
        return 0
    path = baseline_path(options.dir, options.name)
    times = _times(options)
    data = to_parquet(times)
    if is_address(path):
        upload(options.dir, options.name, times, overwrite=options.overwrite)
    else:

        def write_to(stream: IO[bytes]) -> None:
            stream.write(data)

        Path(options.dir).mkdir(parents=True, exist_ok=True)
        write_file(write_to, Path(path), overwrite=options.overwrite)
    iteration_count = times.filter(times["what"] == "iteration").height
    saved = f"{plural(len(options.files), 'run')} with {plural(iteration_count, 'iteration')}"
    console.info(f"saved {saved} to {path} ({len(data):,} bytes)")
    return 0


def _list(folder: str, format_name: str) -> int:
    """Print the baselines of a folder, and why others cannot be read."""
    status, readable = 0, []
    for name in baseline_names(folder):
        try:
            readable.append(summarize_baseline(folder, name))
        except ProftuiError as error:
            console.error(error)
            status = BAD_INPUT
    if format_name == "json":
        write_data(_list_json(folder, readable))
        return status
    for baseline in readable:
        description = plain(f"{baseline.gpu or 'GPU not recorded'}  {', '.join(baseline.files)}")
        counts = f"{plural(baseline.runs, 'run')}, {plural(baseline.iterations, 'iteration')}"
        write_text(f"{baseline.name}  {counts}  {description}\n")
    console.info(f"{plural(len(readable), 'baseline')} in {folder}")
    return status


def _list_json(folder: str, saved: Sequence[Baseline]) -> str:
    """Return the list as JSON."""
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "name": pl.String,
        "runs": pl.Int64,
        "iterations": pl.Int64,
        "gpu": pl.String,
        "files": pl.List(pl.String),
    }
    rows = [
        (baseline.name, baseline.runs, baseline.iterations, baseline.gpu or None, list(baseline.files))
        for baseline in saved
    ]
    table = JsonTable(pl.DataFrame(rows, schema, orient="row"), ("name",))
    return document({**schema_fields("baselines"), "folder": folder}, {"rows": table})


def _times(options: Namespace) -> pl.DataFrame:
    """Return the times of the files; each file is a run.

    Raises:
        ProftuiError: One cannot be read, or has no times.
    """
    check_input(options.files)
    runs = []
    for number, file in enumerate(options.files):
        profile, errors = load_files(Namespace(**{**vars(options), "files": [file]}))
        if errors:
            raise errors[0]
        if profile.partial:
            raise ProftuiError(f"{file}: part of the run is missing: {profile.partial}", "record it again")
        times = run_times(profile, number, Path(file).name)
        if times.is_empty():
            raise ProftuiError(
                f"{file}: neither GPU work nor iterations have times", "proftui inspect shows its contents"
            )
        runs.append(times)
    return pl.concat(runs)


def diff_with_baseline(options: Namespace) -> int:
    """Print what changed since a baseline."""
    format_name = options.format or "text"
    if format_name not in ("text", "markdown", "json") or options.frame is not None or options.output != "-":
        raise ProftuiError("--baseline prints text, markdown or json", "remove --frame and -o")
    if not selection_from_options(options).is_all:
        raise ProftuiError(
            "--filter, --sort and --columns do not apply to --baseline", "use --limit, or --max-bytes for JSON"
        )
    bounds = bounds_from_options(options, format_name)
    saved = read_baseline(options.dir, options.baseline)
    comparison = compare_runs(saved, _times(options))
    if comparison is None:
        raise ProftuiError(
            "no verdict: the baseline and the files have no common time to compare",
            "proftui inspect shows their contents",
        )
    names = [Path(file).name for file in options.files]
    label = names[0] if len(names) == 1 else f"{len(names)} runs ({names[0]}, ...)"
    report = BaselineDiff((f"baseline {options.baseline}", label), comparison, options.fail_on_regression)
    if format_name == "text":
        write_text(report.as_text(text_style(options.color)))
    else:
        write_data(report.as_markdown() if format_name == "markdown" else report.as_json(options.files, bounds))
    if options.fail_on_regression is None:
        return 0
    console.info(*report.verdict())
    return EXIT_FINDINGS if report.slower else 0


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
