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

GROUP: Final = "comparison"
SELECTION_WORDS: Final = ("session", "sessions", "iteration", "iterations")
"""The first words of a selection within this input; any other text names a file."""
WORKING: Final = "comparing… (esc stops)"
NOTHING_YET: Final = "No comparison yet. Press d, or use :compare FILE."
HOW: Final = "Enter a file, or: session 1; sessions 0 1; iterations 3:5; iterations 3 5."


def check_form(words: str) -> None:
    """Refuse words that are neither a file nor a valid part of this input.

    Raises:
        CommandError: They are not; the message names the valid form.
    """
    word, *rest = words.split()
    numbers = [one for one in words.split() if whole_number(one) is not None]
    is_numbers = len(numbers) == len(rest) + 1
    if not (is_numbers or word in SELECTION_WORDS) or path_exists(words):
        return
    if not is_numbers and not rest:
        raise CommandError(f"Which {word}? {HOW}")
    if is_numbers and len(numbers) <= 2:
        kinds = ("sessions", "iterations") if len(numbers) == 2 else ("session", "iteration")
        forms = " or ".join(f":compare {kind} {' '.join(numbers)}" for kind in kinds)
        raise CommandError(f"File not found: {words}. Did you mean {forms}?")
    if is_numbers or len(rest) > 2:
        raise CommandError(f"Not one or two numbers: {words}. {HOW}")
    if word in SELECTION_WORDS[:2] and len(numbers) < len(rest):
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
        self._asked_for: tuple[str, Profile | None] = ("", None)
        """The words that asked for it, and what the views showed then."""
        self._wanted: tuple[str, Profile | None] = ("", None)
        """The same of what is being compared."""
        self.is_swapped = False
        """Whether baseline and candidate are the other way round than asked for."""

    def ask(self) -> None:
        """Open the dialog of comparisons; two marked iterations are compared at once."""
        from tui.screens.compare import CompareDialog
        from tui.widgets.dialogs.base import open_dialog

        screen = self._navigator.view_screen
        if screen is None:
            return
        chosen = screen.chosen_iterations()
        if len(chosen) == 2:
            self.compare(f"iterations {chosen[0]} {chosen[1]}")
            return
        open_dialog(self._app, CompareDialog(self._session.profile, self.sides), self._compare_with_answer)

    def _compare_with_answer(self, what: str | None) -> None:
        if what is not None:
            try:
                self.compare(what)
            except CommandError as error:
                self._say(str(error), severity="error")

    def compare(self, what: str) -> None:
        """Compare as requested, in the syntax of `HOW`; without a request, show the latest comparison.

        Raises:
            CommandError: The request is invalid, or names something that does not exist.
        """
        if not what.strip():
            if self.sides is None:
                raise CommandError(NOTHING_YET)
            self._navigator.go("compare")
            return
        words = what.strip()
        check_form(words)
        if words.partition(" ")[0] not in SELECTION_WORDS and "://" not in words:
            # An absolute path: the next run may start in another folder.
            words = str(expand_user_path(words).absolute())
        make = self._comparison(words)
        self._wanted = (words, self._session.profile)
        self._make_comparison(make)

    def _comparison(self, what: str) -> Callable[[], Sides]:
        """Return a function that computes a comparison with the current profile, in a thread.

        Raises:
            CommandError: The request is invalid.
        """
        from tui.analysis.compare.sides import two_ranges, two_sessions

        profile, whole, shown = self._session.profile, self._session.whole_profile, self._session.aggregation
        assert whole is not None
        word, *rest = what.split()
        if word in SELECTION_WORDS[:2] and 1 <= len(rest) <= 2 and None not in map(whole_number, rest):
            first, second = [self._session.session or 0, *(int(one) for one in rest)][-2:]
            return lambda: two_sessions(whole, first, second, shown)
        if word in SELECTION_WORDS[2:] and 1 <= len(rest) <= 2:
            try:
                ranges = [aggregation(one, shown.key) for one in rest]
            except ProftuiError as error:
                raise CommandError(str(error)) from error
            before = shown if len(ranges) == 1 else ranges[0]
            base = self._session.all_iterations
            return lambda: two_ranges(base, before, ranges[-1])
        return partial(self._with_other, what, profile)

    def _with_other(self, path: str, now: Profile) -> Sides:
        """Return another file and the current profile as sides."""
        from tui.analysis.compare.sides import two_inputs
        from tui.loaders.registry import load

        worker = get_current_worker()

        def report(progress: LoadProgress) -> bool:
            if worker.is_cancelled:
                return False
            share = f" {100 * progress.bytes_read // progress.bytes_total}%" if progress.bytes_total else ""
            self._app.call_later(self._show_progress_of, f"reading {Path(path).name}{share} (esc stops)")
            return True

        before, errors = load([path], report=report)
        if before is None:
            raise errors[-1]
        return two_inputs(replace(before, gpu=self._options.gpu, peaks=now.peaks), now)

    def _show_progress_of(self, words: str) -> None:
        if self.is_running:
            self._session.show_progress("comparing", words)

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
        return self._asked_for[0]

    def renew(self) -> None:
        """Compare again if the profile or the selection has changed; called by the Compare view."""
        words, shown = self._asked_for
        if self.sides is not None and shown is not self._session.profile:
            self._asked_for = (words, self._session.profile)
            self._compare_again(words)

    def recall(self, words: str) -> None:
        """Repeat an earlier comparison with the current profile, without changing the view.

        Args:
            words: From `compared_with`.
        """
        if words and words != self.request:
            self.is_swapped = False
            self._compare_again(words)

    def _compare_again(self, words: str) -> None:
        try:
            make = self._comparison(words)
        except CommandError as error:
            self._say(str(error), severity="error")
            return
        self._wanted = (words, self._session.profile)
        self._make_comparison((lambda: make().swapped) if self.is_swapped else make, is_renewed=True)

    def _make_comparison(self, make: Callable[[], Sides], *, is_renewed: bool = False) -> None:
        compute = partial(self._compute, make, is_renewed=is_renewed)
        self._app.run_worker(compute, thread=True, exclusive=True, group=GROUP)

    def _compute(self, make: Callable[[], Sides], *, is_renewed: bool) -> None:
        worker = get_current_worker()
        self._app.call_from_thread(self._session.show_progress, "comparing", WORKING)
        try:
            made = make()
        except ProftuiError as error:
            hint = f"\n{error.hint}" if error.hint else ""
            answer = partial(self._say, f"{error.message}{hint}", severity="error")
        else:
            answer = partial(self._take_comparison if is_renewed else self._show_comparison, made)
        # Another comparison may have been requested meanwhile; show only the latest.
        if not worker.is_cancelled:
            self._app.call_from_thread(self._session.show_progress, "comparing", "")
            self._app.call_from_thread(answer)

    def _show_comparison(self, made: Sides) -> None:
        self.is_swapped = False
        self._take_comparison(made)
        self._navigator.go("compare")

    def _take_comparison(self, made: Sides) -> None:
        self.sides, self._asked_for = made, self._wanted
        if "compare" in self._views:
            self._views["compare"].profile_changed()

    def swap(self) -> None:
        """Swap baseline and candidate."""
        if self.sides is not None:
            self.is_swapped = not self.is_swapped
            self.sides = self.sides.swapped
            self._views["compare"].profile_changed()
