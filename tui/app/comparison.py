"""Comparison of the shown profile with another file, another session, or other iterations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual.worker import get_current_worker

from tui.model.aggregation import aggregation
from tui.model.errors import CommandError, ProftuiError
from tui.options import expand_user_path, path_exists
from tui.text import whole_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.analysis.compare.sides import Sides
    from tui.app.navigator import AppParts
    from tui.loaders.base import LoadProgress
    from tui.model.profile import Profile
    from tui.screens.base import ViewScreen

GROUP: Final = "comparison"
SELECTION_KINDS: Final = ("session", "sessions", "iteration", "iterations")
"""The first word of a request for a part of this input; any other text names a file."""
WORKING: Final = "comparing… (esc stops)"
NO_COMPARISON: Final = "No comparison yet. Press d, or use :compare FILE."
USAGE: Final = "Enter a file, or: session 1; sessions 0 1; iterations 3:5; iterations 3 5."


def check_form(request: str) -> None:
    """Refuse a request that names neither a file nor a valid part of this input.

    Raises:
        CommandError: The request is invalid; the message names the valid form.
    """
    first, *rest = request.split()
    numbers = [word for word in request.split() if whole_number(word) is not None]
    are_all_numbers = len(numbers) == len(rest) + 1
    if not (are_all_numbers or first in SELECTION_KINDS) or path_exists(request):
        return
    if not are_all_numbers and not rest:
        raise CommandError(f"Which {first}? {USAGE}")
    if are_all_numbers and len(numbers) <= 2:
        kinds = ("sessions", "iterations") if len(numbers) == 2 else ("session", "iteration")
        forms = " or ".join(f":compare {kind} {' '.join(numbers)}" for kind in kinds)
        raise CommandError(f"File not found: {request}. Did you mean {forms}?")
    if are_all_numbers or len(rest) > 2:
        raise CommandError(f"Not one or two numbers: {request}. {USAGE}")
    if first in SELECTION_KINDS[:2] and len(numbers) < len(rest):
        raise CommandError(f"Not a session number: {' '.join(rest)}. Use :compare session 1 or :compare sessions 0 1.")


class Comparison:
    """Holds the comparison that the Compare view shows, and computes it.

    Args:
        parts: The application and what it owns.
    """

    def __init__(self, parts: AppParts) -> None:
        self._app, self._options, self._session = parts.app, parts.options, parts.session
        self._navigator, self._views, self._say = parts.navigator, parts.views, parts.say
        self.sides: Sides | None = None
        """The latest comparison."""
        self._latest_request: tuple[str, Profile | None] = ("", None)
        """Its request, and the profile that the views showed then."""
        self._pending_request: tuple[str, Profile | None] = ("", None)
        """The same of the comparison that is being computed."""
        self.is_swapped = False
        """Whether baseline and candidate are swapped, compared with the request."""

    def ask(self) -> None:
        """Open the dialog of comparisons; two marked iterations are compared at once."""
        screen = self._navigator.view_screen
        if screen is None:
            return
        chosen = screen.chosen_iterations()
        if len(chosen) == 2:
            self.compare(f"iterations {chosen[0]} {chosen[1]}")
            return
        self._open_dialog()

    def _open_dialog(self, text: str = "", error: str = "") -> None:
        from tui.screens.compare import CompareDialog
        from tui.widgets.dialogs.base import open_dialog

        open_dialog(self._app, CompareDialog(self._session.profile, self.sides, text, error), self._compare_as_chosen)

    def _compare_as_chosen(self, request: str | None) -> None:
        if request is not None:
            ask_again = partial(self._ask_again, request, self._navigator.view_screen)
            try:
                self.compare(request, ask_again)
            except CommandError as error:
                ask_again(str(error))

    def _ask_again(self, request: str, screen: ViewScreen | None, error: str) -> None:
        """Open the dialog again with a request that failed, unless the user went on meanwhile."""
        if self._app.screen is screen:
            self._open_dialog(request, error)
        else:
            self._say_error(error)

    def _say_error(self, text: str) -> None:
        self._say(text, severity="error")

    def compare(self, text: str, on_failure: Callable[[str], None] | None = None) -> None:
        """Compare as requested, in the syntax of `USAGE`; without a request, show the latest comparison.

        Args:
            text: The request.
            on_failure: Called with the reason if a side turns out to be missing; by default, the reason is shown.

        Raises:
            CommandError: The request is invalid, or names something that does not exist.
        """
        if not text.strip():
            if self.sides is None:
                raise CommandError(NO_COMPARISON)
            self._navigator.go("compare")
            return
        request = text.strip()
        check_form(request)
        if request.partition(" ")[0] not in SELECTION_KINDS and "://" not in request:
            # An absolute path: the next run may start in another folder.
            request = str(expand_user_path(request).absolute())
        compute = self._comparison(request)
        self._pending_request = (request, self._session.profile)
        self._make_comparison(compute, on_failure)

    def _comparison(self, request: str) -> Callable[[], Sides]:
        """Return a function that computes a comparison with the current profile, in a thread.

        Raises:
            CommandError: The request is invalid.
        """
        from tui.analysis.compare.sides import two_ranges, two_sessions

        profile, whole_profile = self._session.profile, self._session.whole_profile
        shown_aggregation = self._session.aggregation
        assert whole_profile is not None
        kind, *arguments = request.split()
        if kind in SELECTION_KINDS[:2] and 1 <= len(arguments) <= 2 and None not in map(whole_number, arguments):
            first, second = [self._session.session or 0, *(int(text) for text in arguments)][-2:]
            return lambda: two_sessions(whole_profile, first, second, shown_aggregation)
        if kind in SELECTION_KINDS[2:] and 1 <= len(arguments) <= 2:
            try:
                ranges = [aggregation(text, shown_aggregation.key) for text in arguments]
            except ProftuiError as error:
                raise CommandError(str(error)) from error
            baseline = shown_aggregation if len(ranges) == 1 else ranges[0]
            base = self._session.all_iterations
            return lambda: two_ranges(base, baseline, ranges[-1])
        return partial(self._compare_with_file, request, profile)

    def _compare_with_file(self, path: str, candidate: Profile) -> Sides:
        """Return another file and the current profile as sides."""
        from tui.analysis.compare.sides import two_inputs
        from tui.loaders.registry import load

        worker = get_current_worker()

        def report(progress: LoadProgress) -> bool:
            if worker.is_cancelled:
                return False
            share = f" {100 * progress.bytes_read // progress.bytes_total}%" if progress.bytes_total else ""
            self._app.call_later(self._show_progress, f"reading {Path(path).name}{share} (esc stops)")
            return True

        baseline, errors = load([path], on_progress=report)
        if baseline is None:
            raise errors[-1]
        return two_inputs(replace(baseline, gpu=self._options.gpu, peaks=candidate.peaks), candidate)

    def _show_progress(self, text: str) -> None:
        if self.is_running:
            self._session.show_progress("comparing", text)

    @property
    def is_running(self) -> bool:
        """Whether a comparison is being computed."""
        return any(worker.group == GROUP and not worker.is_finished for worker in self._app.workers)

    def stop(self) -> bool:
        """Stop a running comparison; False if there is none."""
        if not self.is_running:
            return False
        self._app.workers.cancel_group(self._app, GROUP)
        self._session.show_progress("comparing", "")
        self._say("Comparison stopped.")
        return True

    @property
    def request(self) -> str:
        """The text of the latest request; empty if there is none."""
        return self._latest_request[0]

    def renew(self) -> None:
        """Compare again if the profile or the selection has changed; called by the Compare view."""
        request, shown = self._latest_request
        if self.sides is not None and shown is not self._session.profile:
            self._latest_request = (request, self._session.profile)
            self._compare_again(request)

    def recall(self, request: str) -> None:
        """Repeat an earlier comparison with the current profile, without changing the view.

        Args:
            request: A former value of `request`.
        """
        if request and request != self.request:
            self.is_swapped = False
            self._compare_again(request)

    def _compare_again(self, request: str) -> None:
        try:
            compute = self._comparison(request)
        except CommandError as error:
            self._say_error(str(error))
            return
        self._pending_request = (request, self._session.profile)
        compute_sides = (lambda: compute().swapped) if self.is_swapped else compute
        self._make_comparison(compute_sides, keeps_view=True)

    def _make_comparison(
        self,
        compute_sides: Callable[[], Sides],
        on_failure: Callable[[str], None] | None = None,
        *,
        keeps_view: bool = False,
    ) -> None:
        compute = partial(self._compute, compute_sides, on_failure or self._say_error, keeps_view=keeps_view)
        self._app.run_worker(compute, thread=True, exclusive=True, group=GROUP)

    def _compute(
        self, compute_sides: Callable[[], Sides], on_failure: Callable[[str], None], *, keeps_view: bool
    ) -> None:
        worker = get_current_worker()
        self._app.call_from_thread(self._session.show_progress, "comparing", WORKING)
        try:
            sides = compute_sides()
        except ProftuiError as error:
            hint = f"\n{error.hint}" if error.hint else ""
            answer = partial(on_failure, f"{error.message}{hint}")
        else:
            answer = partial(self._take_comparison if keeps_view else self._show_comparison, sides)
        finally:
            # Another comparison may have been requested meanwhile; show only the latest.
            if not worker.is_cancelled:
                self._app.call_from_thread(self._session.show_progress, "comparing", "")
        if not worker.is_cancelled:
            self._app.call_from_thread(answer)

    def _show_comparison(self, sides: Sides) -> None:
        self.is_swapped = False
        self._take_comparison(sides)
        self._navigator.go("compare")

    def _take_comparison(self, sides: Sides) -> None:
        self.sides, self._latest_request = sides, self._pending_request
        if "compare" in self._views:
            self._views["compare"].profile_changed()

    def swap(self) -> None:
        """Swap baseline and candidate."""
        if self.sides is not None:
            self.is_swapped = not self.is_swapped
            self.sides = self.sides.swapped
            self._views["compare"].profile_changed()
