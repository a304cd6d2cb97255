"""``proftui convert --scheduler``: what is told while a Dask cluster converts files, and in the end."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING, Final

from tui.cli.saying import BAD_INPUT, tell
from tui.model.errors import ProftuiError
from tui.text import plain

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from tui.dataset.spread import Standing
    from tui.loaders.dataset.manifest import Manifest

_INTERRUPTED: Final = 130
_CHANGE_EVERY_S: Final = 0.2
_LINE_EVERY_S: Final = 10.0
"""Where no line can be written over."""

_AGAIN: Final = "the same command goes on: files that are converted are not converted again"


def convert_on_cluster(options: argparse.Namespace, files: Sequence[str]) -> int:
    """Convert files on a cluster; the exit status.

    Args:
        options: Of the command line.
        files: Each once, as given.

    Raises:
        ProftuiError: The cluster cannot do it, or nothing can be read.
    """
    from tui.dataset.cluster import check, connected
    from tui.dataset.spread import SchedulerLostError, Spread
    from tui.dataset.writing import finish, prepare
    from tui.loaders.dataset.store import is_address

    if "-" in files:
        raise ProftuiError("standard input (-) cannot be read on a cluster", "name files that all its machines see")
    for file in filter(is_address, files):
        raise ProftuiError(
            f"{file}: an address cannot be read on a cluster",
            "convert it without --scheduler, or copy it to where all its machines see it",
        )
    # Workers have other working folders.
    whole = [os.path.abspath(file) for file in files]  # noqa: PTH100 (keeps links)
    out_dir = os.path.abspath(options.output)  # noqa: PTH100
    with connected(options.scheduler) as client:
        there = [file for file in whole if os.path.exists(file)]  # noqa: PTH110
        os.makedirs(out_dir, exist_ok=True)  # noqa: PTH103
        workers = check(client, sorted({os.path.dirname(file) for file in there}), out_dir)  # noqa: PTH120
        # A dataset that is there stays whole until it is sure that the cluster can do the work.
        prepare(out_dir, whole, format_in=options.format_in, overwrite=options.overwrite)
        tell(f"{_files(len(there))} for {_workers(workers)} of {options.scheduler}")
        line = ProgressLine()
        for file in whole:
            if file not in there:
                line.left_out(file, f"{file}: there is no such file")
        spread = Spread(client, there, out_dir, options.format_in)
        standing = spread.standing
        try:
            spread.run(line.told, line.left_out)
        except (KeyboardInterrupt, SchedulerLostError) as error:
            line.end()
            lost = not isinstance(error, KeyboardInterrupt)
            tell("the scheduler is gone" if lost else "interrupted")
            tell(f"{len(standing.parts):,} of {_files(len(whole))} converted; {_AGAIN}")
            return BAD_INPUT if lost else _INTERRUPTED
        finally:
            line.end()
    manifest = finish(out_dir, [standing.parts[file] for file in there if file in standing.parts])
    missing = len(whole) - len(there)
    _sum_up(standing, manifest, missing, options.output)
    return BAD_INPUT if missing or standing.left_out else 0


def _sum_up(standing: Standing, manifest: Manifest, missing: int, output: str) -> None:
    ranks = len({file.rank for part in manifest.parts for file in part.files if file.rank is not None})
    told = [
        _files(len(manifest.parts)),
        f"{ranks:,} rank{'' if ranks == 1 else 's'}" if ranks else "no ranks known",
        f"{sum(manifest.rows.values()):,} rows",
    ]
    tell(f"wrote {', '.join(told)} to {output}; proftui {output} opens it")
    beside = [
        f"{standing.were_there:,} had been converted before" if standing.were_there else "",
        f"{len(standing.retried):,} tried more than once" if standing.retried else "",
        f"{missing + len(standing.left_out):,} left out" if missing or standing.left_out else "",
    ]
    if any(beside):
        tell(f"of {_files(standing.files + missing)}: {', '.join(filter(None, beside))}")
    if any(part.has_text for part in manifest.parts):
        tell("the lines of logs are not in it: the Log view needs the logs themselves")


class ProgressLine:
    """How far it is, on standard error: one line that changes on a terminal, else a line now and then."""

    def __init__(self) -> None:
        self._shown = False
        self._changes = sys.stderr.isatty()
        self._began_s = self._told_s = time.monotonic()

    def told(self, standing: Standing) -> None:
        """Show it."""
        now = time.monotonic()
        if self._changes:
            if now - self._told_s < _CHANGE_EVERY_S and standing.done < standing.files:
                return
            self._told_s = now
            columns = shutil.get_terminal_size().columns - 1
            print(f"\r{self._words(standing, now)[:columns]:<{columns}}", end="", file=sys.stderr, flush=True)
            self._shown = True
        elif now - self._told_s >= _LINE_EVERY_S:
            self._told_s = now
            tell(self._words(standing, now))

    def left_out(self, _file: str, reason: str) -> None:
        """Say why a file is left out; that stays."""
        self.end()
        tell(f"left out: {plain(reason)}")

    def end(self) -> None:
        """Leave the line."""
        if self._shown:
            self._shown = False
            print(f"\r{'':<{shutil.get_terminal_size().columns - 1}}\r", end="", file=sys.stderr, flush=True)

    def _words(self, standing: Standing, now: float) -> str:
        """As `12 of 40 files, 1 left out, 2 workers, about 20 s left`."""
        words = [f"{standing.done:,} of {_files(standing.files)}"]
        if standing.left_out:
            words.append(f"{len(standing.left_out):,} left out")
        words.append(_workers(standing.workers))
        read = standing.done - standing.were_there
        if read and standing.workers and standing.done < standing.files:
            seconds = (now - self._began_s) / read * (standing.files - standing.done)
            words.append(f"about {_time(seconds)} left")
        return ", ".join(words)


def _files(count: int) -> str:
    return f"{count:,} file{'' if count == 1 else 's'}"


def _workers(count: int) -> str:
    if not count:
        return "no worker: waiting for one"
    return f"{count:,} worker{'' if count == 1 else 's'}"


def _time(seconds: float) -> str:
    """In words.

    >>> _time(20.4), _time(200), _time(9000)
    ('20 s', '3 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
