"""The command line from outside: exit status, what is data and what is said, terminals and pipes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tui import __version__
from tui.cli.arguments import COMMANDS
from tui.cli.main import main
from tui.model.schema import FRAMES
from tui.output.exportable import AGGREGATES, MODEL_FRAMES

TRACE = """\
==7412== NVPROF is profiling process 7412, command: ./train --epochs 1
epoch 1 loss 0.5
==7412== Profiling application: ./train --epochs 1
==7412== Profiling result:
   Start  Duration            Grid Size      Block Size     Regs*    SSMem*    DSMem*      Size  Throughput           Device   Context    Stream  Name
317.13ms  1.4400us                    -               -         -         -         -  4.0000KB  2.6491GB/s   Tesla K40c (0)         1        13  [CUDA memcpy HtoD]
331.63ms  24.576us              (96 1 1)       (256 1 1)        15        0B  4.0000KB         -           -   Tesla K40c (0)         1        13  void relu<float, int=4>(float*, int) [112]
353.98ms  353.98ms          (27848 1 1)       (256 1 1)        40  8.2500KB        0B         -           -   Tesla K40c (0)         1        13  sgemm_sm35_ldg_nt_128x8x128x16x16 [115]

Regs: Number of registers used per CUDA thread. This number includes registers used internally by the CUDA driver and/or tools and can be more than what the compiler shows.
SSMem: Static shared memory allocated per CUDA block.
DSMem: Dynamic shared memory allocated per CUDA block.
"""  # noqa: E501
TOTAL_NS = 1_440 + 24_576 + 353_980_000


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "train.log"
    path.write_text(TRACE)
    return path


def proftui(
    *arguments: str | Path, stdin: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it as a program, without a terminal."""
    clean = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LC_ALL")}
    return subprocess.run(
        [sys.executable, "-m", "tui", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        env={**clean, "LC_ALL": "C.UTF-8", **(env or {})},
        timeout=60,
    )


def run(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run it in this process: status, standard output, standard error."""
    status = main([str(argument) for argument in arguments])
    said = capfd.readouterr()
    return status, said.out, said.err


def test_version_and_help(capfd: pytest.CaptureFixture[str]) -> None:
    for arguments, text in ((["--version"], f"proftui {__version__}\n"), (["--help"], "proftui COMMAND [options]")):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0
        assert text in capfd.readouterr().out


def test_help_names_every_command(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capfd.readouterr().out
    assert all(f"\n  {name} " in told for name in COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "proftui: name a file to open\n         as: proftui run.nvprof.log; proftui --help tells more\n"),
        (["--nonsense"], "proftui: unrecognized arguments: --nonsense\n         proftui --help\n"),
        (["report"], "proftui: the following arguments are required: FILE\n         proftui report --help\n"),
        (["export", "x"], "proftui: the following arguments are required: --frame\n         proftui export --help\n"),
        (["report", "-", "-"], "proftui: standard input (-) can be read once only\n"),
        (["diff", "-", "-"], "proftui: standard input (-) can be read once only\n"),
        (["inspect", "a.log", "--gpu", "abacus"], "proftui: --gpu abacus: nothing is known of a GPU of this name\n"),
        (["inspect", "no/such.log"], ""),
        (["formats", "x"], "proftui: unrecognized arguments: x\n         proftui formats --help\n"),
        (["diff", "x"], "proftui: the following arguments are required: B\n         proftui diff --help\n"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_status_2(
    capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    status, _out, err = run(capfd, *arguments)
    assert status == 2
    assert err.startswith(message)
    assert "Traceback" not in err


def test_a_command_that_does_not_come_first(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, _out, err = run(capfd, "--color", "never", "report", log)
    assert status == 2
    assert "proftui: report is a command and comes first\n         as: proftui report FILE\n" in err


def test_a_file_whose_name_begins_with_a_dash(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "-run.log").write_text(TRACE)
    monkeypatch.chdir(tmp_path)
    assert run(capfd, "inspect", "--format", "json", "--", "-run.log")[0] == 0
    assert run(capfd, "inspect", "--format", "json", "./-run.log")[0] == 0


def test_a_file_that_is_named_as_a_command(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report").write_text(TRACE)
    monkeypatch.chdir(tmp_path)
    status, out, _err = run(capfd, "inspect", "--format", "json", "report")
    assert status == 0
    assert json.loads(out)["source"] == "report"


def test_formats_lists_each_with_its_command(capfd: pytest.CaptureFixture[str]) -> None:
    from tui.loaders.registry import formats

    status, out, err = run(capfd, "formats")
    assert (status, err) == (0, "")
    for described in formats():
        assert f"{described.name}  {described.title}\n" in out
    assert out.count("record with") == len(formats())


def test_keys_lists_each_action(capfd: pytest.CaptureFixture[str]) -> None:
    from tui.keys import ACTIONS

    status, out, _err = run(capfd, "--keys")
    assert status == 0
    flat = " ".join(out.split())
    assert all(action.help in flat for action in ACTIONS)


# --- inspect ---------------------------------------------------------------------------------------------------------


def test_inspect_tells_one_object_a_line_and_goes_on_after_a_bad_file(
    capfd: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty.log").touch()
    status, out, err = run(capfd, "inspect", "--format", "json", tmp_path / "empty.log", log)
    first, second = (json.loads(line) for line in out.splitlines())
    assert status == 2
    assert err == ""
    assert set(first) == {"source", "error"}
    assert first["source"] == str(tmp_path / "empty.log")
    assert second["source"] == str(log)
    assert second["sessions"][0]["frames"]["activities"] == {
        "rows": 3,
        "duration_ns": TOTAL_NS,
        "by_kind": {"kernel": {"rows": 2, "duration_ns": 354_004_576}, "memcpy": {"rows": 1, "duration_ns": 1_440}},
    }


def test_inspect_for_people(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, out, _err = run(capfd, "inspect", log)
    assert status == 0
    assert "session 0: nvprof-text, process 7412, lines 1 to" in out
    assert "command: ./train --epochs 1\n" in out
    assert "    activities    3 rows, 354.01 ms\n" in out
    assert "  cannot show api-calls: no API calls: record with nvprof --print-api-trace\n" in out


# --- export ----------------------------------------------------------------------------------------------------------


def test_every_frame_of_the_model_can_be_exported(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    assert tuple(FRAMES) == MODEL_FRAMES
    for name, schema in FRAMES.items():
        status, out, _err = run(capfd, "export", log, "--frame", name)
        assert status == 0
        assert out.splitlines()[0] == ",".join(schema)


def test_export_has_the_launch_configuration_in_base_units(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, out, err = run(capfd, "export", log, "--frame", "activities", "--format", "ndjson")
    assert (status, err) == (0, "")
    rows = [json.loads(line) for line in out.splitlines()]
    assert sum(row["duration_ns"] for row in rows) == TOTAL_NS
    gemm = rows[2]
    assert gemm["name"] == "sgemm_sm35_ldg_nt_128x8x128x16x16"
    assert [gemm[f"grid_{axis}"] for axis in "xyz"] == [27848, 1, 1]
    assert [gemm[f"block_{axis}"] for axis in "xyz"] == [256, 1, 1]
    assert (gemm["registers"], gemm["static_shared_bytes"], gemm["dynamic_shared_bytes"]) == (40, 8448, 0)
    assert (gemm["correlation"], gemm["line"], gemm["size_bytes"]) == (115, 8, None)
    assert rows[0]["size_bytes"] == 4096


def test_exported_kernels_have_the_promised_columns(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    _status, out, _err = run(capfd, "export", log, "--frame", "kernels")
    lines = out.splitlines()
    assert lines[0] == (
        "session,kind,name,calls,total_ns,avg_ns,min_ns,max_ns,median_ns,p90_ns,p99_ns,std_ns,time_pct,uses_tensor_core"
    )
    assert lines[1].startswith("0,kernel,sgemm_sm35_ldg_nt_128x8x128x16x16,1,353980000,353980000,")
    assert [line.split(",")[1] for line in lines[1:]] == ["kernel", "kernel", "memcpy"]


def test_export_to_a_file_says_so_and_never_replaces_one(
    capfd: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    target = tmp_path / "kernels.tsv"
    assert run(capfd, "export", log, "--frame", "kernels", "-o", target) == (
        0,
        "",
        f"proftui: wrote 3 rows of kernels to {target}\n",
    )
    before = target.read_bytes()
    assert before.startswith(b"session\tkind\tname\t")
    status, _out, err = run(capfd, "export", log, "--frame", "kernels", "-o", target)
    assert status == 2
    assert f"proftui: {target} exists\n" in err
    assert run(capfd, "export", log, "--frame", "api", "-o", target, "--overwrite")[0] == 0
    assert target.read_bytes() != before


def test_a_file_that_cannot_be_read_does_not_stop_the_others(
    capfd: pytest.CaptureFixture[str], log: Path, tmp_path: Path
) -> None:
    status, out, err = run(capfd, "export", tmp_path / "gone.log", log, "--frame", "sessions")
    assert status == 2
    assert len(out.splitlines()) == 2
    assert err.startswith(f"proftui: {tmp_path / 'gone.log'}")
    assert len(err.splitlines()) == 1


def test_the_k40c_log_is_whole(capfd: pytest.CaptureFixture[str]) -> None:
    sample = Path(__file__).parents[2] / "sample_logs" / "caffe_conv1.nvprof.log"
    _status, out, _err = run(capfd, "export", sample, "--frame", "activities", "--format", "ndjson")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (len(rows), sum(row["duration_ns"] for row in rows)) == (32, 753_580_086)
    kernels = [row for row in rows if row["kind"] == "kernel"]
    assert len(kernels) == 20
    config = ["grid_x", "block_x", "registers", "static_shared_bytes", "dynamic_shared_bytes", "stream", "correlation"]
    assert not [row for row in kernels for name in config if row[name] is None]


def test_the_ending_of_the_path_tells_the_format(capfd: pytest.CaptureFixture[str], log: Path, tmp_path: Path) -> None:
    for ending, beginning in (("parquet", b"PAR1"), ("xlsx", b"PK"), ("md", b"| session |"), ("json", b"[{")):
        target = tmp_path / f"kernels.{ending}"
        assert run(capfd, "export", log, "--frame", "kernels", "-o", target)[0] == 0
        assert target.read_bytes().startswith(beginning)


RANK_FRAMES = (
    "slowest_ranks",
    "op_type_ranks",
    "op_ranks",
    "collective_kinds",
    "collectives",
    "collective_ranks",
)
"""Of several ranks, which one log does not have."""


def test_every_aggregate_can_be_exported(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    rows = {}
    for name in AGGREGATES:
        status, out, _err = run(capfd, "export", log, "--frame", name, "--gpu", "Tesla K40c")
        assert status == 0
        rows[name] = len(out.splitlines()) - 1
    assert rows.pop("findings") > 0
    assert rows == {
        "kernels": 3,
        "api": 0,
        "ops_by_name": 3,
        "op_types": 3,
        "op_type_summary": 3,
        "op_instances": 3,
        "op_forest": 7,
        "op_kernels": 3,
        "occupancy": 2,
        "iterations": 1,
        "iteration_work": 1,
        "iteration_times": 1,
        "key_choices": 0,
        "ranges_by_name": 0,
        "range_instances": 0,
        "gpus": 1,
        "layer_times": 0,
        "layer_totals": 0,
        "breakdown": 7,
        "idle_time": 1,
        "gaps": 2,
        "gap_summary": 1,
        "overlap": 1,
        "launch_delays": 0,
        "delays_by_name": 0,
        "op_overheads": 0,
        "transfers": 1,
        "transfer_sizes": 1,
        "tiny_runs": 0,
        "timeline_lanes": 1,
        "single_transfers": 1,
        "unified_memory": 0,
        "allocators": 0,
        "allocator_iterations": 0,
        "streams": 1,
        "ranks": 0,
        "rank_iterations": 0,
        "ranks_of_op": 3,
        **dict.fromkeys(RANK_FRAMES, 0),
        "api_threads": 0,
        "api_errors": 0,
        "ranges_by_depth": 0,
    }


# --- sessions --------------------------------------------------------------------------------------------------------


def test_several_files_are_several_sessions(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    _status, out, _err = run(capfd, "export", log, log, "--frame", "kernels", "--session", "1")
    assert {line.split(",")[0] for line in out.splitlines()[1:]} == {"1"}
    status, _out, err = run(capfd, "export", log, log, "--frame", "kernels", "--session", "2")
    assert (status, err) == (2, "proftui: there is no session 2\n         sessions: 0 to 1\n")


# --- pipes and terminals ---------------------------------------------------------------------------------------------


def test_standard_input_is_a_file() -> None:
    done = proftui("export", "-", "--frame", "kernels", "--format", "json", stdin=TRACE)
    assert done.returncode == 0
    assert sum(row["total_ns"] for row in json.loads(done.stdout)) == TOTAL_NS


def test_without_a_terminal_the_report_is_printed_with_a_hint(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, told, _err = run(capfd, "report", log)
    assert status == 0
    assert told.startswith(f"{log}\n\nExpert Systems (")
    assert "\nPerformance summary\n" in told
    hint = "standard output is not a terminal: this is the text report; open the file in a terminal to explore it"
    assert run(capfd, log) == (0, told, f"proftui: {hint}\n")
    gone = log.with_name("gone.log")
    assert run(capfd, gone) == (2, "", f"proftui: {gone}: no such file\n")


def test_an_empty_name(capfd: pytest.CaptureFixture[str]) -> None:
    said = "proftui: the name of a file is empty\n         is a variable of the shell not set?\n"
    assert run(capfd, "report", "") == (2, "", said)
    assert run(capfd, "") == (2, "", said)


def test_a_command_that_is_mistyped(capfd: pytest.CaptureFixture[str], log: Path) -> None:
    status, out, err = run(capfd, "repport", log)
    assert (status, out) == (2, "")
    assert err == "proftui: repport: no such file or command\n         meant is perhaps: proftui report\n"


def test_a_reader_who_has_had_enough_is_left_in_peace(tmp_path: Path) -> None:
    rows = TRACE.splitlines()
    (tmp_path / "long.log").write_text("\n".join([*rows[:8], *(rows[7] for _ in range(20_000))]) + "\n")
    command = f"{sys.executable} -m tui export long.log --frame activities | head -n 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines()[1] == "0"


def test_closed_standard_streams(log: Path) -> None:
    def closed(streams: str) -> subprocess.CompletedProcess[str]:
        command = f"{sys.executable} -m tui export {log} --frame nosuch {streams}"
        return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)

    done = closed(">&-")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "proftui: standard output is closed")
    # What is said to the person is no data.
    done = closed("2>&- <&-")
    assert (done.returncode, done.stdout) == (2, "")


PROFTUI = (sys.executable, "-m", "tui")


def on_a_terminal(
    arguments: Sequence[str | Path],
    *,
    env: dict[str, str],
    stdin: bytes | None = None,
    program: Sequence[str] = PROFTUI,
) -> tuple[int, str]:
    """Run it with a terminal of its own on standard output and error (and input, unless data is piped in)."""
    main, secondary = pty.openpty()
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(
            [*program, *map(str, arguments)],
            stdin=secondary if stdin is None else reader,
            stdout=secondary,
            stderr=secondary,
            env={**os.environ, "LC_ALL": "C.UTF-8", **env},
            start_new_session=True,
        )
        os.write(writer, stdin or b"")
    finally:
        os.close(secondary)
        os.close(reader)
        os.close(writer)
    shown = b""
    while True:
        try:
            piece = os.read(main, 65536)
        except OSError:  # Linux: the other end is closed.
            break
        if not piece:
            break
        shown += piece
    os.close(main)
    return process.wait(60), shown.decode().replace("\r\n", "\n")


def test_a_dumb_terminal_gets_the_report(log: Path) -> None:
    status, shown = on_a_terminal([log], env={"TERM": "dumb"})
    assert status == 0
    assert shown.splitlines()[-1].startswith("proftui: TERM is dumb: this is the text report")
    assert "\x1b" not in shown


def test_a_file_that_is_not_there_is_said_without_a_screen(tmp_path: Path) -> None:
    status, shown = on_a_terminal([tmp_path / "gone.log"], env={"TERM": "xterm"})
    assert status == 2
    assert shown.startswith(f"proftui: {tmp_path / 'gone.log'}: no such file")
    assert "\x1b" not in shown


def test_the_keyboard_is_no_profile() -> None:
    status, shown = on_a_terminal(["-"], env={"TERM": "xterm"})
    assert status == 2
    assert "proftui: standard input (-) is the keyboard\n" in shown


def test_keys_need_a_terminal_when_data_comes_through_standard_input() -> None:
    # The new session has no controlling terminal, so that there is no /dev/tty.
    status, shown = on_a_terminal(["-"], env={"TERM": "xterm"}, stdin=TRACE.encode())
    assert status == 2
    assert "proftui: there is no terminal to read keys from" in shown


def test_with_a_terminal_keys_and_data_are_kept_apart() -> None:
    code = (
        "import os, sys\nfrom tui.cli.app import _take_keys_from_terminal\n_take_keys_from_terminal()\n"
        "keys = sys.__stdin__.fileno()\n"
        "print(os.isatty(keys), sys.stdin.buffer.read(), os.read(keys, 10), flush=True)\n"
    )
    reader, writer = os.pipe()
    child, main = pty.fork()
    if child == 0:
        os.close(writer)
        os.dup2(reader, 0)
        os.execv(sys.executable, [sys.executable, "-c", code])
    os.close(reader)
    os.write(writer, b"data")
    os.close(writer)
    os.write(main, b"q\n")
    shown = b""
    while b"q\\n" not in shown:
        shown += os.read(main, 4096)
    os.waitpid(child, 0)
    os.close(main)
    assert b"True b'data' b'q\\n'" in shown


def test_a_profile_never_writes_escapes_to_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "hostile.log"
    path.write_text(TRACE.replace("relu<", "re\x1b]52;c;aGk=\x07\x1b[31mlu\u202e<"))
    runs = [
        ["export", str(path), "--frame", "activities"],
        ["export", str(path), "--frame", "kernels", "--format", "json"],
        ["report", str(path), "--view", "kernels", "--color", "never"],
        ["report", str(path), "--format", "json", "--color", "never"],
        ["report", str(path), "--color", "never"],
        ["inspect", str(path)],
    ]
    code = f"from tui.cli.main import main\nfor run in {runs!r}: assert main(run) == 0"
    status, shown = on_a_terminal(["-c", code], env={"TERM": "xterm"}, program=[sys.executable])
    assert status == 0
    assert shown.count("lu") >= len(runs) - 1
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "\u202e" not in shown


def test_interrupting_is_status_130(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    def interrupted(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tui.loaders.registry.load_one", interrupted)
    assert main(["inspect", str(log)]) == 130


def test_a_bug_is_shown_as_one(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], log: Path) -> None:
    def broken(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tui.loaders.registry.load_one", broken)
    assert main(["inspect", str(log)]) == 70
    assert capfd.readouterr().err.startswith("proftui stopped: ZeroDivisionError; the report is in ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_is_one_line(log: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        for arguments in (["export", log, "--frame", "kernels"], ["report", log]):
            command = [sys.executable, "-m", "tui", *map(str, arguments)]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
            assert (done.returncode, done.stderr) == (2, "proftui: standard output: No space left on device\n")


def test_interrupting_the_wait_for_a_silent_pipe_is_status_130() -> None:
    command = [sys.executable, "-m", "tui", "report", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdin is not None
        sample = Path(__file__).parents[2] / "sample_logs" / "resnet50_training.nvprof.log"
        said = sample.read_bytes()[: 1 << 20]
        # All of it has been taken from the pipe once the writer is through, but for what the pipe itself holds.
        running.stdin.write(said)
        running.stdin.flush()
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130
        assert running.stderr is not None
        assert b"Traceback" not in running.stderr.read()


# --- iterations ------------------------------------------------------------------------------------------------------


@pytest.fixture
def loop(tmp_path: Path) -> Path:
    """A log of four steps of three kernels."""
    head, _, tail = TRACE.partition("317.13ms")
    tail = tail[tail.index("\n\nRegs:") :]
    row = "{:.2f}ms  24.576us              (96 1 1)       (256 1 1)        15        0B  4.0000KB         -           -   Tesla K40c (0)         1        13  {} [{}]\n"  # noqa: E501
    rows = "".join(row.format(300 + at, name, 100 + at) for at, name in enumerate(["conv", "relu", "fc"] * 4))
    path = tmp_path / "loop.log"
    path.write_text(f"{head.rstrip(' ')}{rows}{tail.lstrip(chr(10))}")
    return path


def test_iterations_are_found_chosen_and_cut_by_a_key(capfd: pytest.CaptureFixture[str], loop: Path) -> None:
    def told(*options: str) -> tuple[int, dict[str, Any]]:
        _status, out, _err = run(capfd, "inspect", "--format", "json", *options, loop)
        frames = json.loads(out)["sessions"][0]["frames"]
        return frames["activities"]["rows"], frames["iterations"]

    found = {"source": "found", "reason": "3 launches repeat 4 times, the same kernels in every one"}
    assert told() == (12, {"rows": 4, **found})
    assert told("--iterations", "1:2") == (6, {"rows": 2, **found})
    assert told("--iterations", "3") == (3, {"rows": 1, **found})
    by_key = {"source": "key", "reason": "kernel fc ends 4 iterations"}
    assert told("--key", "fc", "--iterations", ":1") == (6, {"rows": 2, **by_key})
    _status, out, _err = run(capfd, "export", loop, "--frame", "kernels", "--iterations", "0:1")
    assert [line.split(",")[3] for line in out.splitlines()[1:]] == ["2", "2", "2"]
    _status, out, _err = run(capfd, "export", loop, "--frame", "activities", "--iterations", "2:", "--format", "json")
    assert [row["iteration"] for row in json.loads(out)] == [2, 2, 2, 3, 3, 3]
    for view in ("dashboard", "kernels", "iterations"):
        _status, out, _err = run(capfd, "report", loop, "--view", view, "--iterations", "0:1", "--key", "fc")
        assert "Of iterations 0:1 by the key fc only." in out
    _status, out, _err = run(capfd, "report", loop, "--view", "iterations", "--format", "json")
    assert json.loads(out)["sources"] == {"0": f"found: {found['reason']}"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--iterations", "4:"],
            "there is no iteration from 4 on here\n         iterations: 0 to 3 (found: 3 launches",
        ),
        (["--iterations", "x"], "--iterations x: not a range of iterations\n         as 3:7, 3:, :7 or 5\n"),
        (["--key", "con"], "there"),
        (["--key", "conw"], "--key conw: no kernel, op, range or API call of this name\n         near to it: conv\n"),
        (["--key", ""], "--key needs the name of a kernel, op, range or API call\n"),
    ],
    ids=["none", "no range", "part", "near", "empty"],
)
def test_iterations_that_are_not_there_are_one_clear_line(
    capfd: pytest.CaptureFixture[str], loop: Path, options: list[str], message: str
) -> None:
    status, out, err = run(capfd, "report", loop, *options)
    if options[1] == "con":
        # A part of just one name is that name.
        assert (status, err) == (0, "")
        assert "all iterations by the key con" in out
    else:
        assert (status, out) == (2, "")
        assert err.startswith(f"proftui: {message}")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert capfd.readouterr().out.startswith(f"usage: proftui {command} ")
