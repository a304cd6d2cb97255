from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tui.labels import Cutter, distinct_labels, distinct_symbols
from tui.text_width import cell_width

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<8, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >()",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, std::array<char*, 1ul> >()",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>, std::array<char*, 1ul> >()",
)
NAMES = st.lists(st.text("ab_<>:, (1…é行", max_size=60), max_size=8, unique=True)


def test_template_instances_are_labeled_by_their_distinct_arguments() -> None:
    labels = distinct_symbols(ELEMENTWISE, 30)
    assert list(labels.values()) == [
        "vectorize…<CUDAFunctor_add, …>",
        "vectorize…<FillFunctor, floa…>",
        "vectorize…<FillFunctor, int,…>",
    ]


def test_a_wider_column_never_shows_less() -> None:
    """If one instance fits with all its arguments, the others still show what distinguishes them."""
    assert list(distinct_symbols(ELEMENTWISE, 64).values()) == [
        "vectorized_elementwise_kernel<CUDAFunctor_add, float, 8, 3>",
        "vectorized_elementwise_kernel<FillFunctor, float, 4, 1>",
        "vectorized_elementwise_kernel<FillFunctor, int, 4, 1>",
    ]
    assert list(distinct_symbols(ELEMENTWISE, 75).values()) == [
        "vectorized_elementwise_kernel<CUDAFunctor_add, float, 8, 3>",
        "vectorized_elementwise_kernel<FillFunctor, float, 4, 1>",
        "vectorized_elementwise_kernel<4, FillFunctor<int>, std::array<char*, 1ul> >",
    ]


def test_names_that_differ_in_the_middle_are_cut_to_the_difference() -> None:
    names = ["batch_norm_backward_reduce_channels_last_kernel", "batch_norm_backward_elemt_channels_last_kernel"]
    assert list(distinct_symbols(names, 31).values()) == [
        "batch_norm_backward_reduce_cha…",
        "batch_norm_backward_elemt_chan…",
    ]


def test_kernels_that_differ_in_two_places_show_both() -> None:
    tiles = ("128x64x64_warpgroupsize1x1x1", "256x64x64_warpgroupsize1x1x1")
    names = [
        f"sm90_xmma_{direction}_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize{tile}_g1_execute_kernel__5x_cudnn"
        for direction in ("fprop", "dgrad")
        for tile in tiles
    ]
    assert list(distinct_symbols(names, 34).values()) == [
        "sm90…fprop…tilesize128x64x64_warp…",
        "sm90…fprop…tilesize256x64x64_warp…",
        "sm90…dgrad…tilesize128x64x64_warp…",
        "sm90…dgrad…tilesize256x64x64_warp…",
    ]


def test_arguments_that_differ_at_their_ends_show_their_ends() -> None:
    names = [
        f"void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_{tile}>(Params)" for tile in ("64x64", "64x128")
    ]
    assert list(distinct_symbols(names, 24).values()) == ["Kernel2<…64x64>", "Kernel2<…64x128>"]


def test_arguments_in_a_different_order_are_distinguished() -> None:
    names = [
        f"void cublasLt::splitKreduce_kernel<32, 16, int, {first}, __nv_bfloat16, float, {second}, true>"
        f"(Params<{second}>, {first})"
        for first, second in (("float", "float"), ("float", "__nv_bfloat16"), ("__nv_bfloat16", "__nv_bfloat16"))
    ]
    assert list(distinct_symbols(names, 34).values()) == [
        "splitKreduce_kernel<float, float>",
        "splitKreduc…<float, __nv_bfloat16>",
        "splitKredu…<__nv_bfloat16, __nv_…>",
    ]


@given(NAMES, st.integers(8, 40))
def test_a_label_never_exceeds_its_width(names: list[str], width: int) -> None:
    for make_labels in (distinct_labels, distinct_symbols):
        labels = make_labels([f"common_beginning_{name}_and_end" for name in names] + names, width)
        assert set(names) <= set(labels)
        assert all(cell_width(label) <= width for label in labels.values())


def test_kernels_that_differ_in_two_places_are_distinguished_in_26_cells() -> None:
    nvjet = [
        f"nvjet_sm90_tst_256x{tile}_bz_coopA_{variant}"
        for tile in ("128_64x4_1x2_h", "96_64x4_2x1_v")
        for variant in ("NNT", "TNT")
    ]
    assert list(distinct_symbols(nvjet, 26).values()) == [
        "nvjet_sm90_tst_256x128…NNT",
        "nvjet_sm90_tst_256x128…TNT",
        "nvjet_sm90_tst_256x96_…NNT",
        "nvjet_sm90_tst_256x96_…TNT",
    ]
    directions, tiles = ("fprop", "dgrad"), ("256x128x64_warpgroup", "256x64x64_warpgroup")
    kernels = [
        f"sm90_xmma_{direction}_implicit_gemm_bf16_tilesize{tile}_kernel" for direction in directions for tile in tiles
    ]
    assert len(set(distinct_symbols(kernels, 26).values())) == 4


def test_a_name_without_distinct_words_gets_the_whole_width() -> None:
    names = [f"void distribution_elementwise_grid_stride_kernel<{kind}>(int)" for kind in ("float", "float, BFloat16")]
    assert list(distinct_symbols(names, 23).values()) == ["distribution_elementwi…", "distribution…<BFloat16>"]


def test_return_types_do_not_distinguish_functions() -> None:
    names = ["void cutlass::Kernel<cutlass::Reduce<4>>(int)", "cutlass::Kernel<cutlass::Gemm<4>>(int)"]
    assert list(distinct_symbols(names, 14).values()) == ["Kernel<Reduce>", "Kernel<Gemm>"]


def test_mangled_names_are_labeled_as_they_are() -> None:
    mangled = [f"_ZN7cutlass6KernelINS_4gemm9GemmShapeILi{size}EEEEEvT_" for size in (64, 32)]
    labels = distinct_symbols(["void cutlass::Kernel<cutlass::Gemm<4>>(int)", mangled[0]], 14)
    assert list(labels.values()) == ["Ker…<cutlass…>", "Kernel"]
    assert len(set(distinct_symbols(mangled, 30).values())) == 2


def test_a_known_prefix_is_shortened_before_a_symbol_is_cut() -> None:
    names = [f"autograd::engine::evaluate_function: {name}Backward0" for name in ("Convolution", "NativeBatchNorm")]
    labels = Cutter(lambda: names, are_symbols=True)
    assert [labels.cut(name, 22) for name in names] == ["engine: Con…nBackward0", "engine: Nat…mBackward0"]
