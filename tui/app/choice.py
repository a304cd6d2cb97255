"""What the views show of all that was read: a session, some iterations; and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from textual import work
from textual.app import App

from tui.commands import CommandError
from tui.model.aggregation import MadeAggregation
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import PurePath

    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile
    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen

MESSAGE_SECONDS: Final = 3.0
WARNING_SECONDS: Final = 8.0
"""How long a message stays on the screen."""

ROWS_AT_ONCE: Final = 300_000
"""Of more launches, calls and ops than this, other iterations are worked out in a thread."""
BUSY_AFTER: Final = 0.15
"""Seconds before it is said that they are."""
CHOOSE: Final = "choose"
"""The group of the threads that work out what is chosen."""
CUTS_KEPT: Final = 3
"""So many ways to cut the sessions into iterations are kept, to go back to at once."""


class ChoosingApp(App[None]):
    """Holds what was read, and what of it is shown.

    Args:
        options: What the command line asked for.
    """

    def __init__(self, options: OpenOptions) -> None:
        styles: list[str | PurePath] = ["app.tcss", *(["ascii.tcss"] if options.ascii_only else [])]
        super().__init__(css_path=styles, ansi_color=True if options.color == "none" else None)
        self.options = options
        self.ascii_only = options.ascii_only
        self.whole_profile: Profile | None = None
        """Everything that was read."""
        self.session = options.session
        """The only session that the views show, or None for all."""
        self.aggregation = options.aggregation
        """The iterations that the views show."""
        self.aggregations: list[MadeAggregation] = []
        """What was chosen so far, in the order in which it was chosen first."""
        self.working = ""
        """What is being worked out, in a word."""
        self._choice = 0
        self._cuts: tuple[Profile | None, dict[tuple[int | None, str | None], Profile]] = (None, {})
        """What was read, and for each session and key how it is cut into iterations."""
        self._screens: dict[str, ViewScreen] = {}
        self._profile: Profile | None = None

    @property
    def profile(self) -> Profile:
        """What the views show: the session and the iterations that were chosen, of everything read."""
        if self._profile is None:
            self._profile = self._chosen(self.session, self.aggregation)
        return self._profile

    @property
    def all_iterations(self) -> Profile:
        """The session that was chosen with all its iterations, as the key cuts it."""
        return self._cut(self.session, self.aggregation.key) if self.aggregation.is_part else self.profile

    def choose_session(self, session: int | None) -> None:
        """Show one session in every view, or all of them."""
        assert self.whole_profile is not None
        if session is not None and not 0 <= session < self.whole_profile["sessions"].height:
            raise CommandError(
                f"there is no session {session}: they run from 0 to {self.whole_profile['sessions'].height - 1}"
            )
        self._choose(session, self.aggregation)

    def choose_iterations(self, wanted: Aggregation) -> None:
        """Show some iterations in every view, or iterations by another key."""
        self._choose(self.session, wanted)

    def _choose(self, session: int | None, wanted: Aggregation) -> None:
        assert self.whole_profile is not None
        self._choice += 1
        if sum(self.whole_profile[name].height for name in ("activities", "api_calls", "ops")) > ROWS_AT_ONCE:
            self.set_timer(BUSY_AFTER, partial(self._show_working, self._choice))
            self._choose_in_thread(self._choice, self.whole_profile, session, wanted)
            return
        try:
            profile = self._chosen(session, wanted)
        except ProftuiError as error:
            raise CommandError(str(error)) from error
        self._show_chosen(profile, session, wanted)

    @property
    def is_choosing(self) -> bool:
        """Whether what the views are to show is being worked out."""
        return any(worker.group == CHOOSE and not worker.is_finished for worker in self.workers)

    @work(thread=True, group=CHOOSE)
    def _choose_in_thread(self, choice: int, whole: Profile, session: int | None, wanted: Aggregation) -> None:
        try:
            profile = self._chosen(session, wanted)
        except ProftuiError as error:
            take = partial(self.say, str(error), severity="error")
        else:
            take = partial(self._show_chosen, profile, session, wanted)
        self.call_from_thread(self._take_choice, choice, whole, take)

    def _take_choice(self, choice: int, whole: Profile, take: Callable[[], None]) -> None:
        # Something else may have been asked for, or the files read again, in the meantime.
        if choice == self._choice:
            self._choice += 1
            self._show_words("")
            if whole is self.whole_profile:
                take()
            else:
                self.say("the files were read again meanwhile: choose anew", severity="warning")

    def _show_working(self, choice: int) -> None:
        if choice == self._choice:
            self._show_words("aggregating")

    def _show_words(self, words: str) -> None:
        self.working = words
        for screen in self._screens.values():
            if screen.is_current:
                screen.show_crumbs()

    def _show_chosen(self, profile: Profile, session: int | None, wanted: Aggregation) -> None:
        self.remember_aggregation(None)
        self._profile, self.session, self.aggregation = profile, session, wanted
        self.remember_aggregation(datetime.now())
        for screen in self._screens.values():
            screen.profile_changed()

    def remember_aggregation(self, at: datetime | None) -> None:
        """Put the present aggregation on the list of those made so far; one that is there already stays where it is."""
        if at is None and self.aggregations:
            return
        known = self.profile.steps
        number = 0 if known is None else known["iteration"].count()
        made = MadeAggregation(self.aggregation, number, at)
        same = [place for place, earlier in enumerate(self.aggregations) if earlier.chosen == made.chosen]
        if same:
            self.aggregations[same[0]] = replace(made, at=self.aggregations[same[0]].at)
        else:
            self.aggregations.append(made)

    def _cut(self, session: int | None, key: str | None) -> Profile:
        """A session, or all of them, with the iterations that end with a key.

        Raises:
            ProftuiError: There is no such key.
        """
        from tui.analysis.iterations.tables import with_iterations

        whole = self.whole_profile
        assert whole is not None, "views open only after a profile is there"
        of, cuts = self._cuts
        if of is not whole:
            # Others, not the same emptied: a thread may still be cutting what was read before.
            cuts = {}
            self._cuts = whole, cuts
        cut = cuts.get((session, key))
        if cut is None:
            cut = with_iterations(whole if session is None else whole.only_session(session), key)
            cuts[session, key] = cut
            for oldest in list(cuts)[:-CUTS_KEPT]:
                cuts.pop(oldest, None)
        return cut

    def _chosen(self, session: int | None, wanted: Aggregation) -> Profile:
        """What is to be shown.

        Raises:
            ProftuiError: The iterations or their key are not there.
        """
        from tui.analysis.iterations.aggregation import aggregated

        return aggregated(self._cut(session, wanted.key), wanted)

    # --- what is said -------------------------------------------------------------------------------------------------

    def notify(self, message: str, **how: Any) -> None:
        """A passing message; the one before it goes, so that they never pile up over the rows."""
        self.clear_notifications()
        super().notify(message, **{"timeout": MESSAGE_SECONDS, **how})

    def say(self, message: str, *, severity: str = "information") -> None:
        """A passing message; the text is never markup."""
        seconds = MESSAGE_SECONDS if severity == "information" else WARNING_SECONDS
        self.notify(message, severity=cast("Any", severity), markup=False, timeout=seconds)
