"""nvprof's databases against the results of other tools."""

from __future__ import annotations

import ast
import csv
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from tui.loaders.demangle import demangled
from tui.loaders.registry import load_input

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.profile import Profile


def ops_around(profile: Profile, op: int | None) -> list[str]:
    """Return names of an op and its enclosing ops, the outermost first."""
    rows = {row["op"]: row for row in profile["ops"].select("op", "name", "parent").iter_rows(named=True)}
    names: list[str] = []
    while op is not None:
        names.insert(0, rows[op]["name"])
        op = rows[op]["parent"]
    return names


def test_kernels_have_the_ops_of_pyprof(corpus: Callable[[str], str]) -> None:
    profile = load_input(corpus("nvprof_db/pyprof_lm/net.sql"))
    kernels = profile["activities"].filter(pl.col("kind") == "kernel").rows(named=True)
    reported = [
        ast.literal_eval(line) for line in Path(corpus("nvprof_db/pyprof_lm/net.dict")).read_text("utf-8").splitlines()
    ]
    table = list(csv.DictReader(Path(corpus("nvprof_db/pyprof_lm/lm.csv")).read_text("utf-8").splitlines()))
    assert len(kernels) == len(reported) == len(table) == 160
    forward = dict(profile["ops"].select("op", "forward").iter_rows())
    directions = dict(profile["ops"].select("op", pl.col("direction").cast(pl.String)).iter_rows())
    for row, expected, line in zip(kernels, reported, table, strict=True):
        assert row["op_join"] == "launch"
        assert row["short_name"].split("::")[-1] == expected["kShortName"] == line["Kernel"]
        assert row["duration_ns"] == expected["kDuration"]
        assert tuple(row[f"grid_{axis}"] for axis in "xyz") == expected["grid"]
        assert tuple(row[f"block_{axis}"] for axis in "xyz") == expected["block"]
        around = ops_around(profile, row["op"])
        assert {marker.split(",")[0] for marker in expected["seqMarker"]} <= set(around)
        if expected["marker"]:
            called = [f"{module}.{op}" for module, op in zip(expected["mod"], expected["op"], strict=True)]
            assert set(called) <= set(around)
        if expected["dir"] == "bprop":
            assert directions[row["op"]] == "bprop"
            backward = row["op"]
            while forward[backward] is None:
                backward = dict(profile["ops"].select("op", "parent").iter_rows())[backward]
            enclosing = ops_around(profile, forward[backward])
            assert line["Op"].lower() in {name.rsplit(".", 1)[-1].lower() for name in enclosing}


def test_every_kernel_of_tensorrt_has_a_layer(corpus: Callable[[str], str]) -> None:
    profile = load_input(corpus("nvprof_db/jetson_yolo.nvvp"))
    kernels = profile["activities"].filter(pl.col("kind") == "kernel")
    around = [ops_around(profile, op) for op in kernels["op"]]
    assert len(around) == 51
    assert {names[0] for names in around} == {"ExecutionContext::enqueue"}
    assert {len(names) for names in around} == {2}
    assert around[0][1].startswith("Reformatting CopyNode for Input Tensor 0")


def test_mangled_names_of_real_profiles_are_demangled(corpus: Callable[[str], str]) -> None:
    for name in ("pyprof_lm/net.sql", "jetson_yolo.nvvp", "thesis_results.nvprof", "em2017_analysis.nvprof"):
        connection = sqlite3.connect(f"file:{corpus(f'nvprof_db/{name}')}?mode=ro", uri=True)
        mangled = [text for (text,) in connection.execute("SELECT value FROM StringTable") if text.startswith("_Z")]
        connection.close()
        assert len(demangled(mangled)) == len(mangled)
