"""Comparing what is shown with another file, another session, or other iterations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from textual import work
from textual.worker import get_current_worker

from tui.app.loading import LoadingApp
from tui.commands import CommandError
from tui.model.aggregation import aggregation
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.analysis.compare.sides import Sides
    from tui.loaders.base import LoadProgress
    from tui.model.profile import Profile
    from tui.options import OpenOptions

GROUP: Final = "comparison"
OF_THIS_INPUT: Final = ("session", "sessions", "iteration", "iterations")
"""What begins words that name no other file."""
WORKING: Final = "comparing, esc stops"
NOTHING_YET = "nothing was compared yet: d asks what with; so do :compare FILE, :compare iterations 3:5 and the like"
HOW = "name a file, or: session 1; sessions 0 1; iterations 3:5; iterations 3 5"


def check_form(words: str) -> None:
    """Refuse numbers and words for parts of this input that are neither a file nor in a form that is understood.

    Raises:
        CommandError: It says which form is.
    """
    word, *rest = words.split()
    numbers = [one for one in words.split() if one.isdecimal()]
    is_numbers = len(numbers) == len(rest) + 1
    if not (is_numbers or word in OF_THIS_INPUT) or Path(words).exists():
        return
    if not is_numbers and not rest:
        raise CommandError(f"which {word}? {HOW}")
    if is_numbers and len(numbers) <= 2:
        kinds = ("sessions", "iterations") if len(numbers) == 2 else ("session", "iteration")
        forms = " or ".join(f":compare {kind} {' '.join(numbers)}" for kind in kinds)
        raise CommandError(f"{words} is no file: as {forms}")
    if is_numbers or len(rest) > 2:
        raise CommandError(f"one or two can be compared, not {words}: {HOW}")
    if word in OF_THIS_INPUT[:2] and len(numbers) < len(rest):
        raise CommandError(
            f"a session is a number, not {' '.join(rest)}: as :compare session 1 or :compare sessions 0 1"
        )


class ComparingApp(LoadingApp):
    """Holds the comparison that the Compare view shows."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self.compared: Sides | None = None
        """The latest comparison."""
        self._asked_for: tuple[str, Profile | None] = ("", None)
        """In what words it was asked for, and what the views showed then."""
        self._wanted: tuple[str, Profile | None] = ("", None)
        """The same of what is being compared."""
        self._is_swapped = False

    def action_compare(self) -> None:
        """Choose what to compare with."""
        from tui.screens.compare_menu import CompareDialog

        screen = self.view_screen
        if screen is None:
            return
        chosen = screen.chosen_iterations()
        if len(chosen) == 2:
            self.compare(f"iterations {chosen[0]} {chosen[1]}")
            return
        self.push_screen(CompareDialog(self.profile, self.compared), self._asked)

    def _asked(self, what: str | None) -> None:
        if what is not None:
            try:
                self.compare(what)
            except CommandError as error:
                self.say(str(error), severity="error")

    def compare(self, what: str) -> None:
        """Compare with what a person asks for, in words as in `HOW`; without words, show the latest comparison.

        Raises:
            CommandError: It is not understood, or not there.
        """
        if not what.strip():
            if self.compared is None:
                raise CommandError(NOTHING_YET)
            self.go("compare")
            return
        words = what.strip()
        check_form(words)
        if words.partition(" ")[0] not in OF_THIS_INPUT and "://" not in words:
            # Whoever comes back to it may be in another folder.
            words = str(Path(words).expanduser().absolute())
        make = self._comparison(words)
        self._wanted = (words, self.profile)
        self._make_comparison(make)

    def _comparison(self, what: str) -> Callable[[], Sides]:
        """What makes a comparison, in a thread, of what is shown now.

        Raises:
            CommandError: It is not understood.
        """
        from tui.analysis.compare.choice import two_ranges, two_sessions

        profile, whole, shown = self.profile, self.whole_profile, self.aggregation
        assert whole is not None
        word, *rest = what.split()
        if word in OF_THIS_INPUT[:2] and 1 <= len(rest) <= 2 and all(one.isdecimal() for one in rest):
            numbers = [self.session or 0, int(rest[0])] if len(rest) == 1 else [int(rest[0]), int(rest[1])]
            return lambda: two_sessions(whole, numbers[0], numbers[1], shown)
        if word in OF_THIS_INPUT[2:] and 1 <= len(rest) <= 2:
            try:
                ranges = [aggregation(one, shown.key) for one in rest]
            except ProftuiError as error:
                raise CommandError(str(error)) from error
            before = shown if len(ranges) == 1 else ranges[0]
            base = self.all_iterations
            return lambda: two_ranges(base, before, ranges[-1])
        return partial(self._with_other, what, profile)

    def _with_other(self, path: str, now: Profile) -> Sides:
        """Another file beside what is shown."""
        from tui.analysis.compare.choice import two_inputs
        from tui.loaders.registry import load

        worker = get_current_worker()

        def report(progress: LoadProgress) -> bool:
            if worker.is_cancelled:
                return False
            share = f" {100 * progress.bytes_read // progress.bytes_total}%" if progress.bytes_total else ""
            self.call_later(self._show_progress_of, f"reading {Path(path).name}{share}, esc stops")
            return True

        before, errors = load([path], report=report)
        if before is None:
            raise errors[-1]
        return two_inputs(replace(before, gpu=self.options.gpu), now)

    def _show_progress_of(self, words: str) -> None:
        if self.is_comparing:
            self._show_words(words)

    @property
    def is_comparing(self) -> bool:
        """Whether a comparison is being made."""
        return any(worker.group == GROUP and not worker.is_finished for worker in self.workers)

    def action_undo_smallest(self) -> None:
        """Give up a comparison that is being made; else as everywhere."""
        if self.is_comparing:
            self.workers.cancel_group(self, GROUP)
            self._show_words("")
            self.say("stopped comparing")
        else:
            super().action_undo_smallest()

    @property
    def compared_with(self) -> str:
        """In what words the latest comparison was asked for; empty where there is none."""
        return self._asked_for[0]

    def renew_comparison(self) -> None:
        """Compare anew where something else is shown, or was read, since: the Compare view asks for it."""
        words, shown = self._asked_for
        if self.compared is not None and shown is not self.profile:
            self._asked_for = (words, self.profile)
            self._compare_again(words)

    def recall_comparison(self, words: str) -> None:
        """Compare as it was done before, with what is shown now, and stay in the view.

        Args:
            words: From `compared_with`.
        """
        if words and words != self.compared_with:
            self._is_swapped = False
            self._compare_again(words)

    def _compare_again(self, words: str) -> None:
        try:
            make = self._comparison(words)
        except CommandError as error:
            self.say(str(error), severity="error")
            return
        self._wanted = (words, self.profile)
        self._make_comparison((lambda: make().swapped) if self._is_swapped else make, is_renewed=True)

    @work(thread=True, exclusive=True, group=GROUP)
    def _make_comparison(self, make: Callable[[], Sides], *, is_renewed: bool = False) -> None:
        worker = get_current_worker()
        self.call_from_thread(self._show_words, WORKING)
        try:
            made = make()
        except ProftuiError as error:
            hint = f"\n{error.hint}" if error.hint else ""
            answer = partial(self.say, f"{error.message}{hint}", severity="error")
        else:
            answer = partial(self._take_comparison if is_renewed else self._show_comparison, made)
        # Another may have been asked for meanwhile, which is the one to be shown.
        if not worker.is_cancelled:
            self.call_from_thread(self._show_words, "")
            self.call_from_thread(answer)

    def _show_comparison(self, made: Sides) -> None:
        self._is_swapped = False
        self._take_comparison(made)
        self.go("compare")

    def _take_comparison(self, made: Sides) -> None:
        self.compared, self._asked_for = made, self._wanted
        if "compare" in self._screens:
            self._screens["compare"].profile_changed()

    def swap_sides(self) -> None:
        """What was before becomes what is now."""
        if self.compared is not None:
            self._is_swapped = not self._is_swapped
            self.compared = self.compared.swapped
            self._screens["compare"].profile_changed()
