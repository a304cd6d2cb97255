"""Files of the user's own rules that cannot be read end the explorer with one line that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pseudo_terminal import PROGRAM, TerminalProgram
from tests.screens.explorer import sample_path

LOG = "gpt_summary.nvprof.log"


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The folder of the user's own files."""
    folder = tmp_path / "proftui"
    folder.mkdir()
    return folder


def said(program: TerminalProgram) -> str:
    """What stands below the screen that was left."""
    return program.output[program.output.rindex(b"\x1b[?1049l") :].decode().replace("\r\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rules", "op_types", "tensor_cores", "host_phases", "kernel_classes"])
def test_rules_are_checked_when_a_file_is_opened(own: Path, name: str) -> None:
    (own / f"{name}.toml").write_text("x = [")
    with TerminalProgram([*PROGRAM, sample_path(LOG)], {"XDG_CONFIG_HOME": str(own.parent)}) as program:
        assert program.wait_for_exit() == 2
        assert program.is_terminal_restored()
    assert f"proftui: {own / name}.toml: not TOML: " in said(program)
    assert "correct the file or remove it" in said(program)


def test_rules_broken_after_the_start_are_not_a_crash(own: Path, state_directory: Path) -> None:
    with TerminalProgram([*PROGRAM, sample_path(LOG)], {"XDG_CONFIG_HOME": str(own.parent)}) as program:
        program.wait_for_text("m views")
        (own / "kernel_classes.toml").write_text("x = [")
        program.press(b"4")
        assert program.wait_for_exit() == 2
        assert program.is_terminal_restored()
    assert f"proftui: {own / 'kernel_classes.toml'}: not TOML: " in said(program)
    assert not (state_directory / "crashes").exists()
