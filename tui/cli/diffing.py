"""``proftui diff``: what changed from one profile to another, and the exit status for CI."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tui.cli.arguments import DIFF_FRAMES
from tui.cli.headless import FOUND, check_input, load_files, status_of, style_of, table_format, write_table
from tui.cli.saying import say, tell, write_data
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

WHOLE: Final = ("text", "markdown", "json")
"""Formats that hold a whole comparison."""


def diff(options: Namespace) -> int:
    """Print what changed from one profile to another."""
    from tui.analysis.compare.sides import sides
    from tui.output.diff import Diff

    options.files = [options.before, options.now]
    check_input(options.files)
    format_name = _diff_format(options)
    both: list[Profile] = []
    errors: list[ProftuiError] = []
    for file, suffix in ((options.before, ""), (options.now, "_b")):
        own = {name: getattr(options, f"{name}{suffix}", None) for name in ("session", "iterations")}
        chosen = {name: getattr(options, name) if value is None else value for name, value in own.items()}
        profile, faults = load_files(Namespace(**{**vars(options), "files": [file], **chosen}))
        both.append(profile)
        errors += faults
    compared = Diff(
        sides(both[0], both[1], _labels(options), whole_runs=options.whole_runs),
        tolerant=options.tolerant,
        gpu=options.gpu,
        than_pct=options.fail_on_regression,
    )
    if format_name in WHOLE and options.frame is None:
        writers = {
            "text": lambda: compared.as_text(style_of(options.color)),
            "markdown": compared.as_markdown,
            "json": compared.as_json,
        }
        (say if format_name == "text" else write_data)(writers[format_name]())
    else:
        name = options.frame or DIFF_FRAMES[0]
        if options.frame is None:
            tell(f"{format_name} holds one table: {name}; with --frame also {', '.join(DIFF_FRAMES[1:])}")
        write_table(compared.table(name), options, format_name, name)
    if options.fail_on_regression is None:
        return status_of(errors)
    tell(*compared.verdict())
    assert compared.judgement is not None, "else there is no verdict"
    return status_of(errors) or (FOUND if compared.judgement.fails else 0)


def _diff_format(options: Namespace) -> str:
    """The format of a comparison: of all of it as text, Markdown or JSON, else of one table.

    Raises:
        ProftuiError: What is asked for does not go together.
    """
    name = table_format(options) or ("text" if options.frame is None and options.output == "-" else "csv")
    if name == "text" and options.frame is not None:
        raise ProftuiError("text is of the whole comparison", "without --frame, or --format csv")
    if name in WHOLE and options.frame is None and options.output != "-":
        raise ProftuiError(f"-o writes one table, not the whole as {name}", "--frame names it; or: > PATH")
    return name


def _labels(options: Namespace) -> tuple[str, str]:
    """What two profiles are called: the names of their files, with folders and choices where these alone differ."""
    names = [Path(options.before).name, Path(options.now).name]
    if names[0] == names[1] and options.before != options.now:
        names = [options.before, options.now]
    session_b = options.session if options.session_b is None else options.session_b
    chosen = ((options.session, options.iterations), (session_b, options.iterations_b or options.iterations))
    if chosen[0] != chosen[1]:
        for place, (session, iterations) in enumerate(chosen):
            names[place] += "" if session is None else f", session {session}"
            names[place] += "" if iterations is None else f", iterations {iterations}"
    return names[0], names[1]
