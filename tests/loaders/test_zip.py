"""ZIP archives: the only file of one opens like any compressed file; others are declined with a command."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tui.loaders.input_file
from tests.loaders.reading import rows
from tui.loaders.input_file import InputFile
from tui.loaders.registry import load_one
from tui.model.errors import ProftuiError

SAMPLE = Path(__file__).parents[2] / "sample_logs/caffe_conv1.nvprof.log"
LINES = "".join(f"line {number}\n" for number in range(200_000))


class _Unseekable(io.RawIOBase):
    """A file that cannot seek: the sizes of an entry then follow its content."""

    def __init__(self) -> None:
        self.content = b""

    def write(self, data: Any, /) -> int:
        self.content += bytes(data)
        return len(data)


def archive(entries: dict[str, str], method: int = zipfile.ZIP_DEFLATED, *, seek: bool = True) -> bytes:
    target: Any = io.BytesIO() if seek else _Unseekable()
    with zipfile.ZipFile(target, "w", method) as made:
        for name, text in entries.items():
            made.writestr(name, text)
    content: bytes = target.getvalue() if seek else target.content
    return content


def content_of(path: Path) -> tuple[bytes, str]:
    source = InputFile.open(str(path))
    return b"".join(source.chunks()), source.cut_short


@pytest.mark.parametrize("seek", [True, False])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_only_file_opens_whatever_its_name(method: int, seek: bool, tmp_path: Path) -> None:
    if method == zipfile.ZIP_STORED and not seek:
        pytest.skip("zipfile packs no such archive that says its sizes")
    path = tmp_path / "run.zip"
    beside = {"runs/": "", "__MACOSX/runs/._run.log": "junk", "runs/.DS_Store": "junk"}
    path.write_bytes(archive({**beside, "runs/../../run.log": SAMPLE.read_text()}, method, seek=seek))
    found = load_one(str(path))
    assert rows(found, "activities", "name", "start_ns", "line") == rows(
        load_one(str(SAMPLE)), "activities", "name", "start_ns", "line"
    )
    assert sorted(tmp_path.iterdir()) == [path]


def test_several_encrypted_and_empty_archives_are_declined(tmp_path: Path) -> None:
    text = SAMPLE.read_text()
    encrypted = bytearray(archive({"run.log": text}))
    listed = encrypted.rfind(b"PK\x01\x02")
    encrypted[listed + 8] |= 1
    for content in (archive({"a.log": text, "b.log": text}), bytes(encrypted), archive({"run.log": text})[:-30]):
        path = tmp_path / "run.zip"
        path.write_bytes(content)
        with pytest.raises(ProftuiError, match="is a ZIP archive of several files") as caught:
            load_one(str(path))
        assert "unzip -p FILE.zip NAME | proftui -" in caught.value.hint


def test_damage_is_an_early_end(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    content = bytearray(archive({"run.log": LINES}))
    content[14] ^= 1  # the checksum
    path.write_bytes(content)
    assert content_of(path) == (LINES.encode(), "the zip stream is damaged (wrong checksum)")
    middle = len(content) // 2
    content[middle : middle + 100] = bytes(100)
    path.write_bytes(content)
    read, cut_short = content_of(path)
    assert cut_short.startswith("the zip stream is damaged")
    assert read != LINES.encode()


def test_what_unpacks_to_too_much_is_read_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.input_file, "BOMB_SIZE", 4 << 20)
    monkeypatch.setattr(tui.loaders.input_file, "BOMB_RATIO", 10)
    path = tmp_path / "run.zip"
    path.write_bytes(archive({"run.log": "\n" * (64 << 20)}))
    read, cut_short = content_of(path)
    assert 3 << 20 <= len(read) <= 4 << 20
    assert "unpacks to more than 10 times its size" in cut_short
