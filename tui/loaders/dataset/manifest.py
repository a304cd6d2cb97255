"""The manifest of a Parquet dataset, and the folder or object store that holds it.

::

    DIR/proftui-dataset.json                            the manifest, written last
    DIR/proftui-parts/PART.json                         a part: what came of one input, written after its files
    DIR/activities/rank=0/part-PART.0.parquet           rows of a frame, of one rank
    DIR/sessions/rank=__HIVE_DEFAULT_PARTITION__/...    those of sessions without a rank

The rows of a part whose neighboring sessions have the same rank are one file, a *run*; the runs of a part one after
the other are its frame, with sessions, activities and ops numbered from 0 within the part. A file that neither the
manifest nor a part names does not belong to the dataset.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Final

import msgspec
import polars as pl
import xxhash

from tui.model.errors import ProftuiError, path_text
from tui.model.schema import FRAMES

LAYOUT: Final = 1
"""Another for datasets that are laid out otherwise."""

MANIFEST: Final = "proftui-dataset.json"
PARTS: Final = "proftui-parts"
"""The folder of what tells of each part; it is there before the manifest is."""

WITHOUT_RANK: Final = "__HIVE_DEFAULT_PARTITION__"
"""What readers of partitioned folders take for null."""

ROW_GROUP_ROWS: Final = 1 << 17
"""Rows that a reader can pass over at once, by the smallest and largest value of each column that stand before them.

Files are sorted by session and time, so a stretch of time is a few neighboring groups: about a second of a busy GPU
each. Smaller ones would pack worse (each has dictionaries of its own), and of larger ones more is read than is used.
"""

MOST_BYTES: Final = 256 << 20
"""A larger manifest was not written by this program: it has about a kilobyte for each part."""

PART_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
RANK_NAME: Final = re.compile(rf"rank=([0-9]{{1,10}}|{WITHOUT_RANK})")


class PartFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a part: the rows that one frame has of a run of sessions."""

    frame: str
    rank: int | None
    run: int
    """Its place among the runs of the part, from 0."""
    rows: int
    size: int
    digest: str
    """XXH3 of its bytes, of 128 bits."""


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of one input."""

    name: str
    source: str
    """The input, as it was given."""
    size: int | None
    """Its bytes; None of what has no size (a pipe)."""
    modified_ns: int | None
    digest: str | None
    """Of its first and last 64 KiB, or of the names, sizes and times of a folder's files."""
    format_in: str | None
    """The format that it was to be read as, where that was not to be recognized."""
    program: str
    """The version of proftui that read it."""
    formats: tuple[str, ...]
    sessions: int
    rows: dict[str, int]
    """Of each frame that is not empty."""
    has_text: bool
    """Whether the input is a text, whose lines the dataset does not hold."""
    files: tuple[PartFile, ...]


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a dataset holds."""

    layout: int
    program: str
    """The version of proftui that wrote it."""
    sessions: int
    formats: tuple[str, ...]
    rows: dict[str, int]
    """Of each frame that is not empty, over all parts."""
    parts: tuple[Part, ...]


class Layout(msgspec.Struct, frozen=True):
    """Of a manifest of any version, the part that never changes."""

    layout: int
    program: str


def path_of(part: Part, file: PartFile) -> str:
    """Where a file of a part lies in the dataset.

    >>> file = PartFile("ops", 3, 0, 10, 100, "")
    >>> path_of(Part("a-1", "a", 1, 1, "", None, "1", (), 1, {}, False, (file,)), file)
    'ops/rank=3/part-a-1.0.parquet'
    """
    rank = WITHOUT_RANK if file.rank is None else file.rank
    return f"{file.frame}/rank={rank}/part-{part.name}.{file.run}.parquet"


def faults(part: Part) -> str:
    """What of a part cannot be, in words; empty where nothing is: no path leaves the folder, all rows are told of."""
    if not PART_NAME.fullmatch(part.name):
        return "has an impossible name"
    if not {file.frame for file in part.files} <= set(FRAMES):
        return "has a frame that no profile has"
    if any(file.rows <= 0 or file.run < 0 or (file.rank is not None and file.rank < 0) for file in part.files):
        return "has files with impossible numbers"
    if len({(file.frame, file.run) for file in part.files}) < len(part.files):
        return "has a file twice"
    rows: dict[str, int] = {}
    for file in part.files:
        rows[file.frame] = rows.get(file.frame, 0) + file.rows
    if rows != part.rows or part.sessions != rows.get("sessions") or max(rows.values()) >= 1 << 32:
        return "counts rows that its files do not have"
    return ""


CLOUDS: Final = {
    "s3": "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION (and AWS_ENDPOINT_URL of a store of your own)",
    "gs": "GOOGLE_SERVICE_ACCOUNT, or gcloud auth application-default login",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
"""The addresses that are opened, and what lets Polars in."""

UNREADABLE: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError)
"""What Polars raises where a file is not what its footer says, or is not to be had."""

UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What a manifest raises that is none."""

FIRST_ANSWER: Final = {"max_retries": 2, "retry_timeout_ms": 3000, "connect_timeout": "2s"}
"""A store that does not answer is soon told of; once it has answered, Polars asks again for as long as it will."""

_BLOCK: Final = 1 << 20


def is_address(path: str) -> bool:
    """Whether a path is an address of an object store.

    >>> is_address("s3://bucket/run"), is_address("run/s3:"), is_address("/data/run")
    (True, False, False)
    """
    scheme, separator, rest = path.partition("://")
    return bool(separator and rest) and scheme in CLOUDS


class Folder:
    """A dataset on a disk.

    Args:
        path: Its folder.
    """

    def __init__(self, path: str) -> None:
        self.called = path
        self._path = Path(path)

    def manifest(self) -> bytes:
        """The manifest as it stands.

        Raises:
            ProftuiError: It cannot be read, or is too large.
        """
        file = self._path / MANIFEST
        try:
            if file.stat().st_size > MOST_BYTES:
                raise ProftuiError(f"{self.called}: the manifest is larger than any that proftui writes")
            return file.read_bytes()
        except OSError as error:
            raise ProftuiError(f"{file}: {(error.strerror or str(error)).lower()}") from error

    def address(self, name: str) -> str:
        """What Polars reads a file by."""
        return str(self._path / name)

    def fault(self, name: str, file: PartFile) -> str:
        """Why a file is not the one that was written; empty where it is."""
        path = self._path / name
        try:
            if not path.resolve().is_relative_to(self._path.resolve()):
                return "lies outside the folder"
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
    """A dataset in an object store; its files are read as they are: to prove them would be to read them twice.

    Args:
        address: Of its folder.
    """

    def __init__(self, address: str) -> None:
        self.called = address
        self._address = address.rstrip("/")

    def manifest(self) -> bytes:
        """As `Folder.manifest`."""
        address = self.address(MANIFEST)
        # Where no region is set Polars finds it out, and says so with lines of code.
        warnings.filterwarnings("ignore", message=".*region' not set", category=UserWarning)
        try:
            lines = pl.scan_lines(address, glob=False, storage_options=FIRST_ANSWER).head(1).collect()
        except UNREADABLE as error:
            scheme = self._address.partition("://")[0]
            raise ProftuiError(
                f"{address}: cannot be read ({first_line(error)})",
                f"is there a dataset of proftui convert? the way in: {CLOUDS[scheme]}",
            ) from error
        text = "".join(lines.to_series().to_list())
        if len(text) > MOST_BYTES:
            raise ProftuiError(f"{self.called}: the manifest is larger than any that proftui writes")
        return text.encode()

    def address(self, name: str) -> str:
        """As `Folder.address`."""
        return f"{self._address}/{name}"

    def fault(self, name: str, file: PartFile) -> str:
        """As `Folder.fault`: what is wrong shows when it is read."""
        return ""


Store = Folder | Cloud


def is_dataset(path: Path) -> bool:
    """Whether a folder is a dataset, or one that was begun."""
    return os.path.isfile(path / MANIFEST) or os.path.isdir(path / PARTS)  # noqa: PTH112, PTH113


def manifest_of(store: Store) -> tuple[Manifest, bytes]:
    """The manifest of a dataset, and its bytes.

    Raises:
        ProftuiError: There is none, it is damaged, of another layout, or in a folder that Polars cannot name.
    """
    if isinstance(store, Folder) and not Path(store.address(MANIFEST)).exists():
        raise ProftuiError(
            f"{store.called}: the dataset was not finished", "the same proftui convert again completes it"
        )
    if path_text(store.called) != store.called:
        raise ProftuiError(f"{store.called}: the name of a dataset's folder must be text", "rename the folder")
    body = store.manifest()
    try:
        known = msgspec.json.decode(body, type=Layout)
        if known.layout != LAYOUT:
            raise ProftuiError(
                f"{store.called}: a dataset of proftui {known.program[:40]}, in a layout that this version does "
                "not know",
                "open it with that version, or convert the files again",
            )
        return msgspec.json.decode(body, type=Manifest), body
    except UNDECODABLE as error:
        raise ProftuiError(f"{store.called}: the manifest of the dataset is damaged ({error})") from error


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
