"""Real logs to test against, where a checkout has them beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = (Path(__file__).parents[1] / "../shared").resolve()
CORPUS = SHARED / "corpus"


def corpus_file(name: str) -> str:
    """The path of a file of the corpus; the test is skipped where it is missing."""
    return _present(CORPUS / name)


def recording_file(name: str) -> str:
    """The path of one of our own recordings; the test is skipped where it is missing."""
    return _present(SHARED / "recordings" / name)


def oracle_file(name: str) -> str:
    """The path of what another tool says of a recording; the test is skipped where it is missing."""
    return _present(SHARED / "oracles" / name)


def shared_file(name: str) -> str:
    """The path of anything else that lies beside them, as ``bench/x.txt``; the test is skipped where it is missing."""
    return _present(SHARED / name)


def corpus_files(pattern: str) -> list[str]:
    """The paths of the corpus that match a pattern, as ``nvprof/*.txt``; none if it is missing."""
    return sorted(str(path) for path in CORPUS.glob(pattern))


def corpus_files_or_skip(pattern: str) -> list[str]:
    """The same; the test is skipped if there are none."""
    found = corpus_files(pattern)
    return found or [_present(CORPUS / pattern)]


def _present(path: Path) -> str:
    if not path.exists():
        pytest.skip(f"no {path.parent.name}/{path.name} beside this checkout")
    return str(path)
