"""``proftui convert``: writes a Parquet dataset of profiles, here or on a Dask cluster."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Final

from tui.cli import console
from tui.cli.console import BAD_INPUT
from tui.cli.headless import check_input
from tui.model.errors import ProftuiError
from tui.text import plain, plural

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tui.dataset.dask_jobs import ConversionProgress
    from tui.loaders.dataset_loader import DatasetPart, Manifest


_INTERRUPTED: Final = 130
_CHANGE_EVERY_S: Final = 0.2
_LINE_EVERY_S: Final = 10.0
"""The interval between lines of progress without a terminal."""

_CONTINUE_HINT: Final = "run the same command to continue: converted files are skipped"


def convert_on_cluster(options: argparse.Namespace, files: Sequence[str]) -> int:
    """Convert files on a cluster; return the exit status.

    Args:
        options: The options of the command line.
        files: The files as given, each once.

    Raises:
        ProftuiError: The cluster cannot convert them, or no file can be read.
    """
    from tui.dataset.dask_jobs import DaskConversion, SchedulerLostError, check_cluster, connect_client
    from tui.dataset.write_dataset import finish, prepare
    from tui.loaders.dataset_loader import is_address

    if "-" in files:
        raise ProftuiError(
            "standard input (-) is not available on a cluster", "use files that all machines of the cluster can read"
        )
    for file in filter(is_address, files):
        raise ProftuiError(
            f"{file}: addresses are not available on a cluster",
            "convert it without --scheduler, or copy it to a folder that all machines of the cluster can read",
        )
    # Workers have other working folders.
    absolute_paths = [os.path.abspath(file) for file in files]  # noqa: PTH100 (keeps links)
    out_dir = os.path.abspath(options.output)  # noqa: PTH100
    with connect_client(options.scheduler) as client:
        existing = [file for file in absolute_paths if os.path.exists(file)]  # noqa: PTH110
        os.makedirs(out_dir, exist_ok=True)  # noqa: PTH103
        workers = check_cluster(client, sorted({os.path.dirname(file) for file in existing}), out_dir)  # noqa: PTH120
        # An existing dataset stays intact until the cluster is known to work.
        prepare(out_dir, absolute_paths, format_in=options.format_in, overwrite=options.overwrite)
        console.info(f"{_files(len(existing))} for {_workers(workers)} of {options.scheduler}")
        progress_line = ProgressLine()
        for file in absolute_paths:
            if file not in existing:
                progress_line.print_skipped(file, f"{file}: no such file")
        conversion = DaskConversion(client, existing, out_dir, options.format_in)
        progress = conversion.progress
        try:
            conversion.run(progress_line.show, progress_line.print_skipped)
        except (KeyboardInterrupt, SchedulerLostError) as error:
            progress_line.end()
            lost = not isinstance(error, KeyboardInterrupt)
            console.info("connection to the scheduler lost" if lost else "interrupted")
            console.info(f"{len(progress.parts):,} of {_files(len(absolute_paths))} converted; {_CONTINUE_HINT}")
            return BAD_INPUT if lost else _INTERRUPTED
        finally:
            progress_line.end()
    manifest = finish(out_dir, [progress.parts[file] for file in existing if file in progress.parts])
    missing = len(absolute_paths) - len(existing)
    _print_summary(progress, manifest, missing, options.output)
    return BAD_INPUT if missing or progress.skipped else 0


def _print_summary(progress: ConversionProgress, manifest: Manifest, missing: int, output: str) -> None:
    ranks = len({file.rank for dataset_part in manifest.parts for file in dataset_part.files if file.rank is not None})
    lines = [
        _files(len(manifest.parts)),
        plural(ranks, "rank") if ranks else "unknown ranks",
        plural(sum(manifest.rows.values()), "row"),
    ]
    console.info(f"wrote {', '.join(lines)} to {output}; proftui {output} opens it")
    counts = [
        f"{progress.existing_parts:,} already converted" if progress.existing_parts else "",
        f"{len(progress.retried):,} retried" if progress.retried else "",
        f"{missing + len(progress.skipped):,} skipped" if missing or progress.skipped else "",
    ]
    if any(counts):
        console.info(f"of {_files(progress.files + missing)}: {', '.join(filter(None, counts))}")
    if any(dataset_part.has_text for dataset_part in manifest.parts):
        console.info("log text is not included: the Log view needs the original logs")


class ProgressLine:
    """The progress on standard error: one updated line on a terminal, otherwise a line now and then."""

    def __init__(self) -> None:
        self._shown = False
        self._changes = sys.stderr.isatty()
        self._began_s = self._printed_s = time.monotonic()

    def show(self, progress: ConversionProgress) -> None:
        """Print the progress."""
        now = time.monotonic()
        if self._changes:
            if now - self._printed_s < _CHANGE_EVERY_S and progress.done < progress.files:
                return
            self._printed_s = now
            columns = shutil.get_terminal_size().columns - 1
            print(f"\r{self._text(progress, now)[:columns]:<{columns}}", end="", file=sys.stderr, flush=True)
            self._shown = True
        elif now - self._printed_s >= _LINE_EVERY_S:
            self._printed_s = now
            console.info(self._text(progress, now))

    def print_skipped(self, _file: str, reason: str) -> None:
        """Print why a file is skipped, on a line that stays."""
        self.end()
        console.info(f"skipped: {plain(reason)}")

    def end(self) -> None:
        """Clear the line."""
        if self._shown:
            self._shown = False
            print(f"\r{'':<{shutil.get_terminal_size().columns - 1}}\r", end="", file=sys.stderr, flush=True)

    def _text(self, progress: ConversionProgress, now: float) -> str:
        """Return the progress, as `12 of 40 files, 1 skipped, 2 workers, about 20 s left`."""
        texts = [f"{progress.done:,} of {_files(progress.files)}"]
        if progress.skipped:
            texts.append(f"{len(progress.skipped):,} skipped")
        texts.append(_workers(progress.workers))
        read = progress.done - progress.existing_parts
        if read and progress.workers and progress.done < progress.files:
            seconds = (now - self._began_s) / read * (progress.files - progress.done)
            texts.append(f"about {_time(seconds)} left")
        return ", ".join(texts)


def _files(count: int) -> str:
    return plural(count, "file")


def _workers(count: int) -> str:
    if not count:
        return "waiting for a worker"
    return plural(count, "worker")


def _time(seconds: float) -> str:
    """Format a duration as text.

    >>> _time(20.4), _time(200), _time(9000)
    ('20 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def convert(options: argparse.Namespace) -> int:
    """Convert files, skipping unreadable ones; return the exit status."""
    from tui.dataset.write_dataset import finish, part_name, prepare, write_part
    from tui.loaders.registry import inputs

    check_input(options.files)
    if "://" in options.output:
        raise ProftuiError(
            f"{options.output}: datasets are written to local folders", "copy it there when it is complete"
        )
    # A file that is named twice is one file.
    files = list({part_name(file): file for path in options.files for file in inputs(path)}.values())
    if options.scheduler is not None:
        return convert_on_cluster(options, files)
    prepare(options.output, files, format_in=options.format_in, overwrite=options.overwrite)
    dataset_parts: list[DatasetPart] = []
    errors: list[ProftuiError] = []
    for number, file in enumerate(files, 1):
        try:
            dataset_part = write_part(file, options.output, format_in=options.format_in)
        except ProftuiError as error:
            console.error(error)
            errors.append(error)
            continue
        dataset_parts.append(dataset_part)
        if len(files) > 1:
            console.info(f"{number} of {len(files)}: {file}: {plural(sum(dataset_part.rows.values()), 'row')}")
    manifest = finish(options.output, dataset_parts)
    size_text = f"{plural(len(dataset_parts), 'file')}, {plural(sum(manifest.rows.values()), 'row')}"
    console.info(f"wrote {size_text} to {options.output}; proftui {options.output} opens it")
    if any(dataset_part.has_text for dataset_part in dataset_parts):
        console.info("log text is not included: the Log view needs the original logs")
    return BAD_INPUT if errors else 0
