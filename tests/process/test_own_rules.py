"""Unreadable files of user-defined rules end the explorer with one line that names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pseudo_terminal import PROGRAM, TerminalProgram
from tests.screens.explorer import sample_path

LOG = "gpt_summary.nvprof.log"


@pytest.fixture
def config_folder(tmp_path: Path) -> Path:
    """Return the folder of the user's configuration files."""
    folder = tmp_path / "proftui"
    folder.mkdir()
    return folder


def printed(program: TerminalProgram) -> str:
    """Return the text below the screen that was left."""
    return program.output[program.output.rindex(b"\x1b[?1049l") :].decode().replace("\r\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rules", "op_types", "tensor_cores", "host_phases", "kernel_classes"])
def test_rules_are_checked_when_a_file_is_opened(config_folder: Path, name: str) -> None:
    (config_folder / f"{name}.toml").write_text("x = [")
    with TerminalProgram([*PROGRAM, sample_path(LOG)], {"XDG_CONFIG_HOME": str(config_folder.parent)}) as program:
        assert program.wait_for_exit() == 2
        assert program.is_terminal_restored()
    assert f"proftui: {config_folder / name}.toml: not TOML: " in printed(program)
    assert "correct the file or remove it" in printed(program)


def test_rules_broken_after_the_start_are_not_a_crash(config_folder: Path, state_directory: Path) -> None:
    with TerminalProgram([*PROGRAM, sample_path(LOG)], {"XDG_CONFIG_HOME": str(config_folder.parent)}) as program:
        program.wait_for_text("m views")
        (config_folder / "kernel_classes.toml").write_text("x = [")
        program.press(b"4")
        assert program.wait_for_exit() == 2
        assert program.is_terminal_restored()
    assert f"proftui: {config_folder / 'kernel_classes.toml'}: not TOML: " in printed(program)
    assert not (state_directory / "crashes").exists()
