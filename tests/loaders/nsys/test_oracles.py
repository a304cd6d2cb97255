"""Figures of Nsight's own `nsys stats` for recordings, against the frames of a profile: row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from tests.corpus import oracle_file, recording_file
from tui.loaders.nsys.nsys_activities import strip_version
from tui.loaders.registry import load_input

if TYPE_CHECKING:
    from tui.model.profile import Profile

RECORDINGS = ("ddp", "resnet50_amp", "gpt_cudagraph")

DIRECTIONS = {"Host-to-Device": "HtoD", "Device-to-Device": "DtoD", "Device-to-Host": "DtoH", "Peer-to-Peer": "PtoP"}

Row = tuple[float, ...]


def reports(recording: str) -> dict[str, list[tuple[list[str], str]]]:
    """Return the rows of each report: figures, and the name at the end."""
    tables: dict[str, list[tuple[list[str], str]]] = {}
    rows: list[tuple[list[str], str]] = []
    edges: list[tuple[int, int]] = []
    for line in Path(oracle_file(f"{recording}.nsys-stats.txt")).read_text().splitlines():
        if heading := re.match(r" \*\* .*\((\w+)\):$", line):
            rows = tables.setdefault(heading[1], [])
            edges = []
        elif re.fullmatch(r" [ -]*-", line.rstrip()):
            edges = [match.span() for match in re.finditer("-+", line)]
        elif edges and line.strip():
            cells = [line[start:end].strip().replace(",", "") for start, end in edges[:-1]]
            rows.append((cells, line[edges[-1][0] :].strip()))
    return tables


def figures(group: pl.Series) -> Row:
    """Return total, count, mean, median, minimum, maximum and standard deviation, to the digits that nsys prints."""
    deviation = group.std()
    return (
        float(group.sum()),
        float(len(group)),
        round(float(group.mean() or 0), 1),  # type: ignore[arg-type]
        round(float(group.median() or 0), 1),  # type: ignore[arg-type]
        float(group.min() or 0),  # type: ignore[arg-type]
        float(group.max() or 0),  # type: ignore[arg-type]
        round(float(deviation), 1) if isinstance(deviation, float) else 0.0,
    )


def by_name(rows: pl.DataFrame) -> Iterator[tuple[str, Row]]:
    for (name,), group in rows.with_columns(pl.col("name").cast(pl.String)).group_by("name"):
        yield str(name), figures(group["duration_ns"])


def is_close(actual: Row, expected: Row) -> bool:
    return all(abs(our - their) <= 0.11 for our, their in zip(actual, expected, strict=True))


@pytest.fixture(scope="module")
def profiles() -> dict[str, Profile]:
    return {}


def profile_of(recording: str, profiles: dict[str, Profile]) -> Profile:
    if recording not in profiles:
        profiles[recording] = load_input(recording_file(f"{recording}.nsys.sqlite.gz"))
    return profiles[recording]


@pytest.mark.parametrize("recording", RECORDINGS)
def test_kernels_equal_those_of_nsys_stats(recording: str, profiles: dict[str, Profile]) -> None:
    work = profile_of(recording, profiles)["activities"]
    actual = dict(by_name(work.filter(pl.col("kind") == "kernel")))
    expected = reports(recording)["cuda_gpu_kern_sum"]
    assert len(expected) == len(actual)
    for cells, name in expected:
        values = tuple(map(float, cells[1:]))
        # Long names are cut in the text.
        names = [
            full_name
            for full_name in actual
            if full_name == name or (name.endswith("…") and full_name.startswith(name[:-1]))
        ]
        assert any(is_close(actual[full_name], values) for full_name in names), (
            name,
            values,
            [actual[full_name] for full_name in names],
        )


@pytest.mark.parametrize("recording", RECORDINGS)
def test_api_calls_equal_those_of_nsys_stats(recording: str, profiles: dict[str, Profile]) -> None:
    actual = dict(by_name(profile_of(recording, profiles)["api_calls"]))
    expected = {strip_version(name): tuple(map(float, cells[1:])) for cells, name in reports(recording)["cuda_api_sum"]}
    assert set(actual) == set(expected)
    assert [name for name in actual if not is_close(actual[name], expected[name])] == []


@pytest.mark.parametrize("recording", RECORDINGS)
def test_copies_equal_those_of_nsys_stats(recording: str, profiles: dict[str, Profile]) -> None:
    work = profile_of(recording, profiles)["activities"].filter(pl.col("kind").is_in(["memcpy", "memset"]))
    actual = dict(by_name(work))
    sizes = {
        str(name): size / 1e6
        for name, size in work.group_by(pl.col("name").cast(pl.String)).agg(pl.col("size_bytes").sum()).iter_rows()
    }
    expected = reports(recording)
    for report in ("cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"):
        assert len(expected[report]) == len(actual)
    for cells, name in expected["cuda_gpu_mem_time_sum"]:
        assert is_close(actual[own_copy_kind(name)], tuple(map(float, cells[1:]))), name
    for cells, name in expected["cuda_gpu_mem_size_sum"]:
        assert abs(sizes[own_copy_kind(name)] - float(cells[0])) < 0.00051, name


@pytest.mark.parametrize("recording", RECORDINGS)
def test_ranges_equal_those_of_nsys_stats(recording: str, profiles: dict[str, Profile]) -> None:
    ranges = profile_of(recording, profiles)["ranges"]
    full = ranges.with_columns(
        name=pl.col("domain").cast(pl.String).fill_null("") + ":" + pl.col("name").cast(pl.String)
    )
    actual = dict(by_name(full))
    expected = reports(recording)["nvtx_sum"]
    assert len(expected) == len(actual)
    for cells, name in expected:
        assert cells[-1] == "PushPop"
        assert is_close(actual[name], tuple(map(float, cells[1:-1]))), name


def own_copy_kind(name: str) -> str:
    for direction, copy_kind in DIRECTIONS.items():
        name = name.replace(direction, copy_kind)
    return name
