"""The interfaces of a loader and of the cache, and what a loader declares of its format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tui.loaders.progress import keep_going

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from tui.cache.fingerprint import Identity
    from tui.cache.frame_files import FrameSpool
    from tui.loaders.progress import Report
    from tui.loaders.source import Source
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Format:
    """What `proftui formats` and the README say of one format."""

    name: str
    """The value of ``sessions.format`` and of ``--format-in``, as ``nvprof-text``."""

    title: str
    """What people call it, as ``nvprof text output``."""

    recognized_by: str
    """What in the content gives it away."""

    feeds: tuple[str, ...]
    """Frames of the model that it fills."""

    record_with: str
    """A command that records it."""


class Kept(Protocol):
    """What was read of files before."""

    def profile(self, path: str, format_in: str | None, load: Callable[[], Profile]) -> Profile:
        """The profile of a file, as it was kept or as ``load`` reads it.

        Args:
            path: The file.
            format_in: The name of the format to read it as, where that is not to be recognized.
            load: Reads it; what it raises is raised.
        """

    def large(
        self, path: str, identity: Identity, rows: Mapping[str, int], fill: Callable[[FrameSpool], bool]
    ) -> Mapping[str, pl.DataFrame]:
        """The frames of an input that memory may not hold, as they were kept or as they are filled now.

        Args:
            path: The input.
            identity: What tells its content from any other.
            rows: How many rows each frame will have at most.
            fill: Adds the rows; what it raises is raised. It returns whether what it added is all of the input.
        """


class Loader(Protocol):
    """Reads one kind of container (a text, a database, a JSON document) into a profile."""

    @property
    def formats(self) -> tuple[Format, ...]:
        """The formats that this loader can find in such a file."""

    def probe(self, head: bytes, name: str) -> float:
        """How sure it is, from 0 to 1, that it can read an input that begins with ``head`` (64 KiB, decompressed)."""

    def load(self, source: Source, report: Report = keep_going) -> Profile:
        """Read the input.

        Raises:
            ProftuiError: Nothing in it could be read as a profile.
        """
