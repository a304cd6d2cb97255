from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tui.text_width import bar, cell_width, clip, clip_middle, clip_parts, clip_sentence, shorten_symbol


@given(st.text("aZ_<>ßéµ–…×█▏行列ｆ한й", max_size=30))
def test_cell_widths_agree_with_rich(text: str) -> None:
    assert cell_width(text) == cell_len(text)


@pytest.mark.parametrize(("text", "cells"), [("sgemm", 5), ("行列乗算", 8), ("ｆｕｌｌ", 8), ("e\u0301", 1), ("", 0)])
def test_cell_widths(text: str, cells: int) -> None:
    assert cell_width(text) == cells


@given(st.text("aß行列e\u0301_<>", max_size=30), st.integers(0, 20))
def test_cut_text_fits_its_width(text: str, width: int) -> None:
    for shown in (clip(text, width), clip_middle(text, width), shorten_symbol(text, width)):
        assert cell_width(shown) <= width
        assert shown == text or cell_width(text) > width


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (200, "void cudnn::detail::dgrad_engine<float, int=128, int=6>(int, int, float const *)"),
        (60, "cudnn::detail::dgrad_engine<float, int=128, int=6>"),
        (38, "cudnn::detail::dgrad_engine<float, in…"),
        (32, "cudnn::detail::dgrad_engine"),
        (20, "detail::dgrad_engine"),
        (12, "dgrad_engine"),
        (9, "dgra…gine"),
        (1, "…"),
        (0, ""),
    ],
)
def test_a_symbol_loses_return_type_and_arguments_before_its_name(width: int, text: str) -> None:
    name = "void cudnn::detail::dgrad_engine<float, int=128, int=6>(int, int, float const *)"
    assert shorten_symbol(name, width) == text


@pytest.mark.parametrize(
    ("sentence", "width", "cut"),
    [
        ("the longest is 4.31 ms", 17, "the longest is …"),
        ("the longest is 4.31 ms", 20, "the longest is …"),
        ("the longest is 4.31 ms", 21, "the longest is …"),
        ("the longest is 4.31 ms", 22, "the longest is 4.31 ms"),
        ("4,901 launches in all", 13, "4,901 …"),
        ("1,234,567 launches", 5, "1,23…"),
        ("kernel gemm_128x64 waits", 13, "kernel …"),
        ("GPU idle in 8 gaps of 1 ms or more", 33, "GPU idle in 8 gaps of 1 ms or …"),
        ("GPU busy 38%. The CPU was outside CUDA calls.", 30, "GPU busy 38%. …"),
        ("Done. The CPU was outside CUDA calls.", 30, "Done. The CPU was outside …"),
        ("98.5 % of it", 5, "98.5…"),
        ("it has 98 % of it", 10, "it has …"),
        ("Launches are small. `one_kernel_of_many` is.", 38, "Launches are small. …"),
        ("`PWN(/features/Relu_12)` takes 75% of the time.", 40, "`PWN(/feat…Relu_12)` takes 75% of the …"),
        ("Communication takes 4 s, mostly `ncclDevKernel_1`.", 42, "Communication takes 4 s, mostly …"),
        ("memory of the allocator (3.27 GiB of 140 GiB)", 28, "memory of the allocator …"),
    ],
)
def test_a_sentence_is_not_cut_inside_a_number(sentence: str, width: int, cut: str) -> None:
    assert clip_sentence(sentence, width) == cut


def test_parts_of_a_text_are_kept_if_they_fit_exactly() -> None:
    text = "span 3:4  mean 42 ms  888 kernels"
    assert [clip_parts(text, width) for width in (33, 32, 23, 22)] == [
        text,
        "span 3:4  mean 42 ms  …",
        "span 3:4  mean 42 ms  …",
        "span 3:4  …",
    ]


def test_a_quoted_name_in_a_sentence_is_cut_once_and_its_quotes_are_closed() -> None:
    name = "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x64x16_stage4_kernel__5x_cublas"
    sentence = f"92.81% of the kernel time is in launches that do not fill the GPU once; `{name}` takes 0.48 waves."
    assert clip_sentence(sentence, 90).endswith("fill the GPU once; `sm80_xm…_cublas`…")
    assert clip_sentence(sentence, 84).endswith("fill the GPU once; …")
    assert clip_sentence(sentence, 80).endswith("fill the GPU once; …")
    for width in range(20, 130):
        assert cell_width(clip_sentence(sentence, width)) <= width
        assert clip_sentence(sentence, width).count("`") in (0, 2)
        assert "……" not in clip_sentence(sentence, width)


def test_common_namespaces_are_dropped_before_template_arguments() -> None:
    name = "void at::native::(anonymous namespace)::pool<float, at::native::Max<int> >(int*)"
    assert [shorten_symbol(name, width) for width in (70, 60, 25, 12, 9)] == [
        "at::native::(anonymous namespace)::pool<float, at::native::Max<int> >",
        "pool<float, Max<int> >",
        "pool<float, Max<int> >",
        "pool<float,…",
        "pool",
    ]


def test_an_operator_keeps_its_enclosing_function() -> None:
    name = "void at::native::sum::{lambda(float)#1}::operator()(float) const"
    assert shorten_symbol(name, 30) == "sum::{lambda(fl…1}::operator()"


@given(st.floats(0, 1), st.integers(1, 40))
def test_a_bar_is_proportional_to_its_share(share: float, width: int) -> None:
    characters = bar(share, width)
    assert len(characters) <= width
    assert (characters == "") == (share == 0)
    assert abs(len(characters) - share * width) <= 1
