"""The repeating pattern in a sequence of launches: how long it is, where it begins and ends, how well it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

WINDOW: Final = 1 << 18
"""The pattern is looked for in so many launches of the middle, and then followed to both ends."""

LEAST_PERIOD: Final = 2
"""One kernel again and again is no pattern."""

LEAST_MATCH: Final = 0.5
"""Of all launches, warm-up and tail among them, so many are followed by the same kernel one pattern later."""

LEAST_ROUNDS: Final = 3
LONG_PERIOD: Final = 32
"""Two rounds are a repetition where they are long; short ones must come three times."""

_EXACT: Final = 8
_PROJECTIONS: Final = 4
_LIKELY: Final = 16
_CLOSE: Final = 0.02
"""A pattern that matches nearly as well as the best and is shorter is the pattern; the best is a multiple of it."""
_TRIED: Final = 256
_LEAST_HELD: Final = 0.95
"""Where more than a twentieth of one pattern differs from the next, the repetition has not begun or is over."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """A pattern of launches that repeats; positions are those in the sequence."""

    period: int
    """Launches of one repetition."""
    first: int
    """Position of the first launch of the first whole repetition."""
    count: int
    """Whole repetitions."""
    match: float
    """Share of the launches in them that are the same kernel one repetition later."""
    gap_ns: int
    """Median idle time before the first launch of a repetition."""
    held_from: int
    """Position from which the pattern holds: what lies before is warm-up, and from there to `first` the rest of a
    repetition that was not recorded from its beginning."""

    @property
    def boundaries(self) -> Ints:
        """Where each whole repetition begins, and where the last ends."""
        return self.first + self.period * np.arange(self.count + 1)


def find_repetition(codes: Ints, start: Ints, end: Ints) -> Repetition | None:
    """Find the pattern that a sequence of launches repeats.

    The length is the lag at which most launches are followed by the same kernel (autocorrelation). Where the pattern
    holds to the end of the recording, the last repetition ends there: a recording can begin in the middle of a step,
    but the GPU finishes the work that it was given. Elsewhere a repetition begins, of the places that leave most whole
    ones, where the GPU idles longest before: there the program comes round to its next step.

    Args:
        codes: What was launched, as numbers from 0, in order of start.
        start: When each launch began, ns.
        end: When each ended, ns.

    Returns:
        The repetition, or None where there is none.
    """
    middle = codes[max(0, (len(codes) - WINDOW) // 2) :][:WINDOW]
    period = _period(middle)
    if period is None:
        return None
    low, high = _held(codes, period)
    rounds = (high - low) // period
    if rounds < (LEAST_ROUNDS if period < LONG_PERIOD else 2):
        return None
    gaps = start.copy()
    gaps[0] = 0
    gaps[1:] -= np.maximum.accumulate(end)[:-1]
    spare = min(high - low - rounds * period, period - 1)
    by_place = np.median(gaps[low : low + rounds * period].reshape(rounds, period)[:, : spare + 1], axis=0)
    place = spare if high == len(codes) else int(np.argmax(by_place))
    first = low + place
    stretch = codes[first : first + rounds * period]
    match = float(np.mean(stretch[period:] == stretch[:-period]))
    return Repetition(period, first, rounds, match, int(by_place[place]), low)


def _period(codes: Ints) -> int | None:
    """The shortest lag at which the sequence is like itself, or None."""
    n = len(codes)
    longest = n // 2
    if longest < LEAST_PERIOD or codes.min() == codes.max():
        return None
    scores = _likeness(codes)[: longest + 1]
    scores[:LEAST_PERIOD] = -np.inf
    likely = np.argsort(-scores, kind="stable")[:_LIKELY].tolist()
    best, best_lag = max((_match(codes, lag), -lag) for lag in likely if lag >= LEAST_PERIOD)
    if best < LEAST_MATCH:
        return None
    # The likeness is an estimate: what may be as good as the best is looked at itself, the shortest first.
    for lag in np.flatnonzero(scores >= best - 5 * _CLOSE)[:_TRIED].tolist():
        if _match(codes, lag) >= best - _CLOSE:
            return int(lag)
    return int(-best_lag)


def _likeness(codes: Ints) -> npt.NDArray[np.float64]:
    """For each lag about the share of launches that are followed by the same kernel so many launches later.

    Of the most frequent kernels the share is exact: the autocorrelation of where each one is. Of the others each gets a
    random sign; the autocorrelation of the signs, averaged over several draws, comes to the share, since different
    kernels cancel out.
    """
    n = len(codes)
    counts = np.bincount(codes)
    frequent = np.argsort(-counts, kind="stable")[:_EXACT]
    size = 1 << (2 * n - 1).bit_length()
    power = np.zeros(size // 2 + 1)
    for code in frequent.tolist():
        power += np.abs(np.fft.rfft((codes == code).astype(np.float64), size)) ** 2
    if len(counts) > _EXACT:
        draws = np.random.default_rng(0)
        for _ in range(_PROJECTIONS):
            signs = draws.choice([-1.0, 1.0], len(counts))
            signs[frequent] = 0
            power += np.abs(np.fft.rfft(signs[codes], size)) ** 2 / _PROJECTIONS
    likeness: npt.NDArray[np.float64] = np.fft.irfft(power, size)[:n] / (n - np.arange(n))
    return likeness


def _match(codes: Ints, lag: int) -> float:
    return float(np.mean(codes[lag:] == codes[:-lag]))


def _held(codes: Ints, period: int) -> tuple[int, int]:
    """The first and the last position (exclusive) between which the pattern holds, less warm-up and tail."""
    same = np.concatenate(([0], np.cumsum(codes[period:] == codes[:-period])))
    held = same[period:] - same[:-period] >= _LEAST_HELD * period
    places = np.flatnonzero(held)
    if not len(places):
        return 0, 0
    low, high = int(places[0]), int(places[-1]) + 2 * period
    # The launches around the ends count as long as they are the same.
    while low > 0 and codes[low - 1] == codes[low - 1 + period]:
        low -= 1
    while high < len(codes) and codes[high] == codes[high - period]:
        high += 1
    return low, high
