"""Small inputs of every format: samples, generated ones and, beside the checkout, real ones; files and folders."""

from __future__ import annotations

import gzip
import json
import pickle
import tempfile
from collections import Counter
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.corpus import SHARED
from tests.dataset.converting import convert, files
from tests.loaders import (
    test_ascend_csv,
    test_ascend_database,
    test_memory_snapshot,
    test_perfetto,
    test_proton,
    test_tensorrt,
    test_torch_table,
    test_unitrace,
)
from tests.loaders.dlprof import twin as dlprof
from tests.loaders.ncu import test_ncu_report_file
from tests.loaders.nsys import test_folder
from tests.loaders.nsys import twin as nsys
from tests.loaders.nvprof import nvprof_database_build as nvprof_db
from tests.loaders.nvprof import test_nvprof_database
from tests.loaders.rocprof import rocpd_build as rocpd
from tests.loaders.rocprof import test_rocpd, test_rocprofv3_json
from tests.loaders.text import test_json_text
from tests.loaders.xla import test_xplane

SAMPLES = Path(__file__).parents[2] / "sample_logs"
MAX_BYTES = 300_000
MAX_EVENTS = 80
"""Events of a kind."""
SQLITE = b"SQLite format 3\0"
PARQUET = b"PAR1"
NO_INPUTS = ("expected.json", "SOURCES.tsv", "INDEX.md", "README.md", "sealed.bin")

Tree = dict[str, bytes]
"""The files of a folder, by where they lie in it."""


@cache
def inputs() -> dict[str, tuple[str, bytes]]:
    """Return the file name and content of each input."""
    files_by_name = {path.name: (path.name, content(path)) for path in sorted(SAMPLES.iterdir()) if path.is_file()}
    files_by_name |= {name: (name, data) for name, data in _generated().items()}
    with tempfile.TemporaryDirectory() as folder:
        for name in _DATABASES:
            path = Path(folder, name)
            _write_database(path)
            files_by_name[name] = (name, path.read_bytes())
    return files_by_name


def _generated() -> dict[str, bytes]:
    """Return an input of each format whose tests generate one, by file name."""
    rocprofv3 = {"rocprofiler-sdk-tool": [test_rocprofv3_json.PROCESS]}
    return {
        "snapshot.pickle": pickle.dumps(test_memory_snapshot.snapshot(), 4),
        "host.xplane.pb": test_xplane.WHOLE,
        "trace.pftrace": test_perfetto.INCREMENTAL + test_perfetto.BODY,
        "report.ncu-rep": test_ncu_report_file.REPORT,
        "run.hatchet": json.dumps(test_proton.TREE).encode(),
        "trtexec.log": (test_tensorrt.NAME_LAST + test_tensorrt.NAME_FIRST + test_tensorrt.SEVEN).encode(),
        "trtexec.json": test_tensorrt.EXPORTED.encode(),
        "unitrace.txt": (test_unitrace.SUMMARY + test_unitrace.TIMELINE).encode(),
        "unitrace.json": test_unitrace.trace(*test_unitrace.EVENTS, *test_unitrace.NAMES).encode(),
        "key_averages.txt": test_torch_table.usual_table().encode(),
        "docker.log": test_json_text.SAME_LINES["docker"](test_json_text.TEXTS["nvprof"]).encode(),
        "1_results.json": json.dumps(rocprofv3).encode(),
        "results.json": json.dumps(test_rocprofv3_json.TRACE).encode(),
        **{
            f"ascend_{number}.csv": text.encode()
            for number, text in enumerate(
                (
                    test_ascend_csv.KERNELS,
                    test_ascend_csv.STATISTIC,
                    test_ascend_csv.CALLS,
                    test_ascend_csv.MEMORY,
                    test_ascend_csv.STEPS,
                )
            )
        },
    }


_DATABASES = ("nsys.sqlite", "dlprof.sqlite", "run.nvprof", "run.rocpd.db", "ascend_pytorch_profiler_0.db")


def _write_database(path: Path) -> None:
    match path.name:
        case "nsys.sqlite":
            nsys.write(path, "2023.4")
        case "dlprof.sqlite":
            dlprof.write(path)
        case "run.nvprof":
            nvprof_db.write(
                path, test_nvprof_database.training_tables(), version=12, strings=test_nvprof_database.STRINGS
            )
        case "run.rocpd.db":
            rocpd.write(path, test_rocpd.recording())
        case _:
            test_ascend_database.write(path)


@cache
def folders() -> dict[str, Tree]:
    """Return folders that are opened as one input: ranks, a mixture, an export of Nsight Systems, a dataset."""
    all_inputs = inputs()
    ranks = {path.name.removesuffix(".gz"): content(path) for path in sorted((SAMPLES / "ddp_ranks").iterdir())}
    mixed = ("caffe_conv1.nvprof.log", "gemm.ncu.csv", "nsys.sqlite", "trace.pftrace", "snapshot.pickle")
    with tempfile.TemporaryDirectory() as folder:
        parquet = files(test_folder.write(Path(folder, "parquet")))
        traces = []
        for name, data in ranks.items():
            traces.append(str(Path(folder, name)))
            Path(folder, name).write_bytes(data)
        dataset = files(Path(convert(Path(folder, "dataset"), *traces)))
    ascend = {
        "kernel_details.csv": all_inputs["ascend_0.csv"][1],
        "ASCEND/step_trace_time.csv": all_inputs["ascend_4.csv"][1],
    }
    ascend["ascend_pytorch_profiler_0.db"] = all_inputs["ascend_pytorch_profiler_0.db"][1]
    return {
        "ranks": ranks,
        "mixed": {name: all_inputs[name][1] for name in mixed},
        "parquet": parquet,
        "dataset": dataset,
        "ascend": ascend,
    }


def real_inputs() -> list[str]:
    """Return the relative paths of the smaller real files beside the checkout; empty if there are none."""
    paths = [path for folder in ("corpus", "corpus2") for path in sorted((SHARED / folder).rglob("*"))]
    small = [path for path in paths if path.is_file() and path.stat().st_size <= MAX_BYTES]
    return [str(path.relative_to(SHARED)) for path in small if path.name not in NO_INPUTS]


def content(path: Path) -> bytes:
    """Return the decompressed content of a file; traces and texts are limited to what a test needs."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        with suppress(EOFError, OSError):  # some are damaged already
            data = gzip.decompress(data)
    if len(data) <= MAX_BYTES or data.startswith(SQLITE):
        return data
    if data.lstrip()[:1] == b"{":
        tree = json.loads(data)
        # Some of each kind: calls come long before the kernels that they launch.
        kinds: Counter[tuple[str, str]] = Counter()
        events = []
        for event in tree.get("traceEvents", []):
            kind = (event.get("ph", ""), event.get("cat", ""))
            kinds[kind] += 1
            if kinds[kind] <= MAX_EVENTS:
                events.append(event)
        return json.dumps({**tree, "traceEvents": events}).encode()
    end = data.rfind(b"\n", 0, MAX_BYTES)
    return data[: end + 1 or MAX_BYTES]
