"""The rank of each file, and issues about missing and duplicate ranks."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.profiles import SAMPLES
from tui.loaders.multi_file.ranks import RANK_FROM_FILE_NAME, ranges_text, rank_issues, ranks_in_names
from tui.loaders.registry import load

if TYPE_CHECKING:
    from pathlib import Path

LOG = SAMPLES / "resnet50_training.nvprof.log"
WHOLE = SAMPLES / "ddp_ranks"


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (["ddp_rank0.json", "ddp_rank1.json"], [0, 1]),
        (["RANK-3.nsys-rep", "x/rank_12/trace_rank.7.sqlite"], [3, 7]),
        (["frank5.json", "frank6.json"], [None, None]),
        (["trace.0.json", "trace.1.json", "trace.2.json"], [0, 1, 2]),
        (["trace.1.json", "trace.2.json"], [None, None]),
        (["p.00.log", "p.01.log", "p.03.log"], [0, 1, 3]),
        (["p.0.log", "p.9.log"], [None, None]),
        (["node1_0.log", "node1_1.log"], [0, 1]),
        (["node0_gpu1.log", "node1_gpu0.log"], [None, None]),
        (["run.2001.log", "run.2002.log"], [None, None]),
        (["a_0.log", "b_1.log"], [None, None]),
        (["local_rank0.json", "local_rank1.json"], [0, 1]),
        ([f"node{node}_local_rank{rank}.json" for node in (0, 1) for rank in (0, 1)], [None] * 4),
        (["n0_local-rank1_rank1.json", "n1_local-rank1_rank9.json"], [1, 9]),
        (["host_600.1718.pt.trace.json", "host_601.1718.pt.trace.json"], [None, None]),
        (["only.json"], [None]),
    ],
)
def test_ranks_in_file_names(names: list[str], ranks: list[int | None]) -> None:
    assert ranks_in_names(names) == ranks


def test_a_rank_of_a_name_is_marked_as_inferred(tmp_path: Path) -> None:
    for number in (0, 1, 3):
        shutil.copy(LOG, tmp_path / f"prof.{number}.log")
    profile, _ = load([str(tmp_path)])
    assert profile is not None
    assert profile["sessions"]["rank"].to_list() == [0, 1, 3]
    assert set(profile["sessions"]["rank_source"]) == {RANK_FROM_FILE_NAME}
    reported = profile["issues"].filter(pl.col("session").is_null()).select("severity", "text", "reason").rows()
    assert reported == [
        (
            "info",
            "prof.0.log: rank 0, prof.1.log: rank 1, prof.3.log: rank 3",
            "ranks not recorded: inferred from 3 file names",
        ),
        ("warning", "", "rank 2 is missing: the highest rank loaded is 3"),
    ]


def test_the_content_decides_before_the_name(tmp_path: Path) -> None:
    for rank in (0, 1):
        shutil.copy(WHOLE / f"ddp_rank{rank}.pt.trace.json.gz", tmp_path / f"rank{1 - rank}.pt.trace.json.gz")
    profile, _ = load([str(tmp_path)])
    assert profile is not None
    assert profile["sessions"]["rank"].to_list() == [0, 1]
    assert profile.sources[0].endswith("rank1.pt.trace.json.gz")
    assert profile["sessions"]["rank_source"].to_list() == [None, None]
    assert profile["issues"].is_empty()


def sessions(*ranks: int, world_size: int | None = None, source: str = "recorded") -> pl.DataFrame:
    rows = [
        {"rank": rank, "world_size": world_size, "source": f"x/{index}.json", "rank_source": None}
        for index, rank in enumerate(ranks)
    ]
    return pl.DataFrame(rows, schema={"rank": pl.Int32, "world_size": pl.Int32, "source": str, "rank_source": str})


def reasons(*ranks: int, world_size: int | None = None, skipped: tuple[str, ...] = ()) -> list[str]:
    reported = rank_issues(sessions(*ranks, world_size=world_size), skipped=skipped, not_read=())
    return [issue["reason"] for issue in reported]


def test_missing_ranks_are_named() -> None:
    assert reasons(0, 1, 2, 3, 4, 6, 7, world_size=8) == ["rank 5 is missing: 7 of 8 ranks loaded"]
    assert reasons(0, 1, 4, world_size=8) == ["ranks 2 to 3, 5 to 7 are missing: 3 of 8 ranks loaded"]
    assert reasons(0, 1, 3) == ["rank 2 is missing: the highest rank loaded is 3"]
    assert reasons(0, 2, world_size=3, skipped=("t/rank1.json", "t/notes")) == [
        "rank 1 is missing: 2 of 3 ranks loaded; skipped: rank1.json"
    ]
    assert reasons(0, 1, world_size=2) == []


def test_ranks_that_were_not_read_are_not_missing() -> None:
    assert rank_issues(sessions(0, 1, world_size=8), skipped=(), not_read=("rank2.json",)) == []


def test_a_duplicate_rank_is_reported_with_its_files() -> None:
    (reported,) = rank_issues(sessions(0, 1, 1, world_size=2), skipped=(), not_read=())
    assert reported["reason"].startswith("rank 1 appears 2 times")
    assert reported["text"] == "1.json, 2.json"


def test_recordings_of_one_rank_are_a_comparison() -> None:
    assert reasons(0, 0, world_size=8) == []


def test_different_world_sizes_are_reported() -> None:
    mixed = pl.concat([sessions(0, world_size=2), sessions(1, world_size=4)])
    reported = rank_issues(mixed, skipped=(), not_read=())
    assert reported[0]["reason"] == "these ranks belong to jobs with different world sizes (2, 4)"


def test_long_lists_of_ranks_are_shortened() -> None:
    assert ranges_text(range(1, 60, 2)).endswith("23 and 18 more")
