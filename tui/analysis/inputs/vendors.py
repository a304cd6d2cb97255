"""Who made the GPUs of a profile: limits and formulas of one vendor are wrong for another's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import polars as pl

from tui.analysis.grouping import distinct
from tui.analysis.inputs.recording import Tool, tool_of
from tui.analysis.memo import once_per_profile

if TYPE_CHECKING:
    from tui.model.profile import Profile

AMD: Final = "AMD"

_AMD_NAME: Final = re.compile(
    r"\b(?:amd|radeon|instinct|firepro|gfx\d+\w*|mi\d{2,3}\w?|vega|navi)\b|^(?:arcturus|aldebaran)", re.IGNORECASE
)
_AMD_SESSION: Final = re.compile(r"\b(?:rocm|hip|roctracer|rocprofiler|rocprof\w*|miopen|amd)\b", re.IGNORECASE)


def is_amd_name(name: str | None) -> bool:
    """Whether a device of this name, or of this compute capability, is one of AMD's.

    >>> [is_amd_name(name) for name in ("AMD Instinct MI300X", "gfx942", "Tesla K40c", "", None)]
    [True, True, False, False, False]
    """
    return bool(name) and _AMD_NAME.search(str(name)) is not None


def amd_sessions(profile: Profile) -> frozenset[int]:
    """The sessions whose GPUs are AMD's, whatever their devices are called.

    Told by the tool (rocprof), by what it says of the software (ROCm, HIP), or by calls of HIP. A PyTorch trace gives
    an AMD GPU no name at times, and its architecture in the fields of a compute capability. PyTorch for ROCm keeps some
    names of CUDA's calls, PyTorch for CUDA has none of HIP's.
    """
    found = set()
    told = profile["sessions"].select("session", "format", "tool", "tool_version", "framework", "driver_version")
    for session, format_name, tool, *words in told.iter_rows():
        if tool_of(format_name, tool) is Tool.ROCPROF or any(_AMD_SESSION.search(word or "") for word in words):
            found.add(session)
    return frozenset(found | set(_calling_hip(profile)["session"].to_list()))


@once_per_profile("api_calls")
def _calling_hip(profile: Profile) -> pl.DataFrame:
    """The sessions that call HIP."""
    calls = distinct(profile["api_calls"], ("session", "name"))
    return calls.filter(pl.col("name").cast(pl.String).str.contains(r"^hip[A-Z]")).select("session").unique()
