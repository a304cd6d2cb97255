"""How fast a GPU can be at most: FLOPs a second by element type, and memory bandwidth."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from tui.analysis.inputs.devices import device_facts, longest_name, normalized_name
from tui.data.user_files import HINT, Stamp, parsed, shipped, stamp, tables, user_path, user_text
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.model.profile import Profile

FILE: Final = "gpus.toml"

TYPES: Final = ("fp64", "fp64_tensor", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
"""The element types of a peak."""

_PEAK_OF_TYPE: Final = {
    "float64": ("fp64_tensor", "fp64"),
    "float16": ("fp16",),
    "bfloat16": ("bf16",),
    "int8": ("int8",),
    "uint8": ("int8",),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), ("fp8",)),
}


@dataclass(frozen=True, slots=True)
class Peaks:
    """The peaks of one GPU."""

    name: str
    source: str
    """Where the figures are from."""
    flops_per_s: Mapping[str, float] = field(default_factory=dict)
    """By one of `TYPES`."""
    bytes_per_s: float | None = None
    """Memory bandwidth."""

    def of(self, element_type: str, uses_tensor_core: bool | None) -> tuple[str, float] | None:
        """The peak that counts for work on elements of a type, and its name in `TYPES`; None where it is not known.

        Args:
            element_type: As PyTorch says it, as ``bfloat16``.
            uses_tensor_core: Whether the kernels of the work use tensor cores. Products of float32 are TF32 on tensor
                cores and FP32 elsewhere, so that without this nothing is known of them.
        """
        if element_type == "float32":
            if uses_tensor_core is None:
                # Without tensor cores for float32 there is one way only.
                names: tuple[str, ...] = () if "tf32" in self.flops_per_s else ("fp32",)
            else:
                names = ("tf32",) if uses_tensor_core and "tf32" in self.flops_per_s else ("fp32",)
        else:
            names = _PEAK_OF_TYPE.get(element_type, ())
        return next(((name, self.flops_per_s[name]) for name in names if name in self.flops_per_s), None)


def find_peaks(name: str) -> Peaks | None:
    """The peaks of a GPU of this name, the user's own figures first; None where they are not known.

    >>> h200 = find_peaks("NVIDIA H200")
    >>> h200.flops_per_s["bf16"], h200.of("float32", True)
    (989400000000000.0, ('tf32', 494700000000000.0))
    >>> find_peaks("NVIDIA H100") is None
    True
    """
    return longest_name(name, _known(stamp(user_path(FILE))))


@cache
def _known(own: Stamp | None) -> dict[str, Peaks]:
    """Peaks by normalized name."""
    rows = [(row, f"{FILE}: {row.get('name')}") for row in tomllib.loads(shipped(FILE))["peaks"]]
    if own is not None:
        rows += tables(parsed(user_text(own), own[0]), "peaks", own[0])
    return {normalized_name(one.name): one for one in (_peaks(row, where) for row, where in rows)}


def _peaks(row: dict[str, Any], where: str) -> Peaks:
    wrong = [key for key in row if key not in (*TYPES, "name", "source", "bandwidth")]
    if wrong or not isinstance(row.get("name"), str):
        known = ", ".join(("name", "bandwidth", *TYPES, "source"))
        raise ProftuiError(f"{where}: {f'unknown key {wrong[0]}' if wrong else 'no name'}; known are {known}", HINT)
    numbers = {key: value for key, value in row.items() if key not in ("name", "source")}
    for key, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            raise ProftuiError(f"{where}: {key} is not a number above 0", HINT)
    bandwidth = numbers.pop("bandwidth", None)
    return Peaks(
        row["name"],
        str(row.get("source", "your gpus.toml")),
        {key: value * 1e12 for key, value in numbers.items()},
        bandwidth * 1e9 if bandwidth is not None else None,
    )


def peaks_by_device(profile: Profile) -> dict[tuple[int, int | None], Peaks]:
    """The peaks of each GPU of a profile, by session and device; GPUs whose peaks are not known are left out.

    The memory bandwidth that the file itself records goes before that of the table.
    """
    found: dict[tuple[int, int | None], Peaks] = {}
    for session, device, name, bandwidth in (
        device_facts(profile)
        .select(
            "session", "device", pl.coalesce(pl.lit(profile.gpu, pl.String), "name").alias("name"), "memory_bandwidth"
        )
        .iter_rows()
    ):
        peaks = find_peaks(name) if name else None
        if peaks is not None:
            found[session, device] = Peaks(peaks.name, peaks.source, peaks.flops_per_s, bandwidth or peaks.bytes_per_s)
    return found
