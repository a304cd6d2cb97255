from __future__ import annotations

import base64
import io
import os
from pathlib import Path

import pytest
from textual.app import App

from tui.widgets.app_services import MAX_CLIPBOARD_BYTES, TMUX_HINT, Clipboard, clipboard_sequences, copy_text

XTERM = {"TERM": "xterm-256color"}


def test_a_terminal_gets_one_osc_52_sequence(tmp_path: Path) -> None:
    sent: list[str] = []
    text = "a\tµ\n" * 78
    assert Clipboard(sent.append, XTERM, tmp_path).copy(text) == "Sent 312 characters to the terminal clipboard"
    assert sent == ["\x1b]52;c;" + base64.b64encode(text.encode()).decode() + "\x07"]
    assert list(tmp_path.iterdir()) == []


def test_tmux_gets_a_plain_and_a_wrapped_sequence_and_the_hint_once(tmp_path: Path) -> None:
    sent: list[str] = []
    clipboard = Clipboard(sent.append, {**XTERM, "TMUX": "/tmp/tmux,1,0"}, tmp_path)
    assert clipboard.copy("x") == f"Sent 1 character to the terminal clipboard ({TMUX_HINT})"
    assert clipboard.copy("x") == "Sent 1 character to the terminal clipboard"
    assert sent[0] == "\x1b]52;c;eA==\x07\x1bPtmux;\x1b\x1b]52;c;eA==\x07\x1b\\"


def test_gnu_screen_gets_device_control_strings_of_limited_length() -> None:
    encoded = base64.b64encode(b"k" * 3000).decode()
    wrapped = clipboard_sequences(encoded, "screen")
    strings = wrapped.split("\x1bP")
    assert strings[0] == ""
    assert all(string.endswith("\x1b\\") and len(string) <= 256 for string in strings[1:])
    assert "".join(string.removesuffix("\x1b\\") for string in strings[1:]) == f"\x1b]52;c;{encoded}\x07"


def test_text_up_to_the_limit_is_sent_and_longer_text_is_written_to_a_file(tmp_path: Path) -> None:
    sent: list[str] = []
    clipboard = Clipboard(sent.append, XTERM, tmp_path)
    max_characters = MAX_CLIPBOARD_BYTES // 4 * 3
    clipboard.copy("x" * max_characters)
    assert len(sent) == 1
    message = clipboard.copy("x" * (max_characters + 3))
    assert len(sent) == 1
    assert message == f"Wrote 56,247 characters to {tmp_path / 'proftui-copy-1.tsv'}: too long for a terminal clipboard"
    assert (tmp_path / "proftui-copy-1.tsv").read_text() == "x" * (max_characters + 3)


def test_existing_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "proftui-copy-1.tsv").write_text("mine")
    clipboard = Clipboard(None, XTERM, tmp_path)
    assert "proftui-copy-2.tsv: this terminal has no clipboard" in clipboard.copy("a\tb\r\n")
    assert (tmp_path / "proftui-copy-1.tsv").read_text() == "mine"
    assert (tmp_path / "proftui-copy-2.tsv").read_bytes() == b"a\tb\r\n"


def test_a_text_that_cannot_be_written_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clipboard = Clipboard(None, XTERM, tmp_path)
    is_full = io.TextIOWrapper(io.BufferedWriter(io.FileIO("/dev/full", "w")))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", lambda path, *_, **__: path.touch() or is_full)
        assert clipboard.copy("x") == "Not copied: No space left on device."
    assert list(tmp_path.iterdir()) == []
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda *_: True)
        missing = Clipboard(None, XTERM, tmp_path / "gone")
        assert missing.copy("x") == "Not copied: No such file or directory."


async def test_a_deleted_working_directory_has_no_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, temporary = tmp_path / "gone", tmp_path / "tmp"
    gone.mkdir()
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.chdir(gone)
    gone.rmdir()
    async with App[None]().run_test() as pilot:
        message = copy_text(pilot.app, "x")
    assert message == f"Wrote 1 character to {temporary / 'proftui-copy-1.tsv'}: this terminal has no clipboard"


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_without_osc_52_gets_no_sequence(term: str, tmp_path: Path) -> None:
    sent: list[str] = []
    assert Clipboard(sent.append, {"TERM": term}, tmp_path).copy("x").startswith("Wrote 1 character to ")
    assert sent == []


def test_an_unwritable_directory_is_replaced_by_the_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    message = Clipboard(None, XTERM, tmp_path / "gone").copy("x")
    assert str(tmp_path / "proftui-copy-1.tsv") in message
