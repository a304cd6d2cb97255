"""The preview of a file that is being read."""

from __future__ import annotations

import pytest

from tui.loaders.base import LoadPreview, PreviewRow
from tui.screens.loading import load_preview_lines
from tui.text_width import cell_width

READ = LoadPreview(
    names=(
        PreviewRow("void cudnn::detail::dgrad_engine<float, int=128>(int, float const *)", 1200, 7.5e9),
        PreviewRow("[CUDA memcpy HtoD]", 40, 2.5e9),
        PreviewRow("\x1b[31m行", 1, 0.0),
    ),
    distinct=3,
    calls=1241,
    total_ns=10e9,
    span_ns=12_000_000_000,
    others=(("API calls", 5000),),
)


def test_lines_of_the_preview() -> None:
    assert load_preview_lines(READ, 0.421, 72, 10, is_outdated=True)[0] == "Partial results (first 42%)"
    assert load_preview_lines(READ, 0.421, 72, 10) == [
        "Partial results (42% read)",
        "1,241 kernels and copies  10 s of GPU time  over 12 s  5,000 API calls",
        "GPU work                                         Calls       Time  Share",
        "cudnn::detail::dgrad_engine<float, int=1…        1,200      7.5 s  75.0%",
        "[CUDA memcpy HtoD]                                  40      2.5 s  25.0%",
        "·[31m行                                              1       0 ns   0.0%",
    ]


def test_instances_of_one_template_are_distinguished() -> None:
    names = [
        f"void at::native::elementwise_kernel<4, at::native::{functor}Functor<float> >(int)"
        for functor in ("Add", "Mul")
    ]
    read = LoadPreview(tuple(PreviewRow(name, 1, 1.0) for name in names), 2, 2, 2.0, None, ())
    assert [line.split()[0] for line in load_preview_lines(read, None, 60, 10)[-2:]] == [
        "elementwise_kern…<AddFunctor>",
        "elementwise_kern…<MulFunctor>",
    ]


def test_before_the_gpu_work_there_are_counts() -> None:
    read = LoadPreview((), 0, 0, 0.0, None, (("CPU ops", 12_345), ("API calls", 7)))
    assert load_preview_lines(read, None, 80, 10) == [
        "Partial results",
        "12,345 CPU ops  7 API calls  no GPU work yet",
    ]


@pytest.mark.parametrize("width", [0, 16, 30, 40, 60, 76, 106])
@pytest.mark.parametrize("height", [-5, 0, 1, 2, 3, 4, 5, 20])
def test_lines_fit_width_and_height(width: int, height: int) -> None:
    lines = load_preview_lines(READ, 1.0, width, height)
    assert len(lines) <= max(0, height)
    assert max(map(cell_width, lines), default=0) <= width
