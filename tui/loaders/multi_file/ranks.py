"""The ranks of several files, from their content or their names; and which ranks are missing."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.text import plural, short_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tui.model.profile import Profile

RANK_FROM_FILE_NAME: Final = "file name"
"""The ``sessions.rank_source`` of a rank that is inferred from the file name."""

_RANK: Final = re.compile(r"(?<![a-z])(?<!local[-_])rank[-_.= ]?([0-9]{1,6})(?![0-9])", re.IGNORECASE)
"""The rank in the job; each machine counts its own local ranks."""
_WORKER: Final = re.compile(
    r"(?<![a-z])(local_?rank|rank|worker|node|host|gpu|device|proc|process)[-_.= ]?([0-9]{1,6})(?![0-9])", re.IGNORECASE
)
"""A name that numbers the parts of a job."""
_RUN: Final = re.compile(
    r"(?<![a-z])(run|trial|try|attempt|test|exp|experiment|version|v|step|iter|epoch)[-_.= ]?$", re.IGNORECASE
)
"""Words before a number that counts runs, not ranks."""
_NUMBER: Final = re.compile(r"([0-9]+)")
_MAX_RANK: Final = 1 << 20


def ranks_in_names(paths: Sequence[str]) -> list[int | None]:
    """Return the ranks in file names: the number after "rank", otherwise the one number that counts the files.

    >>> ranks_in_names(["a_rank0.json", "a_rank_12.json"]), ranks_in_names(["t.0.json", "t.1.json", "t.3.json"])
    ([0, 12], [0, 1, 3])
    >>> ranks_in_names(["run.4711.log", "run.4712.log"]), ranks_in_names(["run0.log", "run1.log"])
    ([None, None], [None, None])
    """
    names = [Path(path).name for path in paths]
    ranks = [int(matches[-1]) if (matches := _RANK.findall(name)) else None for name in names]
    positions_by_pattern: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, name in enumerate(names):
        if ranks[index] is None:
            positions_by_pattern[tuple(_NUMBER.split(name)[::2])].append(index)
    for pattern, positions in positions_by_pattern.items():
        numbers = _counting(pattern, [_NUMBER.findall(names[index]) for index in positions])
        for index, number in zip(positions, numbers, strict=True):
            ranks[index] = number
    return ranks


def are_numbered_parts(paths: Sequence[str]) -> bool:
    """Return whether the names of files identify the parts of one job: a rank, worker, node or GPU with its number.

    >>> are_numbered_parts(["a.worker1.json", "a.worker2.json"]), are_numbered_parts(["run1.log", "run2.log"])
    (True, False)
    """
    return all(_WORKER.search(Path(path).name) for path in paths) or None not in ranks_in_names(paths)


def _counting(texts: Sequence[str], rows: Sequence[Sequence[str]]) -> Sequence[int | None]:
    """Return the numbers that count the names from 0, if exactly one column of numbers does; None for each otherwise.

    Up to half of the numbers may be missing. A column that counts runs does not count.

    Args:
        texts: The text before each column.
        rows: The numbers in each name.
    """
    columns = []
    for text, column in zip(texts, zip(*rows, strict=True), strict=False):
        if _RUN.search(text):
            continue
        numbers = [int(digits) for digits in column if len(digits) < 8]
        if len(numbers) == len(set(numbers)) == len(rows) > 1 and min(numbers) == 0 and max(numbers) < 2 * len(rows):
            columns.append(numbers)
    return columns[0] if len(columns) == 1 else [None] * len(rows)


def fill_ranks(paths: Sequence[str], profiles: Sequence[Profile | None]) -> list[Profile | None]:
    """Return the profiles; those without a recorded rank get the rank in their file name."""
    ranks = ranks_in_names(paths)
    used_ranks = {
        rank for profile in profiles if profile is not None for rank in profile["sessions"]["rank"].drop_nulls()
    }
    return [
        None if profile is None else profile if rank is None or rank in used_ranks else _set_rank(profile, rank)
        for profile, rank in zip(profiles, ranks, strict=True)
    ]


def _set_rank(profile: Profile, rank: int) -> Profile:
    """Set the rank of the only session with GPU work; unchanged if that is unclear, or if a rank is recorded."""
    sessions = profile["sessions"]
    works = profile["activities"]["session"].unique() if sessions.height > 1 else sessions["session"]
    if sessions["rank"].is_not_null().any() or len(works) != 1 or rank >= _MAX_RANK:
        return profile
    in_session = pl.col("session") == works[0]
    sessions = sessions.with_columns(
        pl.when(in_session).then(pl.lit(rank, pl.Int32)).otherwise("rank").alias("rank"),
        pl.when(in_session).then(pl.lit(RANK_FROM_FILE_NAME)).otherwise("rank_source").alias("rank_source"),
    )
    return replace(profile, frames={**profile.frames, "sessions": sessions})


def rank_issues(sessions: pl.DataFrame, *, skipped: Sequence[str], not_read: Sequence[str]) -> list[dict[str, str]]:
    """Return issues about the ranks of several files: inferred, duplicate, missing, of different world sizes.

    Args:
        sessions: The frame of that name.
        skipped: The files that could not be read.
        not_read: The files that were not, because the reading was stopped: missing ranks are not reported then.
    """
    ranked = sessions.filter(pl.col("rank").is_not_null())
    ranks = Counter(ranked["rank"].to_list())
    issues = []
    inferred = ranked.filter(pl.col("rank_source") == RANK_FROM_FILE_NAME)
    if inferred.height:
        pairs = [f"{Path(source).name}: rank {rank}" for source, rank in inferred.select("source", "rank").iter_rows()]
        reason = f"ranks not recorded: inferred from {plural(inferred.height, 'file name')}"
        issues.append({"severity": "info", "text": short_list(pairs), "reason": reason})
    if len(ranks) < 2:
        # Several recordings of one rank are for comparison, not a job.
        return issues
    for rank, times in sorted(ranks.items()):
        if times > 1:
            files = [Path(source).name for source in ranked.filter(pl.col("rank") == rank)["source"]]
            reason = (
                f"rank {rank} appears {times} times: each is a separate session, and totals over ranks include all "
                "of them"
            )
            issues.append({"severity": "warning", "text": short_list(files), "reason": reason})
    sizes = sorted(ranked["world_size"].drop_nulls().unique().to_list())
    if len(sizes) > 1:
        reason = f"these ranks belong to jobs with different world sizes ({', '.join(map(str, sizes))})"
        issues.append({"severity": "warning", "text": "", "reason": reason})
    size = sizes[-1] if sizes else max(ranks) + 1
    missing = sorted(set(range(min(size, _MAX_RANK))) - set(ranks))
    if missing and not not_read:
        scope = f"{len(ranks)} of {size} ranks loaded" if sizes else f"the highest rank loaded is {size - 1}"
        are = "is" if len(missing) == 1 else "are"
        names = f"rank{'' if len(missing) == 1 else 's'} {ranges_text(missing)}"
        reason = f"{names} {are} missing: {scope}"
        ranks_by_path = dict(zip(skipped, ranks_in_names(skipped), strict=True))
        named = [Path(path).name for path, rank in ranks_by_path.items() if rank in missing]
        if named:
            reason += f"; skipped: {short_list(named)}"
        issues.append({"severity": "warning", "text": "", "reason": reason})
    return issues


def ranges_text(numbers: Iterable[int]) -> str:
    """Return a sorted list of numbers as text, with ranges.

    >>> ranges_text([1, 2, 3, 7])
    '1 to 3, 7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return short_list([str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs])
