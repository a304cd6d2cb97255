from __future__ import annotations

from tui.analysis.dashboard_facts import definition
from tui.analysis.gpus import GPUS
from tui.screens.gpus import GpuBar, gpu_lines
from tui.widgets.charts.bars import kind_style


def test_idle_time_has_the_style_of_the_other_charts() -> None:
    bar, legend = gpu_lines([GpuBar("GPU 0", (50, 0, 0, 50), 50.0)], [], 40)
    assert bar.plain == "GPU 0 ▓▓▓▓▓▓▓░░░░░░ busy 50.0% of 100 ns"
    idle = kind_style("idle")
    for line in (bar, legend):
        assert idle.color in [
            span.style for span in line.spans if line.plain[span.start : span.end].startswith(idle.fill)
        ]


def test_a_share_names_its_total() -> None:
    bar, _legend = gpu_lines([GpuBar("GPU 0", (50, 0, 0, 50), 50.0)], [], 80)
    assert bar.plain.endswith(" busy 50.0% of the wall time of 100 ns")
    # The same share and the same idle time as on the dashboard.
    helps = {column.name: column.help for column in GPUS.columns}
    for name in ("busy_pct", "idle_ns"):
        assert "wall time" in helps[name].lower()
        assert "wall time" in definition(name).means.lower()
