"""Paths of real logs next to the checkout; tests without them are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = (Path(__file__).parents[1] / "../shared").resolve()
CORPUS = SHARED / "corpus"


def corpus_file(name: str) -> str:
    """Return the path of a file of the corpus; skip the test if it is missing."""
    return existing_or_skip(CORPUS / name)


def recording_file(name: str) -> str:
    """Return the path of one of our own recordings; skip the test if it is missing."""
    return existing_or_skip(SHARED / "recordings" / name)


def oracle_file(name: str) -> str:
    """Return the path of another tool's output for a recording; skip the test if it is missing."""
    return existing_or_skip(SHARED / "oracles" / name)


def shared_file(name: str) -> str:
    """Return the path of any other file beside them, like ``bench/x.txt``; skip the test if it is missing."""
    return existing_or_skip(SHARED / name)


def corpus_files(pattern: str) -> list[str]:
    """Return the paths of the corpus that match a pattern, like ``nvprof/*.txt``; none if it is missing."""
    return sorted(str(path) for path in CORPUS.glob(pattern))


def corpus_files_or_skip(pattern: str) -> list[str]:
    """Return the paths of the corpus that match a pattern; skip the test if there are none."""
    paths = corpus_files(pattern)
    return paths or [existing_or_skip(CORPUS / pattern)]


def existing_or_skip(path: Path) -> str:
    if not path.exists():
        pytest.skip(f"needs {path.parent.name}/{path.name} of the corpus next to this checkout")
    return str(path)
