"""ZIP archives: a single file opens like any compressed file, several open like a folder."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tui.loaders.input_file
from tests.loaders.reading import rows
from tui.loaders.input_file import InputFile
from tui.loaders.multi_file.load_together import profile_files
from tui.loaders.registry import load, load_input
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
    with zipfile.ZipFile(target, "w", method) as zip_file:
        for name, text in entries.items():
            zip_file.writestr(name, text)
    content: bytes = target.getvalue() if seek else target.content
    return content


def content_of(path: Path) -> tuple[bytes, str]:
    source = InputFile.open(str(path))
    return b"".join(source.chunks()), source.cut_short


def test_a_stored_file_without_its_size_in_front_has_no_recognizable_end(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    path.write_bytes(archive({"run.log": SAMPLE.read_text()}, zipfile.ZIP_STORED, seek=False))
    with pytest.raises(ProftuiError, match="a ZIP archive that is damaged, encrypted or from a pipe"):
        load_input(str(path))


@pytest.mark.parametrize(
    ("method", "seek"), [(zipfile.ZIP_STORED, True), (zipfile.ZIP_DEFLATED, True), (zipfile.ZIP_DEFLATED, False)]
)
def test_the_only_file_opens_whatever_its_name(method: int, seek: bool, tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    ignored = {"runs/": "", "__MACOSX/runs/._run.log": "junk", "runs/.DS_Store": "junk"}
    path.write_bytes(archive({**ignored, "runs/../../run.log": SAMPLE.read_text()}, method, seek=seek))
    profile = load_input(str(path))
    assert rows(profile, "activities", "name", "start_ns", "line") == rows(
        load_input(str(SAMPLE)), "activities", "name", "start_ns", "line"
    )
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_stored_file_may_have_its_size_in_the_extra_fields(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    with zipfile.ZipFile(path, "w") as target, target.open("run.log", "w", force_zip64=True) as file:
        file.write(SAMPLE.read_bytes())
    assert content_of(path) == (SAMPLE.read_bytes(), "")
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\1\0\x10\0", b"\2\0\x10\0"))
    with pytest.raises(ProftuiError, match=r"the zip stream is damaged \(no size\)"):
        content_of(path)


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (("m/data.pkl", "m/byteorder", "m/data/0"), "a PyTorch checkpoint or program"),
        (("a.npy", "b.npy"), "a NumPy archive"),
        (
            ("[Content_Types].xml", "word/document.xml"),
            "a ZIP archive that is damaged, encrypted or from a pipe, or an",
        ),
    ],
)
def test_documents_that_are_archives_are_named(names: tuple[str, ...], title: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(archive(dict.fromkeys(names, "x"), zipfile.ZIP_STORED))
    with pytest.raises(ProftuiError, match=re.escape(f"{path}: this is {title}")):
        load_input(str(path))
    path.write_bytes(archive({"run.log": SAMPLE.read_text(), **dict.fromkeys(names[1:], "x")}))
    profile, _errors = load([str(path)])
    assert profile is not None
    assert profile.sources == (f"{path}/run.log",)


def test_several_files_open_like_a_folder_of_them(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    table = (SAMPLE.parent / "formats/key_averages.txt").read_text()
    ignored = {"run/": "", "run/notes.md": "no profile", "run/.hidden": table}
    path.write_bytes(archive({**ignored, "run/a.log": SAMPLE.read_text(), "/../run/b.txt": table, "c": table}))
    profile, errors = load([str(path)])
    assert errors == []
    assert profile is not None
    assert profile.sources == tuple(f"{path}/{name}" for name in ("c", "run/a.log", "run/b.txt"))
    single = load_input(str(SAMPLE))
    assert rows(profile, "activities", "name", "start_ns", "line") == rows(
        single, "activities", "name", "start_ns", "line"
    )
    assert (
        profile["summary"].height == 2 * load_input(str(SAMPLE.parent / "formats/key_averages.txt"))["summary"].height
    )
    assert ("no profile found in 1 file", "notes.md") in rows(profile, "issues", "reason", "text")
    assert sorted(tmp_path.iterdir()) == [path]
    assert load_input(str(path)).sources == profile.sources
    assert rows(load_input(f"{path}/run/a.log"), "activities", "name") == rows(single, "activities", "name")


def test_databases_and_compressed_files_in_an_archive_open(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    samples = [SAMPLE.parent / name for name in ("gpt_cudagraph.nsys.sqlite.gz", "jax_train_step.trace.json.gz")]
    with zipfile.ZipFile(path, "w") as zip_file:
        for sample in samples:
            zip_file.write(sample, sample.name)
    profile = load_input(str(path))
    assert profile["activities"].height == sum(load_input(str(sample))["activities"].height for sample in samples)


def test_a_damaged_file_of_an_archive_does_not_stop_the_others(tmp_path: Path) -> None:
    path = tmp_path / "run.zip"
    text = SAMPLE.read_text()
    content = bytearray(archive({"a.log": text, "b.log": text, "c.log": text}))
    content[content.find(b"b.log") + 5 + 20] ^= 0xFF
    listed = content.rfind(b"PK\x01\x02")
    content[listed + 8] |= 1  # encrypted
    path.write_bytes(content)
    profile, errors = load([str(path)])
    assert profile is not None
    assert [Path(source).name for source in profile.sources] == ["a.log"]
    assert errors == []
    reasons = " ".join(profile["issues"]["reason"])
    assert f"skipped: {path}/b.log: the zip stream is damaged" in reasons
    assert f"skipped: {path}/c.log: is encrypted" in reasons


def test_the_decompressed_size_of_a_file_in_an_archive_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tui.loaders.input_file, "MIN_BOMB_BYTES", 4 << 20)
    monkeypatch.setattr(tui.loaders.input_file, "MAX_COMPRESSION_RATIO", 10)
    path = tmp_path / "run.zip"
    path.write_bytes(archive({"a.log": SAMPLE.read_text() + "\n" * (64 << 20), "b.log": "x"}))
    profile = load_input(str(path))
    assert [reason for reason in profile["issues"]["reason"] if "decompresses to more than 10 times its size" in reason]


def test_encrypted_truncated_and_office_archives_are_declined(tmp_path: Path) -> None:
    text = SAMPLE.read_text()
    encrypted = bytearray(archive({"run.log": text}))
    listed = encrypted.rfind(b"PK\x01\x02")
    encrypted[listed + 8] |= 1
    office = archive({"[Content_Types].xml": "", "xl/a.log": text})
    for content in (office, bytes(encrypted), archive({"run.log": text})[:-30], archive({"a": text, "b": text})[:-9]):
        path = tmp_path / "run.zip"
        path.write_bytes(content)
        with pytest.raises(
            ProftuiError, match="this is a ZIP archive that is damaged, encrypted or from a pipe"
        ) as caught:
            load_input(str(path))
        assert "unzip -p FILE.zip NAME | proftui -" in caught.value.hint


def test_a_damaged_archive_ends_early(tmp_path: Path) -> None:
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


def test_reading_stops_at_the_limit_of_decompressed_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui.loaders.input_file, "MIN_BOMB_BYTES", 4 << 20)
    monkeypatch.setattr(tui.loaders.input_file, "MAX_COMPRESSION_RATIO", 10)
    path = tmp_path / "run.zip"
    path.write_bytes(archive({"run.log": "\n" * (64 << 20)}))
    read, cut_short = content_of(path)
    assert 3 << 20 <= len(read) <= 4 << 20
    assert "decompresses to more than 10 times its size" in cut_short


def test_a_run_of_xla_is_read_once_in_each_folder(tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    names = ("a/host.xplane.pb", "a/host.trace.json.gz", "b/host.trace.json.gz")
    perfetto = [f"{folder}/perfetto_trace.json.gz" for folder in "abc"]
    path.write_bytes(archive(dict.fromkeys((*names, *perfetto), "")))
    assert profile_files(str(path)) == [
        f"{path}/{name}" for name in ("a/host.xplane.pb", "b/host.trace.json.gz", "c/perfetto_trace.json.gz")
    ]
