"""``proftui baseline`` and ``proftui diff --baseline``."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.running import run
from tests.profiles import SAMPLES
from tui.cli.baseline import read_baseline, to_parquet
from tui.model.errors import ProftuiError

TRACE = str(SAMPLES / "mlp_modules.pt.trace.json.gz")
SUMMARY = str(SAMPLES / "gpt_summary.nvprof.log")


def test_a_baseline_is_saved_listed_compared_and_removed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    status, _, err = run(capfd, "baseline", "save", "main", TRACE, TRACE)
    path = tmp_path / "proftui-baselines" / "main.parquet"
    assert status == 0
    assert err == (
        f"proftui: saved 2 runs with 6 iterations to proftui-baselines/main.parquet ({path.stat().st_size:,} bytes)\n"
    )
    assert path.stat().st_size < 20_000
    assert run(capfd, "baseline", "save", "main", TRACE)[0] == 2, "it exists already"
    status, out, err = run(capfd, "baseline", "list")
    assert out.startswith("main  2 runs, 6 iterations  NVIDIA ")
    assert err == "proftui: 1 baseline in proftui-baselines\n"

    status, out, err = run(capfd, "diff", "--baseline", "main", TRACE, TRACE, "--fail-on-regression", "5%")
    assert status == 0
    assert err == "proftui: NO CHANGE: all differences may be noise\n"
    assert out.startswith("baseline main > 2 runs (mlp_modules.pt.trace.json.gz, ...)\n\nNO CHANGE: ")
    assert "90% interval" in out
    assert "GPU work " in out
    markdown = run(capfd, "diff", "--baseline", "main", TRACE, "--format", "markdown")[1]
    assert (
        "- Intervals of a single run do not include variation between runs: use three or more runs on each side.\n"
        in markdown
    )
    assert "| Baseline | Candidate | Change | 90% interval |" in markdown

    # The baseline is twice as fast: the check fails by all GPU work and reports the change.
    times = read_baseline("proftui-baselines", "main").with_columns(pl.col("time_ns") // 2)
    path.write_bytes(to_parquet(times))
    status, out, err = run(capfd, "diff", "--baseline", "main", TRACE, "--format", "json", "--fail-on-regression", "5%")
    assert status == 1
    assert err.startswith("proftui: FAIL: slower by more than 5% (the whole interval is above)\n")
    content = json.loads(out)
    assert content["runs"] == [2, 1]
    assert content["verdict"]["outcome"] == "FAIL"
    assert content["verdict"]["slower"][0]["what"] == "gpu work"
    total = content["totals"][1]
    assert total["change_pct"]["median"] == pytest.approx(100, abs=0.01)
    assert total["change_pct"]["low"] > 5

    assert run(capfd, "baseline", "rm", "main")[2] == "proftui: removed main from proftui-baselines\n"
    assert not path.exists()
    assert run(capfd, "diff", "--baseline", "main", TRACE)[2].startswith(
        "proftui: proftui-baselines/main.parquet: no such baseline\n"
    )


def test_baselines_and_profiles_that_cannot_be_compared_are_errors(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(capfd, "baseline", "save", "../x", SUMMARY)[2].startswith("proftui: ../x: invalid baseline name\n")
    assert run(capfd, "diff", SUMMARY)[2].startswith("proftui: diff needs two files, A and B\n")
    assert run(capfd, "diff", "--baseline", "a", SUMMARY, "--format", "csv")[0] == 2
    folder = tmp_path / "proftui-baselines"
    folder.mkdir()
    pl.DataFrame({"run": ["x\x1b[31m"]}).write_parquet(folder / "a.parquet")
    with pytest.raises(ProftuiError, match="not a baseline of this proftui version"):
        read_baseline(str(folder), "a")
    (folder / "b.parquet").write_bytes(b"PAR1")
    with pytest.raises(ProftuiError, match="cannot be read"):
        read_baseline(str(folder), "b")
    monkeypatch.setenv("COLUMNS", "160")
    assert run(capfd, "baseline", "save", "good", SUMMARY)[0] == 0
    untimed = tmp_path / "run.log"
    untimed.write_text("==1== NVPROF is profiling process 1, command: ./app\n==1== No kernels were profiled.\n")
    assert "run.log: neither GPU work nor iterations have times\n" in run(capfd, "baseline", "save", "none", untimed)[2]
    truncated = tmp_path / "cut.json"
    truncated.write_bytes(gzip.decompress(Path(TRACE).read_bytes())[:400_000])
    assert "cut.json: part of the run is missing: " in run(capfd, "baseline", "save", "cut", truncated)[2]
    status, out, err = run(capfd, "baseline", "list")
    assert (status, out.startswith("good  1 run, ")) == (2, True), "the others are listed all the same"
    assert err.startswith("proftui: proftui-baselines/a.parquet: not a baseline of this proftui version\n")
    assert err.endswith("proftui: 1 baseline in proftui-baselines\n")
    read_baseline("proftui-baselines", "good").with_columns(pl.lit(-1, pl.Int64).alias("time_ns")).write_parquet(
        folder / "good.parquet"
    )
    with pytest.raises(ProftuiError, match="not a baseline of this proftui version"):
        read_baseline("proftui-baselines", "good")
