"""What is kept of large files: listed for people and scripts, and cleared."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tui.cli.saying import say, tell, write_data
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    import argparse

    from tui.cache.room import Kept


def cache(options: argparse.Namespace) -> int:
    """List or clear what is kept."""
    from tui.cache.place import NotOursError, folder, opened_folder
    from tui.cache.room import clear, entries
    from tui.loaders.sizes import size_in_words

    try:
        with suppress(FileNotFoundError), opened_folder():
            pass
    except NotOursError as error:
        raise ProftuiError(f"{folder()}: others can write there, so nothing in it is used", "remove it") from error
    if options.action == "clear":
        number, left = clear()
        words = f"cleared {number} file{'' if number == 1 else 's'} from {folder()}"
        tell(words if not left else f"{words}; {size_in_words(left)} cannot be taken away")
        return 0 if not left else 2
    kept = entries()
    if options.format == "json":
        from tui.output.export import json_line

        for one in kept:
            write_data(json_line(_told(one)))
        return 0
    for one in kept:
        told = _told(one)
        say(f"{size_in_words(one.bytes):>9}  {told['used']}  {told['state']:<7}  {told['file'] or one.name}\n")
    total = sum(one.bytes for one in kept)
    tell(f"{len(kept)} file{'' if len(kept) == 1 else 's'}, {size_in_words(total)}, in {folder()}")
    return 0


def _told(one: Kept) -> dict[str, object]:
    """What is said of an entry: what it is of, and whether opening the file would use it."""
    from tui.cache.identity import identity_of, program
    from tui.text import plain

    path = None if one.manifest is None else os.fsdecode(bytes.fromhex(one.manifest.identity.path))
    if one.manifest is None or path is None:
        state = "damaged"
    elif one.manifest.program != program():
        state = "old"
    else:
        # What has no inode is an address of an object store, which is not asked.
        is_same = not one.manifest.identity.inode or identity_of(path) == one.manifest.identity
        state = "good" if is_same else "stale"
    used = datetime.fromtimestamp(one.used_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"file": path and plain(path), "bytes": one.bytes, "used": used, "state": state}
