"""Parquet datasets of profiles: the manifest, the folder or object store, and the loader, which reads in batches."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl
import xxhash

from tui.cache.entry import FileFingerprint, file_fingerprint
from tui.cache.frame_files import spool_frames
from tui.cache.spill import bytes_of
from tui.correlation.plausible_times import DURATIONS, MAX_NS, MAX_SUM_NS
from tui.loaders.base import Format, LoadProgress, ProfileCache, ProgressCallback, keep_going
from tui.model.errors import ProftuiError, first_line, path_text
from tui.model.profile import Profile
from tui.model.schema import FRAMES, KINDS, OP_COLUMNS, conform, empty

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tui.cache.frame_files import FrameSpool
    from tui.loaders.input_file import InputFile


LAYOUT: Final = 1
"""The version of the layout of datasets."""

MANIFEST: Final = "proftui-dataset.json"
PARTS: Final = "proftui-parts"
"""The folder with a description of each part; it is written before the manifest."""

NULL_RANK: Final = "__HIVE_DEFAULT_PARTITION__"
"""The partition name that readers of partitioned folders take for null."""

ROW_GROUP_ROWS: Final = 1 << 17
"""Rows of a row group, which a reader can skip by its column statistics.

Files are sorted by session and time, so a time range is a few neighboring groups: about a second of a busy GPU
each. Smaller groups compress worse (each has its own dictionaries), and of larger ones more is read than is used.
"""

MAX_BYTES: Final = 256 << 20
"""The largest manifest; it has about a kilobyte for each part."""

PART_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
RANK_NAME: Final = re.compile(rf"rank=([0-9]{{1,10}}|{NULL_RANK})")


class PartFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a part: the rows of one frame for consecutive sessions of one rank."""

    frame: str
    rank: int | None
    run: int
    """The number of the run of sessions in the part, from 0."""
    rows: int
    size: int
    digest: str
    """The 128-bit XXH3 of its bytes."""


class DatasetPart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The part of a dataset that was made from one input."""

    name: str
    source: str
    """The input, as given."""
    size: int | None
    """Its size in bytes; None for a pipe."""
    modified_ns: int | None
    digest: str | None
    """A digest of its first and last 64 KiB, or of the names, sizes and times of a folder's files."""
    format_in: str | None
    """The format, if the user chose it."""
    program: str
    """The version of proftui that read it."""
    formats: tuple[str, ...]
    sessions: int
    rows: dict[str, int]
    """The number of rows of each frame that is not empty."""
    has_text: bool
    """Whether the input is text, whose lines the dataset does not contain."""
    files: tuple[PartFile, ...]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The manifest of a dataset."""

    layout: int
    program: str
    """The version of proftui that wrote it."""
    sessions: int
    formats: tuple[str, ...]
    rows: dict[str, int]
    """The number of rows of each frame that is not empty, in all parts."""
    parts: tuple[DatasetPart, ...]


class Layout(msgspec.Struct, frozen=True):
    """The part of a manifest that is the same in all layouts."""

    layout: int
    program: str


def part_file_path(part: DatasetPart, file: PartFile) -> str:
    """Return the path of a file of a part within the dataset.

    >>> file = PartFile("ops", 3, 0, 10, 100, "")
    >>> part_file_path(DatasetPart("a-1", "a", 1, 1, "", None, "1", (), 1, {}, False, (file,)), file)
    'ops/rank=3/part-a-1.0.parquet'
    """
    rank = NULL_RANK if file.rank is None else file.rank
    return f"{file.frame}/rank={rank}/part-{part.name}.{file.run}.parquet"


def part_problem(part: DatasetPart) -> str:
    """Return why a part of a manifest is invalid; empty if its paths stay in the folder and its row counts agree."""
    if not PART_NAME.fullmatch(part.name):
        return "has an invalid name"
    if not {file.frame for file in part.files} <= set(FRAMES):
        return "has an unknown frame"
    if any(file.rows <= 0 or file.run < 0 or (file.rank is not None and file.rank < 0) for file in part.files):
        return "has files with invalid numbers"
    if len({(file.frame, file.run) for file in part.files}) < len(part.files):
        return "lists a file twice"
    rows: dict[str, int] = {}
    for file in part.files:
        rows[file.frame] = rows.get(file.frame, 0) + file.rows
    if rows != part.rows or part.sessions != rows.get("sessions") or max(rows.values()) >= 1 << 32:
        return "has row counts that differ from its files"
    return ""


CLOUDS: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION (and AWS_ENDPOINT_URL for S3-compatible storage)",
    "gs": "GOOGLE_SERVICE_ACCOUNT, or gcloud auth application-default login",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""The schemes of addresses that are opened, with their credentials."""

UNREADABLE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
"""Exceptions of Polars for damaged or unavailable files."""

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Exceptions of decoding an invalid manifest."""

FAST_FAIL_OPTIONS: Final = {"max_retries": 2, "retry_timeout_ms": 3000, "connect_timeout": "2s"}
"""A store must answer the first request quickly; later requests are retried as Polars does by default."""

_BLOCK: Final = 1 << 20


def is_address(path: str) -> bool:
    """Return whether a path is an address of an object store.

    >>> is_address("s3://bucket/run"), is_address("run/s3:"), is_address("/data/run")
    (True, False, False)
    """
    scheme, separator, location = path.partition("://")
    return bool(separator and location) and scheme in CLOUDS


class Folder:
    """A dataset on disk.

    Args:
        path: Its folder.
    """

    def __init__(self, path: str) -> None:
        self.display_name = path
        self._path = Path(path)

    def manifest(self) -> bytes:
        """Read the manifest.

        Raises:
            ProftuiError: It cannot be read, or is too large.
        """
        file = self._path / MANIFEST
        try:
            if file.stat().st_size > MAX_BYTES:
                raise ProftuiError(f"{self.display_name}: the manifest is too large to be valid")
            return file.read_bytes()
        except OSError as error:
            raise ProftuiError(f"{file}: {(error.strerror or str(error)).lower()}") from error

    def address(self, name: str) -> str:
        """Return the path or address of a file for Polars."""
        return str(self._path / name)

    def problem(self, name: str, file: PartFile) -> str:
        """Return why a file is not the one that was written; empty if it is."""
        path = self._path / name
        try:
            if not path.resolve().is_relative_to(self._path.resolve()):
                return "is outside the folder"
            if not path.is_file():
                return "is missing"
            if path.stat().st_size != file.size:
                return f"has {path.stat().st_size:,} bytes, not {file.size:,}"
            digest = xxhash.xxh3_128()
            with path.open("rb") as opened:
                while block := opened.read(_BLOCK):
                    digest.update(block)
        except (OSError, RuntimeError) as error:
            return f"cannot be read ({error})"
        return "" if digest.hexdigest() == file.digest else "has changed since it was written"


class Cloud:
    """A dataset in an object store; its files are not verified before use, which would read them twice.

    Args:
        address: Of its folder.
    """

    def __init__(self, address: str) -> None:
        self.display_name = address
        self._address = address.rstrip("/")

    def manifest(self) -> bytes:
        """Read the manifest, as `Folder.manifest`."""
        address = self.address(MANIFEST)
        # Without a region Polars determines it, with a warning that contains code.
        warnings.filterwarnings("ignore", message=".*region' not set", category=UserWarning)
        try:
            lines = pl.scan_lines(address, glob=False, storage_options=FAST_FAIL_OPTIONS).head(1).collect()
        except UNREADABLE as error:
            scheme = self._address.partition("://")[0]
            raise ProftuiError(
                f"{address}: cannot be read ({first_line(error)})",
                f"check that proftui convert wrote a dataset there, and set {CLOUDS[scheme]}",
            ) from error
        text = "".join(lines.to_series().to_list())
        if len(text) > MAX_BYTES:
            raise ProftuiError(f"{self.display_name}: the manifest is too large to be valid")
        return text.encode()

    def address(self, name: str) -> str:
        """Return the address of a file, as `Folder.address`."""
        return f"{self._address}/{name}"

    def problem(self, name: str, file: PartFile) -> str:
        """Return an empty text: damage is detected when the file is read."""
        return ""


Store = Folder | Cloud


def is_dataset(path: Path) -> bool:
    """Return whether a folder is a dataset, finished or not."""
    return os.path.isfile(path / MANIFEST) or os.path.isdir(path / PARTS)  # noqa: PTH112, PTH113


def dataset_manifest(store: Store) -> tuple[Manifest, bytes]:
    """Return the manifest of a dataset, and its bytes.

    Raises:
        ProftuiError: The manifest is missing, damaged, of another layout, or in a folder whose name is no valid text.
    """
    if isinstance(store, Folder) and not Path(store.address(MANIFEST)).exists():
        raise ProftuiError(
            f"{store.display_name}: incomplete dataset", "run the same proftui convert again to complete it"
        )
    if path_text(store.display_name) != store.display_name:
        raise ProftuiError(
            f"{store.display_name}: the name of a dataset folder must be valid text", "rename the folder"
        )
    body = store.manifest()
    try:
        header = msgspec.json.decode(body, type=Layout)
        if header.layout != LAYOUT:
            raise ProftuiError(
                f"{store.display_name}: written by proftui {header.program[:40]}, "
                "in a layout that this version cannot read",
                "open it with that version, or convert the files again",
            )
        return msgspec.json.decode(body, type=Manifest), body
    except UNDECODABLE as error:
        raise ProftuiError(f"{store.display_name}: damaged manifest ({error})") from error


_MIN_CHECKED_ROWS: Final = 1 << 20
_MAX_ROWS_PER_BYTE: Final = 16
"""The maximum number of rows per byte that compression reaches; a file that claims more is damaged."""


class DamagedPartError(Exception):
    """A part is invalid, or differs from what was written.

    Args:
        part: Its name.
        problem: What is wrong.
    """

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"{part}: {problem}")
        self.part = part
        self.problem = problem


def sorted_files(part: DatasetPart) -> list[PartFile]:
    """Return the files of a part: frames that others refer to first, runs in order."""
    first_frames = ("sessions", "devices", "ops", "activities")
    positions = {
        name: position
        for position, name in enumerate((*first_frames, *(name for name in FRAMES if name not in first_frames)))
    }
    return sorted(part.files, key=lambda file: (positions[file.frame], file.run))


def check_part(store: Store, part: DatasetPart) -> None:
    """Check that the files of a part exist and are those that were written.

    Raises:
        DamagedPartError: A file is missing or differs.
    """
    if problem := part_problem(part):
        raise DamagedPartError(part.name, problem)
    for file in part.files:
        name = part_file_path(part, file)
        if problem := store.problem(name, file):
            raise DamagedPartError(part.name, f"{name} {problem}")
        if file.rows > max(_MIN_CHECKED_ROWS, _MAX_ROWS_PER_BYTE * file.size):
            raise DamagedPartError(part.name, f"{name} claims {file.rows:,} rows in {file.size:,} bytes")


Starts = dict[int, tuple[int, int]]
"""The first and the last start of each session, by its number in the part."""


def batches(store: Store, part: DatasetPart, file: PartFile, starts: Starts) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file in order, about one row group at a time.

    Args:
        store: The dataset.
        part: The part that the file is of.
        file: The file.
        starts: Of the files of the part that were read before; those of this file are added.

    Raises:
        DamagedPartError: The file does not match the manifest, or has invalid values.
    """
    name = part_file_path(part, file)
    try:
        # Paths are literal: no glob patterns, no columns from ``key=value`` folders.
        scan = pl.scan_parquet(store.address(name), glob=False, hive_partitioning=False)
        schema = scan.collect_schema()
        if unknown_columns := [name for name, dtype in schema.items() if FRAMES[file.frame].get(name) != dtype]:
            raise DamagedPartError(part.name, f"{name} has an unknown column: {unknown_columns[0][:40]}")
        if (rows := scan.select(pl.len()).collect().item()) != file.rows:
            raise DamagedPartError(part.name, f"{name} has {rows:,} rows, not {file.rows:,}")
        validation = _Validation(part, file, starts)
        for offset in range(0, rows, ROW_GROUP_ROWS):
            data = conform(file.frame, scan.slice(offset, ROW_GROUP_ROWS).collect())
            if data.height != min(ROW_GROUP_ROWS, rows - offset):
                raise DamagedPartError(part.name, f"{name} is truncated")
            if problem := validation.problem(data):
                raise DamagedPartError(part.name, f"{name} {problem}")
            yield data
    except UNREADABLE as error:
        raise DamagedPartError(part.name, f"{name} cannot be read ({first_line(error)})") from error


_MAX_START_NS: Final = 1 << 62
"""The latest start, to which a duration can be added."""


class _Validation:
    """Checks the values of a file, batch by batch."""

    def __init__(self, part: DatasetPart, file: PartFile, starts: Starts) -> None:
        self._part = part
        self._frame = file.frame
        # Only times that have durations are held together when a file is read.
        self._starts = starts if "duration_ns" in FRAMES[file.frame] else {}

    def problem(self, data: pl.DataFrame) -> str:
        """Return why further rows are invalid; empty if they are valid."""
        session = data["session"]
        largest = session.max()
        if (isinstance(largest, int) and largest >= self._part.sessions) or (
            session.null_count() and self._frame != "issues"
        ):
            return "has rows of an unknown session"
        if self._frame == "sessions" and session.n_unique() < data.height:
            return "lists a session twice"
        if self._frame == "devices" and data.select("session", "device").is_duplicated().any():
            return "lists a GPU twice"
        for column in OP_COLUMNS.get(self._frame, ()):
            largest = data[column].max()
            if isinstance(largest, int) and largest >= self._part.rows.get("ops", 0):
                return "has rows of an unknown op"
        max_ns = MAX_SUM_NS if self._frame == "summary" else MAX_NS
        columns = DURATIONS.get(self._frame, ())
        if columns and not all(data.select(pl.col(columns).is_between(0, max_ns).all()).row(0)):
            return "has impossible times"
        if self._frame == "activities" and not set(data["kind"].unique()) <= set(KINDS):
            return "has GPU work of an unknown kind"
        return "has times that are too far apart" if self._is_far_apart(data) else ""

    def _is_far_apart(self, data: pl.DataFrame) -> bool:
        if "start_ns" not in data.columns:
            return False
        start = pl.col("start_ns")
        for session, earliest, latest in (
            data.drop_nulls("start_ns").group_by("session").agg(start.min(), start.max().alias("last")).iter_rows()
        ):
            known_range = self._starts.get(session, (earliest, latest))
            self._starts[session] = min(earliest, known_range[0]), max(latest, known_range[1])
        return any(
            latest - earliest > 2 * MAX_NS or max(latest, -earliest) > _MAX_START_NS
            for earliest, latest in self._starts.values()
        )


IN_MEMORY_BYTES: Final = 256 << 20
"""Frames up to this size are read into memory."""

_NO_TEXT: Final = "datasets do not include the lines of a log; open the log to read them"

Add = Callable[[str, pl.DataFrame], None]


class DatasetLoader:
    """Reads datasets of ``proftui convert``; a folder is not recognized by first bytes."""

    formats: Final = (
        Format(
            name="proftui-dataset",
            title="Parquet dataset (proftui convert)",
            recognized_by=f"a folder, or an s3://, gs:// or az:// address, with {MANIFEST}",
            feeds=tuple(FRAMES),
            record_with="proftui convert FILE... -o DIR",
        ),
    )

    def probe(self, head: bytes, name: str) -> float:
        """Return 0: no single file of a dataset is a profile."""
        return 0.0

    def load(self, source: InputFile, on_progress: ProgressCallback = keep_going) -> Profile:
        """Refuse a single file of a dataset.

        Raises:
            ProftuiError: Always: the folder must be named.
        """
        raise ProftuiError(f"{source.display_name}: not a dataset", "open the folder that proftui convert wrote")

    def load_folder(
        self, path: str, on_progress: ProgressCallback = keep_going, cache: ProfileCache | None = None
    ) -> Profile:
        """Read a dataset.

        Args:
            path: Its folder or address.
            on_progress: Gets the progress; if it returns False, loading stops and the profile is partial.
            cache: The cache of profiles; None: neither read nor written.

        Returns:
            Its sessions, in the order of its parts; damaged parts become issues.

        Raises:
            ProftuiError: It cannot be read, or no part of it can.
        """
        store = Cloud(path) if is_address(path) else Folder(path)
        manifest, body = dataset_manifest(store)
        fingerprint = file_fingerprint(store.address(MANIFEST))
        if fingerprint is None:
            # An address has no inode or times: only the manifest's content identifies it.
            digest = hashlib.sha256(body).hexdigest()
            fingerprint = FileFingerprint(os.fsencode(store.address(MANIFEST)).hex(), 0, 0, len(body), 0, 0, digest)
        return _DatasetReader(store, manifest, on_progress).profile(fingerprint, cache)


class _DatasetReader:
    """One opening of a dataset."""

    def __init__(self, store: Store, manifest: Manifest, on_progress: ProgressCallback) -> None:
        self._store = store
        self._on_progress = on_progress
        self._damaged: list[DamagedPartError] = []
        self._parts: list[DatasetPart] = []
        self._stopped_pct = 0
        self._is_whole = True
        for part in manifest.parts:
            try:
                check_part(store, part)
                self._parts.append(part)
            except DamagedPartError as error:
                self._damaged.append(error)

    def profile(self, fingerprint: FileFingerprint, cache: ProfileCache | None) -> Profile:
        while True:
            if not self._parts:
                reason = f": {self._damaged[0]}" if self._damaged else ""
                raise ProftuiError(f"{self._store.display_name}: no part of the dataset can be read{reason}")
            try:
                frames = self._frames(fingerprint, cache)
            except DamagedPartError as error:
                # Rows of the damaged part may be among those read: read again without it.
                self._damaged.append(error)
                self._parts = [part for part in self._parts if part.name != error.part]
            else:
                break
        issues = pl.concat([frames["issues"], self._issues()])
        partial = f"stopped at {self._stopped_pct}%" if self._stopped_pct else ""
        return Profile({**frames, "issues": issues}, (path_text(self._store.display_name),), {}, partial)

    def _frames(self, fingerprint: FileFingerprint, cache: ProfileCache | None) -> Mapping[str, pl.DataFrame]:
        rows = {name: sum(part.rows.get(name, 0) for part in self._parts) for name in FRAMES}
        if any(count >= 1 << 32 for count in rows.values()):
            raise ProftuiError(f"{self._store.display_name}: more than 4 billion rows, the limit", "open parts of it")
        size = sum(bytes_of(rows[name], dtype) for name, schema in FRAMES.items() for dtype in schema.dtypes())
        if size <= IN_MEMORY_BYTES:
            chunks: dict[str, list[pl.DataFrame]] = {}
            self._add_rows(lambda frame, data: chunks.setdefault(frame, []).append(data))
            return {name: pl.concat(chunks[name], rechunk=True) if name in chunks else empty(name) for name in FRAMES}

        def fill(spool: FrameSpool) -> bool:
            self._add_rows(spool.add)
            return not self._damaged and not self._stopped_pct

        if cache is None or self._damaged:
            return spool_frames(rows, fill)
        return cache.large_frames(self._store.display_name, fingerprint, rows, fill)

    def _add_rows(self, add: Add) -> None:
        """Add the rows of all parts, with sessions, activities and ops numbered over all of them."""
        total = sum(file.size for part in self._parts for file in part.files)
        bytes_read = rows_read = sessions = activities = ops = 0
        for part in self._parts:
            activity = activities
            starts: Starts = {}
            for file in sorted_files(part):
                for data in batches(self._store, part, file, starts):
                    changes = [(pl.col("session") + sessions).cast(pl.UInt32)]
                    changes += [(pl.col(name) + ops).cast(pl.UInt32) for name in OP_COLUMNS.get(file.frame, ())]
                    if file.frame == "activities":
                        # These frames are numbered by row.
                        numbers = pl.int_range(activity, activity + data.height, dtype=pl.UInt32)
                        changes.append(numbers.alias("activity"))
                        activity += data.height
                    add(file.frame, data.with_columns(changes))
                    rows_read += data.height
                    bytes_read += file.size * data.height // file.rows
                    if not self._on_progress(LoadProgress(self._store.display_name, bytes_read, total, rows_read)):
                        self._stopped_pct = max(1, 100 * bytes_read // max(1, total))
                        return
            sessions += part.sessions
            activities += part.rows.get("activities", 0)
            ops += part.rows.get("ops", 0)

    def _issues(self) -> pl.DataFrame:
        rows: list[dict[str, object]] = [
            {"severity": "error", "text": error.part, "reason": f"part of the dataset skipped: {error.problem}"}
            for error in self._damaged
        ]
        session = 0
        for part in self._parts:
            if part.has_text:
                rows.append({"session": session, "severity": "info", "text": part.source, "reason": _NO_TEXT})
            session += part.sessions
        return conform("issues", pl.DataFrame(rows, infer_schema_length=None)) if rows else empty("issues")


DATASET: Final = DatasetLoader()
