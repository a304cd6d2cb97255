"""API Calls: what the CPU spent in CUDA calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tui.analysis.api import API, API_INSTANCES, api, api_instances
from tui.analysis.inputs.capabilities import how_to_record, why_none
from tui.analysis.inputs.needs import API_TRACE, API_WORK
from tui.screens.kernels import short
from tui.screens.linked import Level, LinkedTablesScreen, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from tui.model.profile import Profile


def calls_of_function(profile: Profile, above: Mapping[str, Row]) -> pl.DataFrame:
    """The calls of the selected function; none where none is selected."""
    row = above.get("functions")
    if row is None:
        return api_instances(profile, session=-1, name="")
    return api_instances(profile, session=row["session"], name=row["name"])


def no_api_calls(profile: Profile) -> str:
    """Why there are no API calls to show."""
    return why_none(profile, API_WORK)


def no_instances(profile: Profile) -> str:
    """Why there are no single calls to show."""
    if profile["api_calls"].is_empty():
        return f"this input holds totals, not single calls: {how_to_record(profile, API_TRACE)}"
    return "no function is selected"


class ApiCallsScreen(LinkedTablesScreen):
    """CUDA functions, and the calls of the one under the cursor."""

    VIEW = "api-calls"
    LEVELS: ClassVar = (
        Level("functions", API, lambda profile, _above: api(profile), short, no_api_calls, 3),
        Level("calls", API_INSTANCES, calls_of_function, short, no_instances, 2),
    )
    HELP: ClassVar = (
        "CUDA functions by the time the CPU spent in them; below, the calls of the one under the cursor.\n"
        "This is CPU time: it overlaps GPU time; a call that waits (synchronize, a blocking copy) counts its wait.\n"
        "Corr links a call to the GPU work that it launched."
    )
