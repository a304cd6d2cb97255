"""Kernels in the order in which a stream ran them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from tui.analysis.gpu_time.communication import WorkKind, work_kinds
from tui.analysis.gpu_time.timelines import timelines

if TYPE_CHECKING:
    import numpy.typing as npt

    from tui.model.profile import Profile

    Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class KernelSequence:
    """The kernels and whole CUDA graphs of one stream, by start."""

    rows: Ints
    """The row of each in ``activities``."""
    names: npt.NDArray[np.uint32]
    """A number for each name; of kernels without a name the largest."""
    starts: Ints
    ends: Ints
    talks: npt.NDArray[np.bool_]
    """Which of them communicate."""


def kernel_sequences(profile: Profile) -> list[KernelSequence]:
    """One for each stream of each GPU that ran kernels whose times are known."""
    activities, kinds = profile["activities"], work_kinds(profile)
    codes = activities["name"].to_physical().fill_null(np.iinfo(np.uint32).max).to_numpy()
    found = []
    for line in timelines(profile):
        kind = kinds[line.rows]
        for place in _by_stream(line.rows, activities["stream"], kind <= WorkKind.COMMUNICATION):
            rows = line.rows[place]
            found.append(
                KernelSequence(
                    rows, codes[rows], line.starts[place], line.ends[place], kind[place] == WorkKind.COMMUNICATION
                )
            )
    return found


def _by_stream(rows: Ints, streams: pl.Series, chosen: npt.NDArray[np.bool_]) -> list[Ints]:
    """The places of the chosen rows, those of each stream together, in order."""
    places = np.flatnonzero(chosen)
    if not len(places):
        return []
    named = streams.gather(pl.Series(rows[places]))
    if named.n_unique() == 1:
        return [places]
    parts = pl.DataFrame({"stream": named, "place": places}).partition_by("stream", maintain_order=True)
    return [part["place"].to_numpy() for part in parts]
