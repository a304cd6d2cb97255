"""Short kernel names keep what distinguishes kernels."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.model.names import short_name

NAMES = [
    ("void computeImage<float>(float*, float, unsigned int)_105_gpu", "computeImage_105_gpu"),
    ("main_22_gpu", "main_22_gpu"),
    ("[CUDA memcpy HtoD]", "[CUDA memcpy HtoD]"),
    ("std::enable_if<!T7, void>::type internal::gemvx::kernel<int>(float, T2 (*) [16])", "internal::gemvx::kernel"),
    ("void f<(bool)1, operator<>(int)", "f"),
    ("bool operator<(A const&, B const&)", "operator<"),
    ("void A::operator<< <int>(int)", "A::operator<<"),
    ("void cub::DeviceKernel<(A)1, (1 < 2)>(int)", "cub::DeviceKernel"),
    ("void thrust::f<a, b<c", "thrust::f"),
    ("void k<a->b>(int) [clone .isra.0]", "k"),
    ("void sort(int) [with T = float]", "sort"),
    (
        "void at::native::(anonymous namespace)::apply_kernel<at::native::(anonymous namespace)::M<4>, f>(int)",
        "at::native::(anonymous namespace)::apply_kernel",
    ),
    (
        "at::native::f(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}",
        "at::native::f::{lambda()#3}::operator()::{lambda(float)#1}",
    ),
    ("_ZN2at6native29vectorized_elementwise_kernelILi4EEEvi", "at::native::vectorized_elementwise_kernel"),
    ("_Z24op_generic_tensor_kernelILi2EfEvi", "op_generic_tensor_kernel"),
    ("_ZN2at22_GLOBAL__N__1f6ae8a8c16kernelEPf", "at::(anonymous namespace)::kernel"),
    ("at::_GLOBAL__N__54_tmpxft_0000849d_ii_a3310042::k", "at::(anonymous namespace)::k"),
    ("_GLOBAL__N_trailing", "_GLOBAL__N_trailing"),
    ("_Z23julia_gpu__", "_Z23julia_gpu__"),
    ("_ZNK9something", "_ZNK9something"),
    ("_Z" + "9" * 5000, "_Z" + "9" * 5000),
    ("mm$_omp_fn$0", "mm$_omp_fn$0"),
    ("__operator_&__(int)", "__operator_&__"),
    ("((", "(("),
    ("", ""),
]


@pytest.mark.parametrize(("name", "short"), NAMES)
def test_short_name(name: str, short: str) -> None:
    assert short_name(name) == short


@given(st.text("ab:<>(){}[]_~*& ,0123operatorZN-", max_size=60))
def test_any_name_has_a_short_name(name: str) -> None:
    assert bool(short_name(name)) == bool(name)


def test_a_hostile_name_takes_linear_time() -> None:
    began = time.process_time()
    assert short_name("f" + "<" * 40_000 + ")" * 40_000) == "f"
    assert time.process_time() - began < 5, "looking through all open brackets at each one takes half a minute"
