"""A process that reads files for another one: ``python -m tui.loaders.many.worker``.

It reads orders from standard input and writes answers to standard output, each a line of JSON: for an `Order` some
`Progress` and then a `Done`, a `Failed` or a `NoProfile`. A line ``stop`` has it keep what it has of the present file.
It ends when standard input does, and takes its folder along.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import msgspec

from tui.loaders.many.parcel import Parcel, pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.loaders.base import LoadProgress

STOP: Final = b"stop"
_NICENESS: Final = 5
"""The screen comes first."""


class Order(msgspec.Struct, frozen=True):
    """A file to read."""

    path: str
    format_in: str | None
    may_be_none: bool
    """Whether it is passed over where it does not begin as a profile does."""
    folder: str
    """Where the frames go: an empty folder."""


class Progress(msgspec.Struct, frozen=True, tag=True):
    """How far it has come."""

    bytes_read: int
    rows: int


class Done(msgspec.Struct, frozen=True, tag=True):
    """The frames are in the folder."""

    parcel: Parcel


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It cannot be read."""

    message: str
    hint: str


class NoProfile(msgspec.Struct, frozen=True, tag=True):
    """It holds no profile."""


Answer = Progress | Done | Failed | NoProfile


def main() -> None:
    """Answer until standard input ends."""
    os.nice(_NICENESS)
    # The one that asked ends this one, when and as it wants.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    root, cores = Path(sys.argv[1]), int(sys.argv[2])
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may come between the answers
    orders: SimpleQueue[bytes] = SimpleQueue()
    stopped = threading.Event()

    def listen() -> None:
        for line in sys.stdin.buffer:
            if line.strip() == STOP:
                stopped.set()
            else:
                orders.put(line)
        # The other process has ended, or wants no more.
        shutil.rmtree(root, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()

    def say(answer: Answer) -> None:
        try:
            answers.write(msgspec.json.encode(answer) + b"\n")
            answers.flush()
        except OSError:
            os._exit(1)

    from tui.loaders.chrome.crew import share_cores

    share_cores(cores)
    while True:
        order = msgspec.json.decode(orders.get(), type=Order)
        say(_read(order, say, stopped))
        gc.collect()


def _read(order: Order, say: Callable[[Answer], None], stopped: threading.Event) -> Answer:
    import polars as pl

    from tui.loaders.registry import is_profile, load_one
    from tui.model.errors import ProftuiError

    def report(progress: LoadProgress) -> bool:
        say(Progress(progress.bytes_read, progress.rows))
        return not stopped.is_set()

    try:
        if order.may_be_none and not is_profile(order.path):
            return NoProfile()
        profile = load_one(order.path, format_in=order.format_in, report=report)
        return Done(pack(profile, Path(order.folder)))
    except ProftuiError as error:
        return Failed(error.message, error.hint)
    except (OSError, pl.exceptions.PolarsError) as error:
        return Failed(
            f"{order.path}: what was read of it cannot be handed over ({error})", "set TMPDIR to another place"
        )


if __name__ == "__main__":
    main()
