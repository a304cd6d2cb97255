"""The command that `X` copies prints exactly the rows on the screen, in every view, tab and table."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.screens.explorer import app_of, go_to, open_explorer, press, run_line, sample_path, screen_of, settle
from tui.cli.main import main
from tui.model.aggregation import aggregation
from tui.screens.copied_command import copied_command
from tui.screens.tabs import TabbedTables
from tui.screens.timeline import TimelineScreen
from tui.tables import REPORTS, view_of_report
from tui.widgets.table import tree

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tui.widgets.table.pane import TablePane


pytestmark = pytest.mark.usefixtures("cached_samples")
Rows = list[dict[str, Any]]
INPUTS: Final = (
    "resnet50_training.nvprof.log",
    "resnet50_training.pt.trace.json.gz",
    "gpt_cudagraph.nsys.sqlite.gz",
    "ddp_ranks",
    "tracking_four_runs.nvprof.log",
    "gemm.ncu.csv",
)
SMALL: Final = "mlp_modules.pt.trace.json.gz"
SCREEN_ONLY: Final = {"aggregated", "key", "#"}
"""Columns that only the screen or only the command has."""


def rows_printed(capfd: pytest.CaptureFixture[str], command: str) -> Rows:
    """Return the rows that a copied command prints."""
    program, *words = shlex.split(command)
    assert program == "proftui"
    assert main([*words, "--format", "json"]) == 0
    rows: Rows = json.loads(capfd.readouterr().out)["rows"]
    return rows


def rows_on_screen(pane: TablePane) -> Rows:
    """Return the rows of a table on the screen."""
    columns = [column.name for column in pane.model.columns()]
    rows: Rows = json.loads(pane.model.shown_frame().select(columns).write_json())
    return rows


def assert_same_rows(rows: Rows, shown: Rows, description: str) -> None:
    assert len(rows) == len(shown), description
    for place, row in enumerate(shown):
        expected = {name: value for name, value in row.items() if name not in SCREEN_ONLY}
        assert expected == pytest.approx({name: rows[place][name] for name in expected}), (description, place)


async def command_and_rows(pilot: Pilot[None], pane: TablePane) -> tuple[str, Rows]:
    """Return the command of a table, and its rows."""
    screen = screen_of(pilot)
    pane.focus_table()
    await settle(pilot)
    return copied_command(screen), rows_on_screen(pane)


async def test_a_copied_command_prints_the_rows_as_arranged(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the filter, order, columns, limit, iterations, session and unfolded rows of the screen."""
    # A tree begins with its first two levels, whatever the room.
    monkeypatch.setattr(tree, "MIN_UNFOLDED_SHARE", 1)
    found: list[tuple[str, Rows]] = []
    sample_log = sample_path("resnet50_training.nvprof.log")

    async def take() -> None:
        screen = screen_of(pilot)
        assert screen.table is not None
        found.append(await command_and_rows(pilot, screen.table))

    async with open_explorer("resnet50_training.nvprof.log", view="kernels", notifications=True) as pilot:
        app_of(pilot).profile_session.choose_iterations(aggregation("2:3", None))
        await settle(pilot)
        for line in ("filter calls>=5 gemm", "sort -max,name", "top 4"):
            await run_line(pilot, line)
        await press(pilot, "l", "H")
        await take()
        await press(pilot, "j", "enter")
        await run_line(pilot, "filter dur>26us")
        await take()
        await press(pilot, "X")
        (message,) = app_of(pilot)._notifications
        assert message.message.startswith(f"{found[-1][0]}\n")
        await go_to(pilot, "group-ops")
        await take()
        await press(pilot, "z")
        await take()
        await run_line(pilot, "filter gemm")
        await take()
        await go_to(pilot, "timeline")
        screen = screen_of(pilot, TimelineScreen)
        assert copied_command(screen) == f"proftui report {sample_log} --view timeline --iterations 2:3"
        window = screen.lanes.window
        assert window is not None
        screen.lanes.show_window(window.zoomed_in(window.begin_ns).zoomed_in(window.begin_ns))
        timeline_command, window = copied_command(screen), screen.lanes.window
        await go_to(pilot, "log")
        assert app_of(pilot).view_screen is not None
        log_command = copied_command(app_of(pilot).view_screen)
    assert timeline_command == (
        f"proftui export {sample_log} --format chrome --from={window.first_ns}ns --to={window.last_ns}ns "
        "--iterations 2:3"
    )
    assert main(shlex.split(timeline_command)[1:]) == 0
    events = json.loads(capfd.readouterr().out)["traceEvents"]
    spans = [(event["ts"] * 1000, (event["ts"] + event["dur"]) * 1000) for event in events if event["ph"] == "X"]
    assert len(spans) > 100
    assert all(start < window.last_ns and end > window.first_ns for start, end in spans)
    assert log_command.startswith("sed -n 1,")
    assert log_command.endswith(f"p {sample_log}")
    assert [command.removeprefix(f"proftui report {sample_log} --view ") for command, _rows in found] == [
        "kernels '--filter=calls>=5 gemm' --sort=-max_ns,name --columns name,time_pct,calls,avg_ns,max_ns,min_ns,"
        "median_ns,p90_ns,p99_ns,std_ns,kind,uses_tensor_core,session,line --limit 4 --iterations 2:3",
        "kernels --table launches '--row=0/kernel/sm90_xmma_wgrad_indexed_implicit_gemm_bf16bf16_~21e034ddf4b29703' "
        "'--filter=duration_ns>26us' --iterations 2:3",
        "group-ops --depth 2 --iterations 2:3",
        "group-ops --depth 1 --iterations 2:3",
        "group-ops --unfold=gemm --filter=gemm --iterations 2:3",
    ]
    assert [len(rows) for _command, rows in found] == [4, 8, 11, 1, 3]
    for command, rows in found:
        assert_same_rows(rows_printed(capfd, command), rows, command)


def test_unfold_takes_a_path_and_unfolds_its_ancestors(capfd: pytest.CaptureFixture[str]) -> None:
    def shown(*options: str) -> list[str]:
        command = [
            "report",
            sample_path(SMALL),
            "--view",
            "group-ops",
            "--columns",
            "path",
            "--format",
            "json",
            *options,
        ]
        assert main(command) == 0
        return [row["path"] for row in json.loads(capfd.readouterr().out)["rows"]]

    inside = shown("--unfold", "Sequential_0/Linear_0")
    assert inside == shown("--unfold=0/Sequential_0/Linear_0/group")
    levels = [path.count("/") + 1 if path else 0 for path in inside]
    assert [levels.count(level) for level in range(4)] == [1, 8, 4, 12]
    assert set(shown("--depth", "2", "--unfold", "Sequential_0/Linear_0")) == set(inside)
    assert set(inside) < set(shown("--depth", "3", "--unfold", "Sequential_0/Linear_0"))


@pytest.mark.slow
@pytest.mark.parametrize("sample", [SMALL, *INPUTS])
async def test_copied_commands_print_every_table_of_every_view(sample: str, capfd: pytest.CaptureFixture[str]) -> None:
    found: list[tuple[str, Rows]] = []
    async with open_explorer(sample) as pilot:
        for view in [*dict.fromkeys(view_of_report(report) for report in REPORTS), "expert-systems"]:
            if view in ("timeline", "ranks") or app_of(pilot).navigator.availability.get(view, "ok") != "ok":
                continue
            await go_to(pilot, view)
            screen = screen_of(pilot)
            tabs = screen.body.tabs if isinstance(screen.body, TabbedTables) else (None,)
            for tab in tabs:
                if tab is not None:
                    if tab.why_not(screen.profile):
                        continue
                    screen.body.show_tab(tab.name)
                    await settle(pilot)
                panes = [pane for pane in screen.panes if pane.display and pane.frame.height]
                found += [await command_and_rows(pilot, pane) for pane in panes]
    assert len(found) >= 8
    for command, rows in found:
        assert_same_rows(rows_printed(capfd, command), rows, command)


@pytest.mark.slow
async def test_copied_commands_print_comparisons_and_queries(capfd: pytest.CaptureFixture[str]) -> None:
    found: list[tuple[str, Rows]] = []
    a, b = sample_path("caffe_conv1.nvprof.log"), sample_path("resnet50_training.nvprof.log")
    async with open_explorer("resnet50_training.nvprof.log", view="kernels") as pilot:
        app_of(pilot).comparison.compare(a)
        await settle(pilot)
        screen = screen_of(pilot)
        assert copied_command(screen) == f"proftui diff {a} {b}"
        await press(pilot, "o", "full_stop")
        assert screen.first_table is not None
        await run_line(pilot, "filter relu")
        found.append(await command_and_rows(pilot, screen.first_table))
        await run_line(pilot, "sql SELECT name, calls FROM kernels WHERE calls > 100")
        screen = screen_of(pilot)
        assert screen.first_table is not None
        screen.first_table.focus_table()
        await settle(pilot)
        await press(pilot, "l", "H")
        found.append(await command_and_rows(pilot, screen.first_table))
    assert [command for command, _rows in found] == [
        f"proftui diff {b} {a} --frame kernels --filter=relu",
        f"proftui sql {b} 'SELECT name, calls FROM kernels WHERE calls > 100' --columns name,calls",
    ]
    for command, rows in found:
        assert rows
        assert_same_rows(rows_printed(capfd, command), rows, command)
