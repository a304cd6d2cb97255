from __future__ import annotations

from tui.analysis.dashboard_facts import definition
from tui.analysis.gpus import GPUS
from tui.screens.gpus import GpuBar, gpu_lines
from tui.widgets.charts.bars import kind_style


def test_idle_time_has_the_style_of_the_other_charts() -> None:
    bar, legend = gpu_lines([GpuBar("GPU 0", (50, 0, 0, 50), 50.0)], [], 40)
    assert bar.plain == "GPU 0 ▓▓▓▓▓▓▓▓░░░░░░░ busy 50% of 100 ns"
    idle = kind_style("idle")
    for line in (bar, legend):
        assert idle.color in [
            span.style for span in line.spans if line.plain[span.start : span.end].startswith(idle.fill)
        ]


def test_bars_have_one_width_and_the_digits_of_the_dashboard() -> None:
    bars = [GpuBar("GPU 0", (6, 0, 0, 9_994), 0.06), GpuBar("GPU 1", (3_769, 0, 0, 6_231), 37.69)]
    first, second, _legend = (line.plain for line in gpu_lines(bars, [], 50))
    assert first.endswith("░ busy 0.06% of 10 µs")
    assert second.endswith("░ busy 37.7% of 10 µs")
    assert first.index(" busy") == second.index(" busy")


def test_a_share_names_its_total() -> None:
    bar, _legend = gpu_lines([GpuBar("GPU 0", (50, 0, 0, 50), 50.0)], [], 80)
    assert bar.plain.endswith(" busy 50% of the wall time of 100 ns")
    # The same share and the same idle time as on the dashboard.
    helps = {column.name: column.help for column in GPUS.columns}
    for name in ("busy_pct", "idle_ns"):
        assert "wall time" in helps[name].lower()
        assert "wall time" in definition(name).means.lower()
