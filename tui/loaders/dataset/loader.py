"""Opening a dataset: what memory may not hold is laid out on the disk, column by column, and mapped."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.cache.columns import bytes_of
from tui.cache.identity import Identity, identity_of
from tui.cache.spool import spooled
from tui.loaders.base import Format, Kept, LoadProgress, Report, keep_going
from tui.loaders.dataset.manifest import MANIFEST
from tui.loaders.dataset.parts import DamagedPartError, batches, check, files_in_order
from tui.loaders.dataset.store import Cloud, Folder, is_address, manifest_of
from tui.model.errors import ProftuiError
from tui.model.profile import Profile
from tui.model.readable import readable
from tui.model.schema import FRAMES, OP_COLUMNS, conform, empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.cache.spool import Spool
    from tui.loaders.dataset.manifest import Manifest, Part
    from tui.loaders.dataset.store import Store
    from tui.loaders.source import Source

IN_MEMORY_BYTES: Final = 256 << 20
"""Frames that take no more than this are read into memory."""

_NO_TEXT: Final = "the dataset does not hold the lines of this log; open the log itself to read them"

Add = Callable[[str, pl.DataFrame], None]


class DatasetLoader:
    """Reads what ``proftui convert`` writes; it is no file, so no first bytes tell it."""

    formats: Final = (
        Format(
            name="proftui-dataset",
            title="Parquet dataset of proftui convert",
            recognised_by=f"a folder, or an s3://, gs:// or az:// address, with {MANIFEST}",
            feeds=tuple(FRAMES),
            record_with="proftui convert FILE... -o DIR",
        ),
    )

    def probe(self, head: bytes, name: str) -> float:
        """Never sure: no file of it is a profile."""
        return 0.0

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read the dataset of a file of it.

        Raises:
            ProftuiError: Always: the folder is to be named.
        """
        raise ProftuiError(f"{source.called}: is no dataset", "name the folder that proftui convert wrote")

    def load_folder(self, path: str, report: Report = keep_going, kept: Kept | None = None) -> Profile:
        """Read a dataset.

        Args:
            path: Its folder or address.
            report: Told of progress; its False stops the reading, and what has been read is kept.
            kept: What was read before, which is used and added to; None: nothing is.

        Returns:
            Its sessions, in the order of its parts; parts that are damaged are issues.

        Raises:
            ProftuiError: It cannot be read, or no part of it can.
        """
        store = Cloud(path) if is_address(path) else Folder(path)
        manifest, body = manifest_of(store)
        identity = identity_of(store.address(MANIFEST))
        if identity is None:
            # Of an address, its content is all that tells it from another.
            digest = hashlib.sha256(body).hexdigest()
            identity = Identity(os.fsencode(store.address(MANIFEST)).hex(), 0, 0, len(body), 0, 0, digest)
        return _Opening(store, manifest, report).profile(identity, kept)


class _Opening:
    """One opening of a dataset."""

    def __init__(self, store: Store, manifest: Manifest, report: Report) -> None:
        self._store = store
        self._report = report
        self._damaged: list[DamagedPartError] = []
        self._parts: list[Part] = []
        self._stopped = 0
        self._is_whole = True
        for part in manifest.parts:
            try:
                check(store, part)
                self._parts.append(part)
            except DamagedPartError as error:
                self._damaged.append(error)

    def profile(self, identity: Identity, kept: Kept | None) -> Profile:
        while True:
            if not self._parts:
                why = f": {self._damaged[0]}" if self._damaged else ""
                raise ProftuiError(f"{self._store.called}: no part of the dataset can be read{why}")
            try:
                frames = self._frames(identity, kept)
            except DamagedPartError as error:
                # What was read of it before is in the way of the others: all is read again without it.
                self._damaged.append(error)
                self._parts = [part for part in self._parts if part.name != error.part]
            else:
                break
        issues = pl.concat([frames["issues"], self._issues()])
        partial = f"stopped at {self._stopped}%" if self._stopped else ""
        return Profile({**frames, "issues": issues}, (readable(self._store.called),), {}, partial)

    def _frames(self, identity: Identity, kept: Kept | None) -> Mapping[str, pl.DataFrame]:
        rows = {name: sum(part.rows.get(name, 0) for part in self._parts) for name in FRAMES}
        if any(count >= 1 << 32 for count in rows.values()):
            raise ProftuiError(f"{self._store.called}: more than four thousand million rows", "open parts of it")
        size = sum(bytes_of(rows[name], dtype) for name, schema in FRAMES.items() for dtype in schema.dtypes())
        if size <= IN_MEMORY_BYTES:
            parts: dict[str, list[pl.DataFrame]] = {}
            self._fill(lambda frame, data: parts.setdefault(frame, []).append(data))
            return {name: pl.concat(parts[name], rechunk=True) if name in parts else empty(name) for name in FRAMES}

        def fill(spool: Spool) -> bool:
            self._fill(spool.add)
            return not self._damaged and not self._stopped

        if kept is None or self._damaged:
            return spooled(rows, fill)
        return kept.large(self._store.called, identity, rows, fill)

    def _fill(self, add: Add) -> None:
        """Add the rows of all parts, with sessions, activities and ops numbered over all of them."""
        total = sum(file.size for part in self._parts for file in part.files)
        bytes_read = rows_read = sessions = activities = ops = 0
        for part in self._parts:
            activity = activities
            for file in files_in_order(part):
                for data in batches(self._store, part, file):
                    changes = [(pl.col("session") + sessions).cast(pl.UInt32)]
                    changes += [(pl.col(name) + ops).cast(pl.UInt32) for name in OP_COLUMNS.get(file.frame, ())]
                    if file.frame == "activities":
                        # Theirs are the numbers of rows.
                        numbers = pl.int_range(activity, activity + data.height, dtype=pl.UInt32)
                        changes.append(numbers.alias("activity"))
                        activity += data.height
                    add(file.frame, data.with_columns(changes))
                    rows_read += data.height
                    bytes_read += file.size * data.height // file.rows
                    if not self._report(LoadProgress(self._store.called, bytes_read, total, rows_read)):
                        self._stopped = max(1, 100 * bytes_read // max(1, total))
                        return
            sessions += part.sessions
            activities += part.rows.get("activities", 0)
            ops += part.rows.get("ops", 0)

    def _issues(self) -> pl.DataFrame:
        rows: list[dict[str, object]] = [
            {"severity": "error", "text": error.part, "reason": f"left out of the dataset: {error.why}"}
            for error in self._damaged
        ]
        session = 0
        for part in self._parts:
            if part.has_text:
                rows.append({"session": session, "severity": "info", "text": part.source, "reason": _NO_TEXT})
            session += part.sessions
        return conform("issues", pl.DataFrame(rows, infer_schema_length=None)) if rows else empty("issues")


DATASET: Final = DatasetLoader()
