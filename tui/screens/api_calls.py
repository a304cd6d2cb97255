"""API Calls: CPU time in calls of CUDA or HIP, by function and by thread, and failed calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from tui.analysis.activities import ACTIVITY_TABLE, filtered_activities, launched_activities
from tui.analysis.api_calls import (
    API,
    API_INSTANCES,
    THREAD_FUNCTIONS,
    api_instances,
    is_failed,
    is_on_thread,
    records_results,
    thread_functions,
)
from tui.analysis.capabilities import missing_data_text, recording_advice
from tui.analysis.kernels import kernels
from tui.analysis.needs import API_RESULTS, API_TRACE, API_WORK
from tui.fmt import count, duration
from tui.keys import Scope, bindings_for
from tui.model.names import short_name
from tui.screens.base import ViewScreen
from tui.screens.kernels import kernel_crumb, launch_crumb, no_launches, why_spread_unknown, work_details
from tui.screens.linked_tables import Level, Row, registered_level
from tui.screens.tabs import Tab, TabbedView
from tui.widgets.details import row_details, with_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tui.model.profile import Profile
    from tui.widgets.details import Details
    from tui.widgets.table.pane import TablePane


MAX_LAUNCHES = 5
"""The number of launches in the details of a call."""


def calls_of_function(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the calls of the selected function; none if none is selected."""
    row = selected.get("functions")
    if row is None:
        return api_instances(profile, session=-1, name="")
    return api_instances(profile, session=row["session"], name=row["name"])


def functions_of_thread(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the functions that the selected thread called."""
    row = selected.get("threads")
    if row is None:
        return thread_functions(profile, session=-1, pid=None, tid=None)
    return thread_functions(profile, session=row["session"], pid=row["pid"], tid=row["tid"])


def calls_of_thread(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the calls of the selected function on the selected thread."""
    thread, row = selected.get("threads"), selected.get("thread_functions")
    if thread is None or row is None:
        return api_instances(profile, session=-1, name="")
    condition = is_on_thread(thread["pid"], thread["tid"])
    return api_instances(profile, session=row["session"], name=row["name"], condition=condition)


def failed_calls(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
    """Return the calls of the selected function that returned the selected code."""
    row = selected.get("errors")
    if row is None:
        return api_instances(profile, session=-1, name="")
    condition = is_failed() & (pl.col("result") == row["result"])
    return api_instances(profile, session=row["session"], name=row["function"], condition=condition)


def launched_by(level: str) -> Callable[[Profile, Mapping[str, Row]], pl.DataFrame]:
    """Return a function for the GPU work that the selected call of a level launched."""

    def work(profile: Profile, selected: Mapping[str, Row]) -> pl.DataFrame:
        row = selected.get(level)
        if row is None or row["correlation"] is None:
            return filtered_activities(profile)
        return launched_activities(profile, session=row["session"], correlations=[row["correlation"]])

    return work


def no_api_calls(profile: Profile) -> str:
    """Return why there are no API calls to show."""
    return missing_data_text(profile, API_WORK)


def no_instances(profile: Profile) -> str:
    """Return why there are no single calls to show."""
    subject = "profile" if profile["api_calls"].is_empty() else "session"
    return f"this {subject} has totals, not individual calls: {recording_advice(profile, API_TRACE)}"


def why_no_calls(profile: Profile) -> str:
    """Return why there are no single calls; empty if there are."""
    return no_instances(profile) if profile["api_calls"].is_empty() else ""


def no_work(profile: Profile, *, is_linked: bool = False) -> str:
    """Return why a call has no GPU work.

    Args:
        profile: The profile.
        is_linked: Whether the call has a correlation id, which links it to its work.
    """
    calls = profile["api_calls"]["correlation"]
    if profile["activities"].is_empty():
        has_no_work = kernels(profile).is_empty()
        return "this profile has API calls but no GPU work" if has_no_work else no_launches(profile)
    if calls.null_count() == calls.len():
        return "this profile does not record which call launched which work"
    if calls.null_count() and not is_linked:
        if "nvprof-text" in profile["sessions"]["format"]:
            return "nvprof truncates the correlation id after a long kernel name: the GPU work of this call is unknown"
        return "no GPU work recorded for this call; some calls do not record their launches"
    return "this call launched no recorded work"


def why_no_results(profile: Profile) -> str:
    """Return why it is not known which calls failed; empty if it is."""
    return "" if records_results(profile) else why_no_calls(profile) or missing_data_text(profile, API_RESULTS)


def no_errors(profile: Profile) -> str:
    """Return why no calls are listed as failed."""
    return why_no_results(profile) or "all calls with a recorded result succeeded"


def call_crumb(row: Row) -> str:
    """Return a call for the path."""
    return f"call {row['number']}"


class ApiCallsScreen(TabbedView, ViewScreen):
    """Functions of the API, threads and failures, the calls behind each, and the GPU work that a call launched."""

    VIEW = "api-calls"
    BINDINGS: ClassVar = bindings_for(Scope.PARTS)
    TABS: ClassVar = (
        Tab(
            "functions",
            "By function",
            (
                Level("functions", *registered_level("api"), kernel_crumb, no_api_calls, 3),
                Level("calls", API_INSTANCES, calls_of_function, call_crumb, no_instances, 3),
                Level("launched", ACTIVITY_TABLE, launched_by("calls"), launch_crumb, no_work, 1),
            ),
        ),
        Tab(
            "threads",
            "By thread",
            (
                Level(
                    "threads",
                    *registered_level("api_threads"),
                    lambda row: str(row["thread"]),
                    no_instances,
                    2,
                ),
                Level("thread_functions", THREAD_FUNCTIONS, functions_of_thread, kernel_crumb, no_instances, 2),
                Level("thread_calls", API_INSTANCES, calls_of_thread, call_crumb, no_instances, 2),
                Level("thread_launched", ACTIVITY_TABLE, launched_by("thread_calls"), launch_crumb, no_work, 1),
            ),
            why_no_calls,
        ),
        Tab(
            "errors",
            "Failed",
            (
                Level(
                    "errors",
                    *registered_level("api_errors"),
                    lambda row: f"{row['function']} {row['result']}",
                    no_errors,
                ),
                Level("failed_calls", API_INSTANCES, failed_calls, call_crumb, no_errors),
            ),
            why_no_results,
        ),
    )
    HELP: ClassVar = (
        "API functions by CPU time, their calls, and launched work. . switches to threads and "
        "failed calls.\nCPU time overlaps GPU time. Calls that wait (synchronize, blocking copies) include the "
        "wait.\nFailed: calls that returned an error. Status 600 (not ready), returned by queries, does not count."
    )

    def details(self, pane: TablePane, row: dict[str, Any]) -> Details:
        """Return the work that a call launched; for totals, why nothing more is known."""
        if pane.spec is not API_INSTANCES:
            details = work_details(self, pane, row)
            is_unknown = pane.spec is API and row["median_ns"] is None
            if is_unknown and calls_of_function(self.profile, {"functions": row}).is_empty():
                return with_blocks(details, why_spread_unknown(self.profile, API_TRACE))
            return details
        details_of_row = row_details(pane.spec, row, frame=pane.frame)
        if row["correlation"] is None:
            return details_of_row
        work = launched_activities(self.profile, session=row["session"], correlations=[row["correlation"]])
        lines = []
        for launch in work.head(MAX_LAUNCHES).iter_rows(named=True):
            delay = None if launch["start_ns"] is None else launch["start_ns"] - (row["start_ns"] or 0)
            began = "" if delay is None or row["start_ns"] is None else f"started {duration(delay)} after the call"
            lines.append((duration(launch["duration_ns"]), short_name(str(launch["name"])), began))
        if work.height > MAX_LAUNCHES:
            lines.append(("", f"and {count(work.height - MAX_LAUNCHES)} more", ""))
        if not lines:
            lines.append(("nothing", "", no_work(self.profile, is_linked=True)))
        return with_blocks(details_of_row, [("Launched on the GPU", lines)])
