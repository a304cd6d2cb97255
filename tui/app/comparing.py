"""Comparing what is shown with another file, another session, or other iterations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import work
from textual.worker import get_current_worker

from tui.app.loading import LoadingApp
from tui.commands import CommandError
from tui.model.aggregation import aggregation
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.analysis.compare.sides import Sides
    from tui.model.profile import Profile
    from tui.options import OpenOptions

NOTHING_YET = "nothing was compared yet: d asks what with; so do :compare FILE, :compare iterations 3:5 and the like"
HOW = "name a file, or: session 1; sessions 0 1; iterations 3:5; iterations 3 5"


class ComparingApp(LoadingApp):
    """Holds the comparison that the Compare view shows."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self.compared: Sides | None = None
        """The latest comparison."""

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
        from tui.analysis.compare.choice import two_ranges, two_sessions

        profile, whole = self.profile, self.whole_profile
        assert whole is not None
        word, *rest = what.split() or [""]
        if not word:
            if self.compared is None:
                raise CommandError(NOTHING_YET)
            self.go("compare")
        elif word in ("session", "sessions") and 1 <= len(rest) <= 2 and all(one.isdecimal() for one in rest):
            numbers = [self.session or 0, int(rest[0])] if len(rest) == 1 else [int(rest[0]), int(rest[1])]
            self._work(lambda: two_sessions(whole, numbers[0], numbers[1]))
        elif word in ("iteration", "iterations") and 1 <= len(rest) <= 2:
            try:
                ranges = [aggregation(one, self.aggregation.key) for one in rest]
            except ProftuiError as error:
                raise CommandError(str(error)) from error
            before = self.aggregation if len(ranges) == 1 else ranges[0]
            base = profile if len(ranges) == 1 and not self.aggregation.is_part else self._all_iterations()
            self._work(lambda: two_ranges(base, before, ranges[-1]))
        else:
            self._open_other(what.strip())

    def _all_iterations(self) -> Profile:
        assert self.whole_profile is not None
        return self.whole_profile if self.session is None else self.whole_profile.only_session(self.session)

    def _open_other(self, path: str) -> None:
        from tui.analysis.compare.choice import two_inputs
        from tui.loaders.registry import load

        now = self.profile

        def read() -> Sides:
            before, errors = load([path])
            if before is None:
                raise errors[-1]
            return two_inputs(before, now)

        self._work(read)

    def _work(self, make: Callable[[], Sides]) -> None:
        self.say("comparing…")
        self._make_comparison(make)

    @work(thread=True, exclusive=True, group="compare")
    def _make_comparison(self, make: Callable[[], Sides]) -> None:
        worker = get_current_worker()
        try:
            made = make()
        except ProftuiError as error:
            hint = f"\n{error.hint}" if error.hint else ""
            answer = partial(self.say, f"{error.message}{hint}", severity="error")
        else:
            answer = partial(self._show_comparison, made)
        # Another may have been asked for meanwhile, which is the one to be shown.
        if not worker.is_cancelled:
            self.call_from_thread(answer)

    def _show_comparison(self, made: Sides) -> None:
        self.compared = made
        self.clear_notifications()
        self.go("compare", lambda screen: screen.profile_changed())

    def swap_sides(self) -> None:
        """What was before becomes what is now."""
        if self.compared is not None:
            self._show_comparison(self.compared.swapped)
