"""Opens the files of the command line, and computes what the first views need."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tui.cache.cache import Cache
    from tui.loaders.base import ProgressCallback
    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile
    from tui.options import OpenOptions


@dataclass(frozen=True, slots=True)
class OpenedProfiles:
    """The result of opening files."""

    profile: Profile | None
    """The profile of all files that could be opened; None if there are none."""
    errors: tuple[ProftuiError, ...]
    """The files that could not be opened, with reasons."""
    availability: dict[str, str] = field(default_factory=dict)
    """By view: ``ok``, or why the profile cannot feed it."""
    shown: Profile | None = None
    """The profile restricted to the requested session and iterations."""
    cache: Cache | None = None
    """The cache to write when the user no longer waits (`Cache.write_behind`)."""
    deferred_results: Sequence[Callable[[], object]] = ()
    """Functions that compute results for further views; to be called when the user no longer waits."""


def open_profiles(
    options: OpenOptions,
    on_progress: ProgressCallback,
    *,
    session: int | None,
    aggregation: Aggregation | None = None,
    renew: bool = False,
) -> OpenedProfiles:
    """Read all files; an unreadable file does not stop the others.

    Args:
        options: The options of the command line.
        on_progress: Called with the progress; returns False to stop and keep the data read before this point.
        session: The only session to show, which must exist; None for all.
        aggregation: The iterations to show, which must exist; None for all.
        renew: Whether to ignore the cache.
    """
    # Imported here so that the app is drawn before Polars is imported.
    from tui.analysis.cached_results import (
        CACHED_SCHEMAS,
        deferred_results,
        restore_iterations,
        restore_ops,
        results_to_cache,
    )
    from tui.analysis.capabilities import views
    from tui.analysis.devices import peak_option
    from tui.analysis.iterations.chosen_iterations import select_iterations
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
    profile, errors = registry.load(options.paths, format_in=options.format_in, on_progress=on_progress, cache=cache)
    if profile is None:
        return OpenedProfiles(None, tuple(errors))
    cached = cache.used.get(profile.sources[0]) if cache is not None and len(profile.sources) == 1 else None
    as_read = profile = replace(profile, gpu=options.gpu, peaks=peaks)
    if cached is not None:
        restore_iterations(profile, cached.results)
    try:
        _validate_user_files(profile)
        # Computed in this thread, so that the screen does not wait for it.
        profile = with_iterations(profile)
        shown = profile if session is None else profile.only_session(session)
        shown = shown if aggregation is None else select_iterations(shown, aggregation)
    except ProftuiError as error:
        return OpenedProfiles(None, (error,))
    restored = cached is not None and shown is profile and restore_ops(shown, cached.results)
    if shown["ops"].height and not restored:
        # Takes seconds for a large input, so it is computed here and not in a view.
        recorded_ops(shown)
    if cache is not None and cache.is_pending(profile.sources):
        cache.add(profile.sources[0], results_to_cache(as_read, shown if shown is profile else None))
    opened = OpenedProfiles(
        profile, tuple(errors), views(profile), shown, cache, deferred_results(shown) if restored else ()
    )
    release_freed_memory()
    return opened


def _validate_user_files(profile: Profile) -> None:
    """Validate the user's rules and GPU now, not in a view."""
    from tui.analysis import tensor_core_use as tensor_cores
    from tui.analysis.devices import named_gpu
    from tui.analysis.expert import rule
    from tui.analysis.gpu_time.host_calls import phase_rules, user_phases_path
    from tui.analysis.ops import groupings as classes
    from tui.analysis.ops import op_type_rules as ops
    from tui.data.user_files import stamp

    for path, load_rules in (
        (ops.op_type_rules_path(), ops.op_rules),
        (user_phases_path(), phase_rules),
        (tensor_cores.tensor_core_rules_path(), tensor_cores.tensor_core_rules),
        (classes.classes_path(), classes.kernel_classes),
        (rule.user_limits_path(), lambda: rule.limits(rule.user_limits_stamp())),
    ):
        if stamp(path) is not None:
            load_rules()
    if profile.gpu is not None:
        named_gpu(profile.gpu)
