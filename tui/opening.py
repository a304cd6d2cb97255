"""Opening the files that the command line names, all the way to what the views need of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from tui.loaders.base import Report
    from tui.model.profile import Profile
    from tui.options import OpenOptions


@dataclass(frozen=True, slots=True)
class Opened:
    """What came of opening files."""

    profile: Profile | None
    """All that could be opened, joined; None where nothing could."""
    errors: tuple[ProftuiError, ...]
    """What could not be opened, and why."""
    availability: dict[str, str] = field(default_factory=dict)
    """For each view ``ok``, or why the profile cannot feed it."""


def open_profiles(options: OpenOptions, report: Report, *, session: int | None) -> Opened:
    """Read every file; one that cannot be read does not keep the others away.

    Args:
        options: What the command line asked for.
        report: Told of progress; returns False to stop, and what was read until then is kept.
        session: The only session to show, which must be there; None for all.
    """
    # Imported here, so that the shell of the app is on the screen before Polars is.
    from tui.analysis.capabilities import views
    from tui.analysis.recorded_ops import recorded_ops
    from tui.loaders import registry

    profile, errors = registry.load(options.paths, format_in=options.format_in, report=report)
    if profile is None:
        return Opened(None, tuple(errors))
    profile = replace(profile, gpu=options.gpu)
    try:
        _check(profile, session)
    except ProftuiError as error:
        return Opened(None, (error,))
    if profile["ops"].height:
        # Takes seconds of a large input: done here, where the screen does not wait for it, the views find it done.
        recorded_ops(profile)
    return Opened(profile, tuple(errors), views(profile))


def _check(profile: Profile, session: int | None) -> None:
    """Find out now, not in a view, whether the user's rules, GPU and session can be used."""
    from tui.analysis.devices import device_facts
    from tui.analysis.op_rules import op_rules
    from tui.analysis.tensor_core_rules import tensor_core_rules

    op_rules()
    tensor_core_rules()
    device_facts(profile)
    if session is not None:
        profile.only_session(session)
