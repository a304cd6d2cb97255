"""The interfaces of a loader and of the cache, and what a loader declares of its format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tui.loaders.progress import keep_going

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from tui.cache.entry import Identity
    from tui.cache.frame_files import FrameSpool
    from tui.loaders.progress import Report
    from tui.loaders.source import Source
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Format:
    """The description of a format, for `proftui formats` and the README."""

    name: str
    """The value of ``sessions.format`` and of ``--format-in``, as ``nvprof-text``."""

    title: str
    """The name for people, as ``nvprof text output``."""

    recognized_by: str
    """The content by which it is recognized."""

    feeds: tuple[str, ...]
    """Frames of the model that it fills."""

    record_with: str
    """A command that records it."""


class ProfileCache(Protocol):
    """The cache of profiles, as loaders see it."""

    def profile(self, path: str, format_in: str | None, load: Callable[[], Profile]) -> Profile:
        """The profile of a file, from the cache or from ``load``.

        Args:
            path: The file.
            format_in: The name of the format, if the user chose it.
            load: Reads the file; its exceptions are passed on.
        """

    def large(
        self, path: str, identity: Identity, rows: Mapping[str, int], fill: Callable[[FrameSpool], bool]
    ) -> Mapping[str, pl.DataFrame]:
        """The frames of an input larger than memory, mapped from the cache or from a new spool.

        Args:
            path: The input.
            identity: The fingerprint of its content.
            rows: The maximum number of rows of each frame.
            fill: Adds the rows; its exceptions are passed on. It returns whether the input is complete.
        """


class Loader(Protocol):
    """Reads files of one kind (text, database, JSON document) into a profile."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats that this loader recognizes."""

    def probe(self, head: bytes, name: str) -> float:
        """Its confidence, 0 to 1, that it can read an input with these first bytes (64 KiB, decompressed)."""

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read the input.

        Raises:
            ProftuiError: The input holds no profile that can be read.
        """
