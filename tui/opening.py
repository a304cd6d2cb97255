"""Opening the files that the command line names, all the way to what the views need of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.cache.cache import Cache
    from tui.loaders.base import Report
    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile
    from tui.options import OpenOptions


@dataclass(frozen=True, slots=True)
class OpenedProfiles:
    """What came of opening files."""

    profile: Profile | None
    """All that could be opened, joined; None where nothing could."""
    errors: tuple[ProftuiError, ...]
    """What could not be opened, and why."""
    availability: dict[str, str] = field(default_factory=dict)
    """For each view ``ok``, or why the profile cannot feed it."""
    shown: Profile | None = None
    """What to show of it: the session and the iterations asked for."""
    cache: Cache | None = None
    """What is to be kept of it, when the user no longer waits (`Cache.write_behind`)."""
    deferred_results: Sequence[Callable[[], object]] = ()
    """What views ask for sooner or later, to be computed when the user no longer waits."""


def open_profiles(
    options: OpenOptions,
    report: Report,
    *,
    session: int | None,
    aggregation: Aggregation | None = None,
    renew: bool = False,
) -> OpenedProfiles:
    """Read every file; one that cannot be read does not keep the others away.

    Args:
        options: What the command line asked for.
        report: Called with the progress; returns False to stop and keep what was read until then.
        session: The only session to show, which must be there; None for all.
        aggregation: The iterations to show, which must be there; None for all.
        renew: Read the files, whatever is kept of them.
    """
    # Imported here, so that the shell of the app is on the screen before Polars is.
    from tui.analysis.cached_results import (
        CACHED_SCHEMAS,
        deferred_results,
        restore_iterations,
        restore_ops,
        results_to_cache,
    )
    from tui.analysis.capabilities import views
    from tui.analysis.devices import peak_option
    from tui.analysis.iterations.chosen_iterations import aggregated
    from tui.analysis.iterations.iteration_table import with_iterations
    from tui.analysis.ops.op_costs import recorded_ops
    from tui.cache.cache import Cache
    from tui.loaders import registry
    from tui.runtime import release_freed_memory

    try:
        peaks = tuple(map(peak_option, options.peaks))
    except ProftuiError as error:
        return OpenedProfiles(None, (error,))
    cache = Cache(CACHED_SCHEMAS, renew=renew) if options.cache else None
    profile, errors = registry.load(options.paths, format_in=options.format_in, report=report, cache=cache)
    if profile is None:
        return OpenedProfiles(None, tuple(errors))
    found = cache.used.get(profile.sources[0]) if cache is not None and len(profile.sources) == 1 else None
    as_read = profile = replace(profile, gpu=options.gpu, peaks=peaks)
    if found is not None:
        restore_iterations(profile, found.results)
    try:
        _check(profile)
        # Found here, where the screen does not wait for it.
        profile = with_iterations(profile)
        shown = profile if session is None else profile.only_session(session)
        shown = shown if aggregation is None else aggregated(shown, aggregation)
    except ProftuiError as error:
        return OpenedProfiles(None, (error,))
    restored = found is not None and shown is profile and restore_ops(shown, found.results)
    if shown["ops"].height and not restored:
        # Takes seconds of a large input: done here, where the screen does not wait for it, the views find it done.
        recorded_ops(shown)
    if cache is not None and cache.waits_for(profile.sources):
        cache.add(profile.sources[0], results_to_cache(as_read, shown if shown is profile else None))
    opened = OpenedProfiles(
        profile, tuple(errors), views(profile), shown, cache, deferred_results(shown) if restored else ()
    )
    release_freed_memory()
    return opened


def _check(profile: Profile) -> None:
    """Find out now, not in a view, whether the user's own rules and GPU can be used, where there are any."""
    from tui.analysis import tensor_core_use as tensor_cores
    from tui.analysis.devices import named_gpu
    from tui.analysis.expert import rule
    from tui.analysis.gpu_time.host_calls import phase_rules, user_phases_path
    from tui.analysis.ops import groupings as classes
    from tui.analysis.ops import op_type_rules as ops
    from tui.data.user_files import stamp

    for path, read in (
        (ops.user_rules_path(), ops.op_rules),
        (user_phases_path(), phase_rules),
        (tensor_cores.user_rules_path(), tensor_cores.tensor_core_rules),
        (classes.classes_path(), classes.kernel_classes),
        (rule.user_limits_path(), lambda: rule.limits(rule.stamp())),
    ):
        if stamp(path) is not None:
            read()
    if profile.gpu is not None:
        named_gpu(profile.gpu)
