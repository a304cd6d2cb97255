"""Demangling of C++ names."""

from __future__ import annotations

import subprocess
import sys
from string import ascii_uppercase, digits

import pytest

from tui.loaders import demangle
from tui.loaders.demangle import demangled

KERNEL = "_Z21indexSelectLargeIndexIfjLi2ELi2ELin2ELb1EEv10TensorInfoIT_T0_ES3_S0_IlS2_EiiS2_S2_l"


def doubling_name(levels: int) -> str:
    """Return a name whose text doubles in length with each level."""
    substitutions = [(digits + ascii_uppercase)[level + 1] for level in range(levels)]
    return "_Z1fI1AIiiE" + "".join(f"S0_IS{substitution}_S{substitution}_E" for substitution in substitutions) + "Evv"


def test_mangled_names_are_demangled_and_others_unchanged() -> None:
    assert demangled([KERNEL, "_Z3addPfi", "_Z3addPfi", "volta_sgemm_128x64_nn", "_Znonsense", "", "_Z"]) == {
        KERNEL: "void indexSelectLargeIndex<float, unsigned int, 2, 2, -2, true>(TensorInfo<float, unsigned int>, "
        "TensorInfo<float, unsigned int>, TensorInfo<long, unsigned int>, int, int, unsigned int, unsigned int, long)",
        "_Z3addPfi": "add(float*, int)",
    }


@pytest.mark.parametrize("name", ["_Z3addPfi\n_Z3subv", "_Z3addPfi; true", "_Z3ad\0Pfi", "-_Z3addPfi", "_Z3äv"])
def test_texts_that_are_more_than_a_name_are_not_demangled(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", pytest.fail)
    assert demangled([name]) == {}


def test_a_name_made_to_exhaust_the_machine_affects_only_itself() -> None:
    small = doubling_name(1)
    assert demangled(["_Z3addPfi", doubling_name(30), "_Z3subv", small]) == {
        "_Z3addPfi": "add(float*, int)",
        "_Z3subv": "sub()",
        small: "void f<A<int, int>, A<A<int, int>, A<int, int> > >()",
    }


def test_names_stay_mangled_if_no_process_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert demangled(["_Z3addPfi"]) == {}


def test_a_slow_demangler_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("python", 1, output=b"add(float*, int)\n")

    monkeypatch.setattr(demangle.subprocess, "run", slow)
    assert demangled(["_Z3addPfi", "_Z3subv"]) == {"_Z3addPfi": "add(float*, int)"}
