"""Kernels in the order in which a stream ran them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.gpu_time.interval_sets import FEW_STREAMS, distinct_values
from tui.analysis.gpu_time.timelines import WorkKind, timelines, work_kinds

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.analysis.gpu_time.timelines import Timeline
    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KernelSequence:
    """The kernels and whole CUDA graphs of one stream, by start; what rules ask of them is taken out when they do."""

    line: Timeline
    """All work of the GPU."""
    places: Ints
    """Where they are in it."""
    names_of_all: npt.NDArray[np.uint32]
    """A number for the name of each row of ``activities``; of rows without a name the largest."""
    kinds_of_all: npt.NDArray[np.int8]
    """The `WorkKind` of each row."""

    def __len__(self) -> int:
        return len(self.places)

    def part(self, places: slice) -> KernelSequence:
        """Some of them that follow each other."""
        return replace(self, places=self.places[places])

    @property
    def first_row(self) -> int:
        """The row of the first one in ``activities``."""
        return int(self.line.rows_at(self.places[:1])[0])

    @cached_property
    def rows(self) -> Ints:
        """The row of each in ``activities``."""
        found: Ints = self.line.rows_at(self.places)
        return found

    @cached_property
    def names(self) -> npt.NDArray[np.uint32]:
        """A number for each name; of kernels without a name the largest."""
        return self.line.of(self.names_of_all)[self.places]

    @cached_property
    def starts(self) -> Ints:
        """When each began."""
        found: Ints = self.line.starts[self.places]
        return found

    @cached_property
    def ends(self) -> Ints:
        """When each ended."""
        found: Ints = self.line.ends[self.places]
        return found

    @cached_property
    def talks(self) -> npt.NDArray[np.bool_]:
        """Which of them communicate."""
        found: npt.NDArray[np.bool_] = self.line.of(self.kinds_of_all)[self.places] == WorkKind.COMMUNICATION
        return found


def kernel_sequences(profile: Profile) -> list[KernelSequence]:
    """One for each stream of each GPU that ran kernels whose times are known."""
    activities, kinds = profile["activities"], work_kinds(profile)
    codes = activities["name"].to_physical().fill_null(np.iinfo(np.uint32).max).to_numpy()
    return [
        KernelSequence(line, places, codes, kinds)
        for line in timelines(profile)
        for places in _by_stream(line, activities["stream"], line.of(kinds) <= WorkKind.COMMUNICATION)
    ]


def _by_stream(line: Timeline, streams: pl.Series, chosen: npt.NDArray[np.bool_]) -> list[Ints]:
    """The places of the chosen work, that of each stream together, in order; the stream that is first comes first."""
    if not streams.null_count():
        own = line.of(streams.to_numpy())
        found = list(islice(distinct_values(own, chosen), FEW_STREAMS + 1))
        if len(found) <= FEW_STREAMS:
            return [np.flatnonzero(chosen & (own == stream)) for stream in found]
    places = np.flatnonzero(chosen)
    if not len(places):
        return []
    named = streams.gather(pl.Series(line.rows_at(places)))
    parts = pl.DataFrame({"stream": named, "place": places}).partition_by("stream", maintain_order=True)
    return [part["place"].to_numpy() for part in parts]
