"""Real logs to test against, where a checkout has them beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

CORPUS = (Path(__file__).parents[1] / "../shared/corpus").resolve()


def corpus_file(name: str) -> str:
    """The path of a file of the corpus; the test is skipped where it is missing."""
    path = CORPUS / name
    if not path.exists():
        pytest.skip(f"no {name} in the corpus beside this checkout")
    return str(path)


def corpus_files(pattern: str) -> list[str]:
    """The paths of the corpus that match a pattern, as ``nvprof/*.txt``; none where it is missing."""
    return sorted(str(path) for path in CORPUS.glob(pattern))
