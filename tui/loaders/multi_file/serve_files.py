"""The function that a worker process of `tui.loaders.multi_file.reader_process` runs: it reads files on request."""

from __future__ import annotations

import gc
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import polars as pl

from tui.loaders.multi_file.reader_process import Done, Failed, NoProfile, Progress, ReadRequest, Setup, Stop, pack
from tui.loaders.raw_input import cannot_read_error
from tui.loaders.registry import is_profile, load_input
from tui.model.errors import ProftuiError
from tui.runtime import set_core_limit

if TYPE_CHECKING:
    from tui.loaders.base import LoadProgress
    from tui.loaders.multi_file.reader_process import Answer
    from tui.loaders.worker_process import Channel


def serve(channel: Channel) -> None:
    """Read files until the program ends: for each `ReadRequest` send some `Progress`, then the final answer."""
    setup: Setup = channel.receive()
    set_core_limit(setup.cores)
    requests: SimpleQueue[ReadRequest] = SimpleQueue()
    stopped = threading.Event()

    def listen() -> None:
        try:
            while True:
                message = channel.receive()
                if isinstance(message, Stop):
                    stopped.set()
                else:
                    requests.put(message)
        finally:
            # The parent process has ended or closed the connection.
            shutil.rmtree(setup.root, ignore_errors=True)
            os._exit(0)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    with suppress(OSError):
        while True:
            channel.send(_read(requests.get(), channel, stopped))
            gc.collect()
    listener.join()


def _read(request: ReadRequest, channel: Channel, stopped: threading.Event) -> Answer:
    """Read a file and write its profile into the folder of the request; return the final answer."""

    def report(progress: LoadProgress) -> bool:
        channel.send(Progress(progress.bytes_read, progress.rows))
        return not stopped.is_set()

    try:
        if request.may_be_none and not is_profile(request.path):
            return NoProfile()
        profile = load_input(request.path, format_in=request.format_in, on_progress=report)
    except ProftuiError as error:
        return Failed(error.message, error.hint)
    except (OSError, pl.exceptions.PolarsError) as error:
        return Failed(cannot_read_error(request.path, error).message, "")
    try:
        return Done(pack(profile, Path(request.folder)))
    except (OSError, pl.exceptions.PolarsError) as error:
        return Failed(
            f"{request.path}: the profile cannot be written to a temporary folder ({error})",
            "set TMPDIR to a folder with free space",
        )
