"""Where a dataset lies: a folder, or an address of an object store that Polars reads."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl
import xxhash

from tui.loaders.dataset.manifest import LAYOUT, MANIFEST, MOST_BYTES, PARTS, Layout, Manifest
from tui.model.errors import ProftuiError
from tui.model.readable import readable

if TYPE_CHECKING:
    from tui.loaders.dataset.manifest import PartFile

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
    if readable(store.called) != store.called:
        raise ProftuiError(f"{store.called}: the name of a dataset's folder must be text", "rename the folder")
    body = store.manifest()
    try:
        known = msgspec.json.decode(body, type=Layout)
        if known.layout != LAYOUT:
            raise ProftuiError(
                f"{store.called}: a dataset of proftui {known.program[:40]}, laid out as this version does not know",
                "open it with that version, or convert the files again",
            )
        return msgspec.json.decode(body, type=Manifest), body
    except UNDECODABLE as error:
        raise ProftuiError(f"{store.called}: the manifest of the dataset is damaged ({error})") from error


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
