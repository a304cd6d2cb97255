"""Runs a program that is ended when its parent ends: ``python -I exit_with_parent.py PROGRAM ARGUMENT...``.

When standard input ends, the other has ended, be it killed, and all of this process group is ended, too. Whoever starts
it makes it the leader of a group (``start_new_session``) and keeps the other end of a pipe to it open.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Final

_GRACE_SECONDS: Final = 2.0
"""So long the program may take to end when it is asked to."""
_NOT_FOUND: Final = 127


def main() -> int:
    """Run the program; its exit status."""
    # Sent to the whole group, it is for the others: this one sees to it that they go.
    signal.signal(signal.SIGTERM, lambda *_: None)
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    try:
        # Python's handlers do not stay in what it starts.
        return subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, check=False).returncode
    except OSError as error:
        print(error.strerror, file=sys.stderr)
        return _NOT_FOUND


def _end_with_the_other() -> None:
    with suppress(OSError):
        while os.read(0, 1):
            pass
    os.killpg(0, signal.SIGTERM)
    time.sleep(_GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main())
