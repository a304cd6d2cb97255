"""Rules of the user for data loading and file I/O, in addition to those of the program."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tui.analysis.gpu_time import host_calls
from tui.analysis.gpu_time.host_calls import HostPhase, host_phases_by_name, parse_phases
from tui.model.errors import ProftuiError


def test_the_users_rules_take_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "host_phases.toml"
    monkeypatch.setattr(host_calls, "user_phases_path", lambda: path)
    names = pl.Series(["feeder::pull", "aten::mm", "saving model"])
    assert host_phases_by_name(names).tolist() == [HostPhase.NONE, HostPhase.NONE, HostPhase.IO]
    path.write_text(
        '[[rule]]\nphase = "dataloader"\npattern = "^feeder::"\nnote = "ours"\n'
        '[[rule]]\nphase = "dataloader"\npattern = "^saving"\n'
    )
    assert host_phases_by_name(names).tolist() == [HostPhase.DATALOADER, HostPhase.NONE, HostPhase.DATALOADER]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule", "mine.toml: not TOML"),
        ("rule = 3", "mine.toml: expected [[rule]] tables"),
        ('[[rule]]\nphase = "gpu"\npattern = "x"', "mine.toml: rule 1: phase must be dataloader or io, not gpu"),
        ('[[rule]]\nphase = "io"', "mine.toml: rule 1: pattern must be a string"),
        ('[[rule]]\nphase = "io"\npattern = "("', "mine.toml: rule 1: pattern is not a regular expression"),
    ],
)
def test_an_invalid_rules_file_is_an_error_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(ProftuiError) as error:
        parse_phases(text, "mine.toml")
    assert error.value.message.startswith(message)


def test_an_unreadable_rules_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "host_phases.toml"
    path.write_bytes(b"\xff\xfe\xff")
    monkeypatch.setattr(host_calls, "user_phases_path", lambda: path)
    with pytest.raises(ProftuiError, match="cannot be read"):
        host_phases_by_name(pl.Series(["x"]))
