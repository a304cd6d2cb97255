"""A dataset in an object store, served by a small S3 server of the test."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import polars as pl
import pytest

from tests.dataset.converting import RANKS, assert_same_rows, convert
from tests.profiles import SAMPLES
from tui.cli.main import main
from tui.loaders import dataset_loader
from tui.loaders.dataset_loader import FAST_FAIL_OPTIONS
from tui.loaders.registry import load_input
from tui.model.errors import ProftuiError
from tui.model.profile import merge_profiles


class _Store(BaseHTTPRequestHandler):
    """Answers HEAD and GET requests for whole objects and for ranges, as S3 does."""

    folder: Path
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_PUT(self) -> None:
        path = self.folder / unquote(self.path.partition("?")[0]).removeprefix("/bucket/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(200, b"", {}, body=True)

    def _answer(self, *, body: bool) -> None:
        if "list-type=2" in self.path:
            return self._send(200, self._listed(), {}, body=body)
        if "Authorization" not in self.headers:
            return self._send(403, b"<Error><Code>AccessDenied</Code></Error>", {}, body=body)
        path = self.folder / unquote(self.path.partition("?")[0]).removeprefix("/bucket/")
        if not path.is_file():
            return self._send(404, b"<Error><Code>NoSuchKey</Code></Error>", {}, body=body)
        data, size = path.read_bytes(), path.stat().st_size
        byte_range = self.headers.get("Range", "")
        if not byte_range:
            return self._send(200, data, {}, body=body)
        first, _, last = byte_range.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        return self._send(206, data[start:end], {"Content-Range": f"bytes {start}-{end - 1}/{size}"}, body=body)

    def _listed(self) -> bytes:
        prefix = parse_qs(self.path.partition("?")[2]).get("prefix", [""])[0]
        files = [path.relative_to(self.folder).as_posix() for path in sorted(self.folder.rglob("*")) if path.is_file()]
        objects = "".join(
            f"<Contents><Key>{name}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><ETag>x</ETag>"
            f"<Size>{(self.folder / name).stat().st_size}</Size></Contents>"
            for name in files
            if name.startswith(prefix)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{objects}</ListBucketResult>".encode()

    def _send(self, status: int, data: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(status)
        reported = {"Content-Length": str(len(data)), "ETag": '"x"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
        for name, value in {**reported, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the folder that is served as ``s3://bucket``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Store", (_Store,), {"folder": tmp_path}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }.items():
        monkeypatch.setenv(name, value)
    yield tmp_path
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("in_memory", [True, False])
def test_an_address_opens(in_memory: bool, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not in_memory:
        monkeypatch.setattr(dataset_loader, "IN_MEMORY_BYTES", 0)
    convert(store / "runs" / "one", *RANKS)
    profile = load_input("s3://bucket/runs/one")
    assert_same_rows(merge_profiles([load_input(path) for path in RANKS]), profile)
    assert profile.sources == ("s3://bucket/runs/one",)


def test_a_missing_file_is_named(store: Path) -> None:
    convert(store / "one", *RANKS)
    next((store / "one/ops/rank=0").iterdir()).unlink()
    profile = load_input("s3://bucket/one/")
    assert profile["sessions"]["rank"].to_list() == [1]
    assert "ops/rank=0" in "".join(profile["issues"]["reason"])


@pytest.mark.usefixtures("store")
def test_no_warning_about_an_unset_region(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = pl.scan_lines

    def scan_lines_with_warning(*args: Any, **options: Any) -> pl.LazyFrame:
        # Word for word; Polars says it only where it goes on to ask the store of Amazon itself.
        words = "'(default_)region' not set; polars will try to get it from bucket\n\nSet the region manually"
        warnings.warn(words, UserWarning, stacklevel=2)
        return scan(*args, **options)

    monkeypatch.setattr(pl, "scan_lines", scan_lines_with_warning)
    with pytest.raises(ProftuiError, match="cannot be read"):
        load_input("s3://bucket/nothing")


def test_an_address_without_a_dataset_is_an_error(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "s3://bucket/nothing"]) == 2
    reported = capsys.readouterr().err.splitlines()
    assert len(reported) == 2
    assert "s3://bucket/nothing/proftui-dataset.json: cannot be read" in reported[0]
    assert "AWS_ACCESS_KEY_ID" in reported[1]


@pytest.mark.usefixtures("store")
def test_an_unreachable_store_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(ProftuiError, match="cannot be read"):
        load_input("s3://bucket/one")


def test_requests_to_a_busy_store_are_retried_only_a_few_times(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def is_busy(handler: _Store, *, body: bool) -> None:
        requests.append(handler.command)
        handler._send(503, b"<Error><Code>SlowDown</Code></Error>", {}, body=body)

    convert(store / "one", *RANKS)
    monkeypatch.setattr(_Store, "_answer", is_busy)
    with pytest.raises(ProftuiError, match="cannot be read"):
        load_input("s3://bucket/one")
    assert len(requests) == 1 + FAST_FAIL_OPTIONS["max_retries"]


def test_a_baseline_can_be_an_address(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(SAMPLES / "gpt_summary.nvprof.log")
    save = ["baseline", "save", "main", log, "--dir", "s3://bucket/baselines"]
    assert main(save) == 0
    stored = (store / "baselines/main.parquet").read_bytes()
    assert len(stored) < 20_000
    assert f"({len(stored):,} bytes)" in capsys.readouterr().err
    assert main(save) == 2
    assert "s3://bucket/baselines/main.parquet exists" in capsys.readouterr().err
    assert main(["diff", "--baseline", "main", log, "--dir", "s3://bucket/baselines"]) == 0
    assert capsys.readouterr().out.startswith("baseline main > gpt_summary.nvprof.log\n\nNO CHANGE: ")
    assert main(["diff", "--baseline", "none", log, "--dir", "s3://bucket/baselines"]) == 2
    assert "s3://bucket/baselines/none.parquet: no such baseline" in capsys.readouterr().err
    folder = ["--dir", "s3://bucket/baselines"]
    assert main(["baseline", "list", *folder]) == 0
    assert capsys.readouterr().out.startswith("main  1 run, 0 iterations  GPU not recorded  gpt_")
    assert main(["baseline", "rm", "main", *folder]) == 0
    assert main(["baseline", "list", *folder]) == 0
    output = capsys.readouterr()
    assert (output.out, output.err.splitlines()[-1]) == ("", "proftui: 0 baselines in s3://bucket/baselines")
    assert main(["diff", "--baseline", "main", log, *folder]) == 2
    assert "s3://bucket/baselines/main.parquet: no such baseline" in capsys.readouterr().err
    assert main(["baseline", "rm", "main", *folder]) == 2
    assert main(save) == 0, "its name is free again"
    assert main(["baseline", "list", "--dir", "s3://bucket/elsewhere"]) == 0
