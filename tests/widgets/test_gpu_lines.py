from __future__ import annotations

from tui.widgets.gpu_lines import GpuBar, gpu_lines
from tui.widgets.part_looks import look_of


def test_idle_time_looks_as_in_the_other_charts_in_bar_and_legend() -> None:
    bar, legend = gpu_lines([GpuBar("GPU 0", (50, 0, 0, 50), 50.0)], [], 40, ascii_only=False)
    assert bar.plain == "GPU 0 ██████░░░░░░ busy 50.00% of 100 ns"
    idle = look_of("idle")
    for line in (bar, legend):
        assert idle.color in [
            span.style for span in line.spans if line.plain[span.start : span.end].startswith(idle.fill)
        ]
