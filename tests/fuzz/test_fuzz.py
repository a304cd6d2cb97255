"""Damaged inputs of every format are declined or shown, never with a crash, a hang or a raw escape."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.corpus import SHARED
from tests.fuzz.inputs import SQLITE, content, folders, inputs, real_inputs
from tests.fuzz.mutators import DIGITS, HOSTILE, change_columns, column_changes, mutated, mutated_folder
from tests.fuzz.survival import read_and_show
from tests.parameters import others_slow

FEW = settings(max_examples=2, suppress_health_check=list(HealthCheck))
ONE = settings(max_examples=1, suppress_health_check=list(HealthCheck))
# All views of an input take a second: a few examples of each are minutes in all. There are hundreds of real files.
SOME = settings(max_examples=max(2, settings().max_examples // 8))
A_FEW_OF_MANY = settings(max_examples=max(1, settings().max_examples // 15))
FOLDERS = ("ranks", "mixed", "parquet", "dataset", "ascend")
DATABASES = [name for name, (_, data) in inputs().items() if data.startswith(SQLITE)]
TEXTS = [name for name in inputs() if name not in DATABASES]


def write_input(folder: str, name: str, data: bytes) -> Path:
    path = Path(folder, name.removesuffix(".gz"))
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", inputs())
@FEW
@given(data=st.data())
def test_a_damaged_input_is_read_or_declined(name: str, data: st.DataObject) -> None:
    file, intact = inputs()[name]
    with tempfile.TemporaryDirectory() as folder:
        read_and_show(write_input(folder, file, data.draw(mutated(intact))), everything=False)


@pytest.mark.parametrize("name", others_slow(DATABASES, DATABASES[:2]))
@ONE
@given(changes=column_changes())
def test_a_database_with_values_of_other_types_is_read_or_declined(
    name: str, changes: list[tuple[int, int, Any, bool]]
) -> None:
    file, intact = inputs()[name]
    with tempfile.TemporaryDirectory() as folder:
        path = write_input(folder, file, intact)
        change_columns(path, changes)
        read_and_show(path, everything=False)


def write_folder(path: Path, tree: dict[str, bytes | None]) -> Path:
    path.mkdir()
    for name, data in tree.items():
        with suppress(OSError):  # a folder lies where a file is to be
            if data is None:
                (path / name).mkdir(parents=True)
            else:
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(data)
    return path


@pytest.mark.parametrize("name", others_slow(FOLDERS, ("ranks", "parquet")))
@ONE
@given(data=st.data())
def test_a_damaged_folder_is_read_or_declined(name: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        read_and_show(write_folder(Path(folder, name), data.draw(mutated_folder(folders()[name]))), everything=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLDERS)
@SOME
@given(data=st.data())
def test_a_damaged_folder_is_shown_in_every_view(name: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        read_and_show(write_folder(Path(folder, name), data.draw(mutated_folder(folders()[name]))))


@pytest.mark.slow
@pytest.mark.parametrize("name", inputs())
@SOME
@given(data=st.data())
def test_a_damaged_input_is_shown_in_every_view(name: str, data: st.DataObject) -> None:
    file, intact = inputs()[name]
    with tempfile.TemporaryDirectory() as folder:
        read_and_show(write_input(folder, file, data.draw(mutated(intact))))


@pytest.mark.slow
@pytest.mark.parametrize("name", real_inputs() or [pytest.param("", marks=pytest.mark.skip("no real files here"))])
@A_FEW_OF_MANY
@given(data=st.data())
def test_a_damaged_real_file_is_shown_in_every_view(name: str, data: st.DataObject) -> None:
    path = SHARED / name
    with tempfile.TemporaryDirectory() as folder:
        read_and_show(write_input(folder, path.name, data.draw(mutated(content(path)))))


@pytest.mark.slow
@pytest.mark.parametrize("name", DATABASES)
@SOME
@given(changes=column_changes())
def test_values_of_other_types_are_shown_in_every_view(name: str, changes: list[tuple[int, int, Any, bool]]) -> None:
    file, intact = inputs()[name]
    with tempfile.TemporaryDirectory() as folder:
        path = write_input(folder, file, intact)
        change_columns(path, changes)
        read_and_show(path)


@pytest.mark.parametrize("digits", others_slow(DIGITS[:2], DIGITS[:1]))
@pytest.mark.parametrize("name", others_slow(TEXTS, TEXTS[::3]))
def test_all_numbers_in_digits_of_another_script(name: str, digits: str, tmp_path: Path) -> None:
    file, intact = inputs()[name]
    table = {ord(str(index)): digit for index, digit in enumerate(digits)}
    text = intact.decode("utf-8", "replace")
    # Within quotation marks alone, if there are any, so that the file is still what it was.
    pieces = text.split('"') if '"' in text else ["", text]
    changed = '"'.join(piece.translate(table) if index % 2 else piece for index, piece in enumerate(pieces))
    path = tmp_path / file.removesuffix(".gz")
    path.write_text(changed if '"' in text else changed[1:], encoding="utf-8")
    read_and_show(path, everything=False)


@pytest.mark.parametrize("name", ["mlp_modules.pt.trace.json.gz", "caffe_conv1.nvprof.log", "gemm.ncu.csv"])
def test_no_report_writes_a_hostile_name_raw(name: str, tmp_path: Path) -> None:
    file, intact = inputs()[name]
    text = intact.decode()
    for word in ("aten", "cudnn", "gemm", "Kernel", "kernel", "cuda"):
        text = text.replace(word, word + "".join(HOSTILE).replace("\r", ""))
    path = tmp_path / file.removesuffix(".gz")
    path.write_bytes(text.encode())
    read_and_show(path)
