"""Generates an nvprof trace of any size from a recorded one: as text, as nvprof's CSV, and as plain CSV.

The recording is repeated. As in a longer run, start times continue, durations, sizes and throughputs vary, and
correlation ids increase. Names and launch configurations repeat, as they do in training.
"""

from __future__ import annotations

import csv
import lzma
import os
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = ROOT / "bench" / "data"

_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_TIME = re.compile(r"([\d.]+)(ns|us|ms|s)")
_ROW = re.compile(r" *[\d.]+[num]?s +[\d.]+[num]?s ")
_ID = re.compile(r" \[(\d+)\](\)?)$")
_HEADINGS = re.compile(r"\S+(?: \S+)*")


@dataclass(frozen=True, slots=True)
class Recording:
    """The parsed rows of a trace."""

    header: str
    edges: tuple[int, ...]
    name_start: int
    footer: str
    rows: list[tuple[int, int, str, str]]
    """Start and duration in nanoseconds, the cells between duration and name, the name."""


def recording(*, with_api: bool) -> Recording:
    """The recorded trace: ``PROFTUI_BENCH_LOG``, a long one in ``bench/data``, or a sample log."""
    kind = "both" if with_api else "gputrace"
    places = [
        *([Path(os.environ["PROFTUI_BENCH_LOG"])] if "PROFTUI_BENCH_LOG" in os.environ else []),
        DATA / f"gpt_long.{kind}.txt.xz",
        ROOT / "sample_logs" / "resnet50_training.nvprof.log",
    ]
    path = next((place for place in places if place.exists()), None)
    if path is None:
        raise SystemExit("nothing to grow: set PROFTUI_BENCH_LOG to an nvprof log with a GPU trace")
    data = path.read_bytes()
    if path.suffix == ".xz":
        data = lzma.decompress(data)
    lines = data.decode().splitlines()
    first = next(index for index, line in enumerate(lines) if re.match(r" *Start +Duration +Grid Size", line))
    header = lines[first]
    headings = list(_HEADINGS.finditer(header))
    edges, name_start = tuple(found.end() for found in headings[:-1]), headings[-1].start()
    rows = []
    for line in lines[first + 1 :]:
        if _ROW.match(line):
            cells = line[edges[1] : name_start]
            rows.append((_ns(line[: edges[0]]), _ns(line[edges[0] : edges[1]]), cells, line[name_start:]))
    return Recording(header, edges, name_start, "\n" + "\n".join(lines[-5:]) + "\n", rows)


def text_log(count: int, *, with_api: bool = False, distinct: bool = False) -> tuple[Path, Path]:
    """A text trace with ``count`` rows, and the same rows as plain CSV.

    Args:
        count: The number of rows.
        with_api: Whether API calls are between the GPU activities.
        distinct: Whether every launch has a different grid.
    """
    stem = f"trace_{count}" + "_both" * with_api + "_distinct" * distinct
    text, clean = DATA / f"{stem}.nvprof.log", DATA / f"{stem}.csv"
    if not (text.exists() and clean.exists()):
        source = recording(with_api=with_api)
        DATA.mkdir(parents=True, exist_ok=True)
        with text.open("w") as log, clean.open("w", newline="") as table:
            writer = csv.writer(table)
            writer.writerow(_HEADINGS.findall(source.header))
            log.write(f"======== Profiling result:\n{source.header}\n")
            for start_ns, duration_ns, cells, name in _grown(source, count, distinct=distinct):
                log.write(f"{_time(start_ns):>8}{_time(duration_ns):>10}{cells}{name}\n")
                writer.writerow([_time(start_ns), _time(duration_ns), *_split(source, cells), name])
            log.write(source.footer)
    return text, clean


def csv_log(count: int) -> tuple[Path, Path]:
    """A trace as printed by ``nvprof --csv``, and the same rows as plain CSV."""
    path, clean = DATA / f"trace_{count}.nvprof.csv", DATA / f"trace_{count}.nvprof.clean.csv"
    if not (path.exists() and clean.exists()):
        source = recording(with_api=False)
        DATA.mkdir(parents=True, exist_ok=True)
        heading = (
            '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread",'
            '"Static SMem","Dynamic SMem","Size","Throughput","SrcMemType","DstMemType","Device","Context","Stream",'
            '"Name","Correlation_ID"\n'
        )
        with path.open("w") as log, clean.open("w") as table:
            log.write(f"======== Profiling result:\n{heading}ms,us,,,,,,,,KB,B,MB,GB/s,,,,,,,\n")
            table.write(heading)
            for row in _grown(source, count):
                line = _csv_row(source, *row)
                log.write(line)
                table.write(line)
    return path, clean


def _grown(source: Recording, count: int, *, distinct: bool = False) -> Iterator[tuple[int, int, str, str]]:
    chance = random.Random(7)
    offset = written = turn = 0
    size_edge, rate_edge = (edge - source.edges[1] for edge in _edges_of_sizes(source))
    span = source.rows[-1][0] + 10**6
    while True:
        for start_ns, duration_ns, cells, name in source.rows:
            if written == count:
                return
            duration_ns = max(1, round(duration_ns * chance.uniform(0.9, 1.1)))
            found = _ID.search(name)
            if found:
                name = f"{name[: found.start()]} [{(int(found[1]) + turn * 1_000_003) % 2**32}]{found[2]}"
            if name.startswith("["):
                size = max(1, round(_bytes(cells[size_edge - 10 : size_edge].strip()) * chance.uniform(0.2, 1)))
                left = f"{cells[: size_edge - 10]}{_size(size):>10}{_size(size / duration_ns * 1e9, '/s'):>12}"
                cells = left + cells[rate_edge:]
            elif distinct and "(" in cells:
                block = cells.index(")") + 1
                cells = f"{f'({written + 1} 1 1)':>{block}}" + cells[block:]
            yield offset + start_ns, duration_ns, cells, name
            written += 1
        offset += span
        turn += 1


def _edges_of_sizes(source: Recording) -> tuple[int, int]:
    return tuple(source.header.index(heading) + len(heading) for heading in ("      Size", "Throughput"))  # type: ignore[return-value]


def _split(source: Recording, cells: str) -> list[str]:
    shift = source.edges[1]
    bounds = zip(source.edges[1:-1], source.edges[2:], strict=True)
    return [cells[left - shift : right - shift].strip() for left, right in bounds]


def _csv_row(source: Recording, start_ns: int, duration_ns: int, cells: str, name: str) -> str:
    values = dict(zip(_HEADINGS.findall(source.header)[2:-1], _split(source, cells), strict=True))
    found = _ID.search(name)
    row: list[str] = [f"{start_ns / 1e6:.6f}", f"{duration_ns / 1e3:.6f}"]
    for heading in ("Grid Size", "Block Size"):
        cell = values[heading]
        row += ["", "", ""] if cell == "-" else cell.strip("()").split()
    plain = [values["Regs*"], _number(values["SSMem*"], "KB"), _number(values["DSMem*"], "B")]
    plain += [_number(values["Size"], "MB"), _number(values["Throughput"].removesuffix("/s"), "GB")]
    row += ["" if cell == "-" else cell for cell in plain]
    for heading in ("SrcMemType", "DstMemType", "Device", "Context", "Stream"):
        cell = values.get(heading, "-")
        row.append("" if cell == "-" else f'"{cell}"')
    row.append(f'"{name[: found.start()] if found else name}"')
    return ",".join([*row, found[1] if found else ""]) + "\n"


def _number(cell: str, unit: str) -> str:
    """A size in the unit of the CSV column."""
    units = ("B", "KB", "MB", "GB")
    found = re.fullmatch(r"([\d.e+]+)([KMG]?B)", cell)
    if not found:
        return cell
    value = float(found[1]) * 1024.0 ** (units.index(found[2]) - units.index(unit))
    return str(round(value)) if unit == "B" else f"{value:.6f}"


def _bytes(cell: str) -> float:
    number = cell.rstrip("KMGB")
    return float(number) * 1024.0 ** ("B", "KB", "MB", "GB").index(cell[len(number) :])


def _size(count: float, suffix: str = "") -> str:
    """A size or a rate as printed by nvprof."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 999.99 or unit == "GB":
            break
        count /= 1024
    if unit == "B" and not suffix:
        return f"{round(count)}B"
    return (
        f"{count:.{max(0, 5 - len(str(int(count))))}f}{unit}{suffix}" if count < 1e4 else f"{count:.0e}{unit}{suffix}"
    )


def _ns(cell: str) -> int:
    found = _TIME.fullmatch(cell.strip())
    assert found is not None
    return round(float(found[1]) * _NS[found[2]])


def _time(nanoseconds: int) -> str:
    """A time as printed by nvprof, in eight characters."""
    if nanoseconds < 1000:
        return f"{nanoseconds}ns"
    unit = "us" if nanoseconds < 999_995 else "ms" if nanoseconds < 999_995_000 else "s"
    value = nanoseconds / _NS[unit]
    return f"{value:.{(6 if unit == 's' else 5) - len(str(int(value)))}f}{unit}"
