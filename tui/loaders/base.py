"""What a loader is, what it declares of its format, and how it reports progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import polars as pl

    from tui.cache.identity import Identity
    from tui.cache.spool import Spool
    from tui.loaders.preview import SoFar
    from tui.loaders.source import Source
    from tui.model.profile import Profile


@dataclass(frozen=True, slots=True)
class Format:
    """What `proftui formats` and the README say of one format."""

    name: str
    """The value of ``sessions.format`` and of ``--format-in``, as ``nvprof-text``."""

    title: str
    """What people call it, as ``nvprof text output``."""

    recognised_by: str
    """What in the content gives it away."""

    feeds: tuple[str, ...]
    """Frames of the model that it fills."""

    record_with: str
    """A command that records it."""


WAITING, READING, DONE, LEFT_OUT, STOPPED = "waiting", "reading", "done", "left out", "not read"
"""How far one of several files can be: left out are those that cannot be read and those that hold no profile, not read
those that were waiting when the reading was stopped."""


@dataclass(frozen=True, slots=True)
class FileProgress:
    """How far one of several files has come."""

    path: str
    bytes_total: int
    """As it lies on the disk."""
    state: str = WAITING
    """One of the five above."""
    bytes_read: int = 0
    rank: int | None = None
    """Of what was read of it, once that is known."""
    why: str = ""
    """Why it is left out."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a loader has come."""

    source: str
    """The path as given."""
    bytes_read: int
    """Of the input as it lies on the disk, compressed or not."""
    bytes_total: int | None
    """Size of the file; None where there is none (a pipe)."""
    rows: int
    """How many have been read, over all frames."""
    so_far: SoFar | None = None
    """What they hold, where the loader can tell before it has come to the end."""
    files: Sequence[FileProgress] = ()
    """Each of several files, in the order in which they are shown; the figures above are then of all together."""


Report = Callable[[LoadProgress], bool]
"""Told of progress at most a few times a second; returns False to stop: the loader then keeps what it has."""


def keep_going(_progress: LoadProgress) -> bool:
    """A `Report` that never stops a loader."""
    return True


class Kept(Protocol):
    """What was read of files before."""

    def profile(self, path: str, format_in: str | None, load: Callable[[], Profile]) -> Profile:
        """The profile of a file, as it was kept or as ``load`` reads it.

        Args:
            path: The file.
            format_in: The name of the format to read it as, where that is not to be recognised.
            load: Reads it; what it raises is raised.
        """

    def large(
        self, path: str, identity: Identity, rows: Mapping[str, int], fill: Callable[[Spool], bool]
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
