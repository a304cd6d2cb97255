"""``proftui baseline``, and ``proftui diff --baseline``: runs compared with the saved times of earlier ones."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tui.cli import console
from tui.cli.console import BAD_INPUT, write_data, write_text
from tui.cli.headless import EXIT_FINDINGS, check_input, load_files, text_style
from tui.cli.selected_tables import bounds_from_options, selection_from_options
from tui.model.errors import ProftuiError
from tui.text import plain, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars as pl

    from tui.dataset.baselines import Baseline


def baseline(options: Namespace) -> int:
    """Save, list or remove baselines."""
    from tui.dataset import baselines

    if options.action == "list":
        return _list(options.dir, options.format)
    if options.action == "rm":
        baselines.remove_baseline(options.dir, options.name)
        console.info(f"removed {options.name} from {options.dir}")
        return 0
    from tui.loaders.dataset_loader import is_address

    path = baselines.baseline_path(options.dir, options.name)
    times = _times(options)
    data = baselines.to_parquet(times)
    if is_address(path):
        baselines.upload(options.dir, options.name, times, overwrite=options.overwrite)
    else:
        from tui.output.export import write_file

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
    from tui.dataset import baselines

    status, readable = 0, []
    for name in baselines.baseline_names(folder):
        try:
            readable.append(baselines.summarize_baseline(folder, name))
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
    import polars as pl

    from tui.output.json_document import JsonTable, document, schema_fields

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
    import polars as pl

    from tui.analysis.compare.run_times import run_times

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
    from tui.analysis.compare.run_times import compare_runs
    from tui.dataset.baselines import read_baseline
    from tui.output.baseline_diff import BaselineDiff

    format_name = options.format or "text"
    if format_name not in ("text", "markdown", "json") or options.frame is not None or options.output != "-":
        raise ProftuiError("--baseline prints text, markdown or json", "without --frame and -o")
    if not selection_from_options(options).is_all:
        raise ProftuiError("--filter, --sort and --columns do not apply to --baseline", "--limit, --max-bytes for JSON")
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
