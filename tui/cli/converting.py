"""Writing a Parquet dataset of profiles: ``proftui convert``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.cli.headless import check_input
from tui.cli.saying import BAD_INPUT, complain, tell
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    import argparse

    from tui.loaders.dataset.manifest import Part


def convert(options: argparse.Namespace) -> int:
    """Write what came of all files; one that cannot be read does not stop the others."""
    from tui.dataset.writing import finish, part_name, prepare, write_part
    from tui.loaders.registry import inputs

    check_input(options.files)
    if "://" in options.output:
        raise ProftuiError(f"{options.output}: a dataset is written to a folder", "copy it there when it is whole")
    # A file that is named twice is one file.
    files = list({part_name(file): file for path in options.files for file in inputs(path)}.values())
    if options.scheduler is not None:
        from tui.cli.on_cluster import convert_on_cluster

        return convert_on_cluster(options, files)
    prepare(options.output, files, format_in=options.format_in, overwrite=options.overwrite)
    parts: list[Part] = []
    errors: list[ProftuiError] = []
    for number, file in enumerate(files, 1):
        try:
            part = write_part(file, options.output, format_in=options.format_in)
        except ProftuiError as error:
            complain(error)
            errors.append(error)
            continue
        parts.append(part)
        if len(files) > 1:
            tell(f"{number} of {len(files)}: {file}: {sum(part.rows.values()):,} rows")
    manifest = finish(options.output, parts)
    told = f"{len(parts)} file{'' if len(parts) == 1 else 's'}, {sum(manifest.rows.values()):,} rows"
    tell(f"wrote {told} to {options.output}; proftui {options.output} opens it")
    if any(part.has_text for part in parts):
        tell("the lines of logs are not in it: the Log view needs the logs themselves")
    return BAD_INPUT if errors else 0
