"""A Dask cluster that somebody else has started: reached, and asked whether it can do the work."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pkgutil
import platform
import secrets
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import tui
from tui.dataset import on_worker
from tui.dataset.writing import MAKING
from tui.loaders.dataset.manifest import MANIFEST
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from distributed import Client

TIMEOUT_S: Final = 5
"""A scheduler that does not answer for so long is not there."""

_VERSION: Final = "tui:__version__"
_MOST_NAMED: Final = 3


@contextlib.contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of the scheduler, which is closed in the end.

    Raises:
        ProftuiError: There is no Dask here, or no scheduler there.
    """
    try:
        from distributed import Client
    except ImportError as error:
        raise ProftuiError("a cluster needs Dask, which is not installed", "pip install 'proftui[dask]'") from error
    # It logs and warns of what is said here in a line, or is nothing to worry about.
    for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] in ("distributed", "tornado")]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    from distributed.versions import VersionMismatchWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)
        try:
            # Of a client that cannot connect, threads and complaints would be left.
            asyncio.run(_reach(address))
            client = Client(address, timeout=TIMEOUT_S, set_as_default=False, name="proftui-convert")
        except Exception as error:
            why = str(error).strip().split("\n")[0] or type(error).__name__
            raise ProftuiError(f"no Dask scheduler is reached at {address}: {why}", _hint(address)) from error
        try:
            yield client
        finally:
            with contextlib.suppress(Exception):
                client.close(timeout=2)


async def _reach(address: str) -> None:
    from distributed import Security
    from distributed.comm.addressing import parse_address, parse_host_port
    from distributed.comm.core import connect

    parse_host_port(parse_address(address)[1])  # it has a port
    comm = await connect(address, timeout=TIMEOUT_S, **Security().get_connection_args("client"))
    await comm.close()


def _hint(address: str) -> str:
    if address.startswith(("tls:", "wss:")):
        return "certificates are named in Dask's own configuration: distributed.comm.tls"
    return "as dask scheduler prints it: tcp://HOST:8786"


def check(client: Client, folders: Sequence[str], out_dir: str) -> int:
    """See that scheduler and workers have what runs here, and see the same files.

    Args:
        client: Of the cluster.
        folders: Where the files lie.
        out_dir: The folder of the dataset, which is there.

    Returns:
        How many workers there are; none where the cluster starts them when there is something to do.

    Raises:
        ProftuiError: One of them differs.
    """
    _check_python(client)
    _check_proftui(client)
    found = client.run(on_worker.versions, on_error="return")
    wanted = on_worker.versions()
    _refuse({worker: _in_words(there) or there.other_than(wanted) for worker, there in found.items()}, "has {}")
    marker = Path(out_dir) / f"{MANIFEST}.{secrets.token_hex(4)}{MAKING}"
    marker.touch()
    try:
        seen = client.run(on_worker.unseen, [*folders, str(marker)], on_error="return")
    finally:
        marker.unlink(missing_ok=True)
    missing = {worker: out_dir if path == str(marker) else path for worker, path in seen.items()}
    _refuse(missing, "does not see {}", "all machines must have the files and the dataset at the same paths")
    return len(found)


def _check_python(client: Client) -> None:
    here = platform.python_version_tuple()[:2]
    others = {}
    for worker, there in client.run(platform.python_version_tuple, on_error="return").items():
        others[worker] = _in_words(there) or (".".join(there[:2]) if tuple(there[:2]) != here else "")
    _refuse(others, f"has Python {{}} (here {'.'.join(here)})")


def _check_proftui(client: Client) -> None:
    # By a function of Python's own: one of ours cannot be asked where proftui may not be.
    found: dict[str, Any] = client.run(pkgutil.resolve_name, _VERSION, on_error="return")
    hint = f"pip install 'proftui[dask]=={tui.__version__}' there"
    without = {one: "no" if isinstance(there, ModuleNotFoundError) else "" for one, there in found.items()}
    _refuse(without, "has {} proftui", hint)
    others = {one: _in_words(there) or ("" if there == tui.__version__ else there) for one, there in found.items()}
    _refuse(others, f"has proftui {{}} (here {tui.__version__})", hint)


def _in_words(answer: object) -> str:
    """What is wrong where a worker answers with an error."""
    return f"{type(answer).__name__}: {answer}" if isinstance(answer, Exception) else ""


def _refuse(faults: dict[str, str], words: str, hint: str = "") -> None:
    """Name the workers that are not as they must be, if there are any."""
    bad = {worker: fault for worker, fault in faults.items() if fault}
    if not bad:
        return
    named = ", ".join(list(bad)[:_MOST_NAMED])
    more = f" and {len(bad) - _MOST_NAMED} more" if len(bad) > _MOST_NAMED else ""
    fault = next(iter(bad.values()))
    raise ProftuiError(f"worker {named}{more} {words.format(fault)}", hint)
