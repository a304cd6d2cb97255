"""Opens several files and folders together, as one profile."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.loaders.dataset.manifest import is_address
from tui.loaders.folder import LEFT_OUT, assembled, profile_files, with_issues
from tui.loaders.multi_file.ranks import rank_issues, with_ranks
from tui.loaders.multi_file.read_files import Outcome, Wanted, read_all
from tui.loaders.raw_input import STANDARD_INPUT
from tui.model.errors import ProftuiError
from tui.model.profile import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.loaders.base import Kept
    from tui.loaders.progress import Report
    from tui.model.profile import Profile


_MOST_NAMED: Final = 5


def load_together(
    paths: Sequence[str],
    is_folder: Callable[[str], bool],
    read_here: Callable[[Wanted, Report], Profile | None],
    *,
    format_in: str | None,
    report: Report,
    kept: Kept | None,
) -> tuple[Profile | None, list[ProftuiError]]:
    """Read files and the files of folders into one profile, in the order of the paths; a folder's by their ranks.

    Args:
        paths: As they were given.
        is_folder: Whether a path is that of a folder of profiles.
        read_here: As for `tui.loaders.multi_file.read_files.read_all`.
        format_in: As for `tui.loaders.multi_file.read_files.read_all`.
        report: As for `tui.loaders.multi_file.read_files.read_all`.
        kept: As for `tui.loaders.multi_file.read_files.read_all`.

    Returns:
        What was read, or None where nothing could be; and for each path that could not be read, why.
    """
    wanted: list[Wanted] = []
    places: list[range] = []
    errors: list[ProftuiError] = []
    folders: list[str] = []
    seen: set[str] = set()
    twice: list[str] = []
    for path in paths:
        found = [Wanted(path)]
        if is_folder(path):
            try:
                found = [Wanted(file, may_be_none=True) for file in profile_files(path)]
            except ProftuiError as error:
                errors.append(error)
                continue
        again = [one.path for one in found if _file_of(one.path) in seen]
        twice += again
        if len(again) == len(found):
            continue
        folders.append(path if found != [Wanted(path)] else "")
        found = [one for one in found if one.path not in again]
        seen.update(_file_of(one.path) for one in found)
        places.append(range(len(wanted), len(wanted) + len(found)))
        wanted += found
    if not wanted:
        return None, errors
    outcomes = read_all(wanted, read_here, format_in=format_in, report=report, kept=kept)
    if len(wanted) > 1:
        outcomes = _named(wanted, outcomes)
    profiles: list[Profile] = []
    issues: list[dict[str, str]] = []
    for folder, place in zip(folders, places, strict=True):
        own = {wanted[at].path: outcomes[at] for at in place}
        try:
            if folder:
                profiles.append(assembled(folder, own))
                continue
            (outcome,) = own.values()
            if outcome.error is not None:
                issues.append({"severity": "error", "text": "", "reason": f"{LEFT_OUT}{outcome.error}"})
                raise outcome.error
            if outcome.profile is not None:
                profiles.append(outcome.profile)
        except ProftuiError as error:
            errors.append(error)
    if not profiles:
        return None, errors or [ProftuiError("stopped before anything was read")]
    profile = joined(profiles)
    not_read = [Path(one.path).name for one, outcome in zip(wanted, outcomes, strict=True) if outcome.was_stopped]
    if not_read:
        words = f"stopped: {len(not_read)} of {len(wanted)} files not read"
        profile = replace(profile, partial="; ".join(filter(None, [words, profile.partial])))
        issues.append({"severity": "warning", "text": ", ".join(not_read), "reason": f"{words}"})
    if twice:
        count = "1 file is" if len(twice) == 1 else f"{len(twice)} files are"
        named = ", ".join(twice[:_MOST_NAMED]) + (", ..." if len(twice) > _MOST_NAMED else "")
        issues.append({"severity": "info", "text": named, "reason": f"{count} named more than once: read once"})
    if len(wanted) > 1:
        left_out = [one.path for one, outcome in zip(wanted, outcomes, strict=True) if outcome.error is not None]
        issues += rank_issues(profile["sessions"], left_out=left_out, not_read=not_read)
    return with_issues(profile, issues), errors


def _file_of(path: str) -> str:
    """What is the same for all names of a file."""
    return path if path == STANDARD_INPUT or is_address(path) else os.path.realpath(path)


def _named(wanted: Sequence[Wanted], outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The same with ranks that the names of the files tell, and what is partial by its file's name."""
    found = with_ranks([one.path for one in wanted], [outcome.profile for outcome in outcomes])
    return [
        outcome
        if profile is None
        else replace(
            outcome,
            profile=replace(profile, partial=f"{Path(one.path).name} {profile.partial}" if profile.partial else ""),
        )
        for one, outcome, profile in zip(wanted, outcomes, found, strict=True)
    ]
