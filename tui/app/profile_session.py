"""The open profile, the session and iterations that the views show, and the arrangement of tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, Protocol

from tui.model.aggregation import AggregationChoice, phase_filter
from tui.model.errors import CommandError, ProftuiError
from tui.widgets.app_services import SHOW_BUSY_AFTER_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import App

    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile
    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen
    from tui.screens.explorer import Severity
    from tui.state.workspace import Arrangements


CHOOSE: Final = "choose"
"""The group of the workers that compute the chosen selection."""
MAX_CACHED_ITERATION_KEYS: Final = 3
"""The number of ways to divide sessions into iterations that are cached."""


class ShowMessage(Protocol):
    """Shows a message for a few seconds."""

    def __call__(self, message: str, *, severity: Severity = "information") -> None:
        """Show it."""


class ProfileSession:
    """Holds the profile, and the part of it that the views show.

    Args:
        app: Runs threads and timers.
        options: The options of the command line.
        views: The opened views by name.
        say: Shows a message.
    """

    def __init__(self, app: App[None], options: OpenOptions, views: Mapping[str, ViewScreen], say: ShowMessage) -> None:
        self._app, self._views, self._say = app, views, say
        self._paths = options.paths
        self.whole_profile: Profile | None = None
        """Everything that was read."""
        self.session = options.session
        """The only session that the views show, or None for all."""
        self.aggregation = options.aggregation
        """The iterations that the views show."""
        self.aggregations: list[AggregationChoice] = []
        """Every aggregation chosen so far, in the order in which each was first chosen."""
        self.global_filter = ""
        """The filter that the user carries from view to view."""
        self.progress: dict[str, str] = {}
        """The progress texts of running work, by kind."""
        self._request = 0
        """The number of the latest choice: results of earlier ones are dropped."""
        self._keyed_profiles: tuple[Profile | None, dict[tuple[int | None, str | None], Profile]] = (None, {})
        """The whole profile, and for each session and key the profile with these iterations."""
        self._profile: Profile | None = None

    # --- what is shown -----------------------------------------------------------------------------------------------

    @property
    def is_shown(self) -> bool:
        """Whether the shown part of the profile has been computed."""
        return self._profile is not None

    @property
    def profile(self) -> Profile:
        """The shown profile: the chosen session and iterations of the whole profile."""
        if self._profile is None:
            self._profile = self._chosen(self.session, self.aggregation)
        return self._profile

    @property
    def all_iterations(self) -> Profile:
        """The chosen session with all its iterations, divided by the key."""
        return self._with_key(self.session, self.aggregation.key) if self.aggregation.is_part else self.profile

    def take(self, whole_profile: Profile, profile: Profile | None) -> None:
        """Set the profile that was read.

        Args:
            whole_profile: The whole profile.
            profile: The part that the views show, if known.
        """
        self.whole_profile, self._profile = whole_profile, profile

    def show_progress(self, kind: str, text: str) -> None:
        """Show progress in the first line of the views.

        Args:
            kind: The work, such as ``reading``.
            text: The progress; empty at the end.
        """
        self.progress.pop(kind, None)
        if text:
            self.progress[kind] = text
        for screen in self._views.values():
            if screen.is_current:
                screen.show_crumbs()

    # --- choosing ----------------------------------------------------------------------------------------------------

    def choose_session(self, session: int | None) -> None:
        """Show one session in every view, or all sessions.

        Raises:
            CommandError: There is no such session.
        """
        assert self.whole_profile is not None
        if session is not None and not 0 <= session < self.whole_profile["sessions"].height:
            last = self.whole_profile["sessions"].height - 1
            raise CommandError(f"No session {session}. Sessions are 0 to {last}.")
        self.choose(session, self.aggregation)

    def choose_iterations(self, aggregation: Aggregation) -> None:
        """Show some iterations in every view, or iterations by another key."""
        self.choose(self.session, aggregation)

    def choose(self, session: int | None, aggregation: Aggregation) -> None:
        """Show a session and iterations of it; for a large profile they are computed in a thread.

        Raises:
            CommandError: They do not exist.
        """
        from tui.screens.base import is_large

        assert self.whole_profile is not None
        self._request += 1
        if is_large(self.whole_profile):
            self._app.set_timer(SHOW_BUSY_AFTER_S, partial(self._show_choosing, self._request))
            compute = partial(self._choose_in_thread, self._request, self.whole_profile, session, aggregation)
            self._app.run_worker(compute, thread=True, group=CHOOSE)
            return
        try:
            profile = self._chosen(session, aggregation)
        except ProftuiError as error:
            raise CommandError(str(error)) from error
        self._show_chosen(profile, session, aggregation)

    @property
    def is_choosing(self) -> bool:
        """Whether a thread is computing the part to show."""
        return any(worker.group == CHOOSE and not worker.is_finished for worker in self._app.workers)

    def _choose_in_thread(
        self, request: int, whole_profile: Profile, session: int | None, aggregation: Aggregation
    ) -> None:
        show: Callable[[], None] | None = None
        try:
            profile = self._chosen(session, aggregation)
        except ProftuiError as error:
            show = partial(self._say, str(error), severity="error")
        else:
            show = partial(self._show_chosen, profile, session, aggregation)
        finally:
            self._app.call_from_thread(self._take_choice, request, whole_profile, show)

    def _take_choice(self, request: int, whole_profile: Profile, show: Callable[[], None] | None) -> None:
        # The selection or the files may have changed meanwhile.
        if request == self._request:
            self._request += 1
            self.show_progress("choosing", "")
            if whole_profile is not self.whole_profile:
                self._say("The file was reloaded. Choose again.", severity="warning")
            elif show is not None:
                show()

    def _show_choosing(self, request: int) -> None:
        if request == self._request:
            self.show_progress("choosing", "aggregating…")

    def _show_chosen(self, profile: Profile, session: int | None, aggregation: Aggregation) -> None:
        self.remember_aggregation(None)
        self._profile, self.session, self.aggregation = profile, session, aggregation
        self.remember_aggregation(datetime.now())
        for screen in self._views.values():
            screen.profile_changed()

    def remember_aggregation(self, at: datetime | None) -> None:
        """Add the current aggregation to the list of earlier ones, unless it is there."""
        if at is None and self.aggregations:
            return
        steps = self.profile.steps
        number = 0 if steps is None else steps["iteration"].count()
        choice = AggregationChoice(self.aggregation, number, at)
        equal = [index for index, earlier in enumerate(self.aggregations) if earlier.chosen == choice.chosen]
        if equal:
            self.aggregations[equal[0]] = replace(choice, at=self.aggregations[equal[0]].at)
        else:
            self.aggregations.append(choice)

    def _with_key(self, session: int | None, key: str | None) -> Profile:
        """Return a session, or all, with the iterations that end with a key.

        Raises:
            ProftuiError: There is no such key.
        """
        from tui.analysis.iterations.iteration_table import with_iterations

        whole_profile = self.whole_profile
        assert whole_profile is not None, "views open only after a profile is there"
        cached_profile, profiles = self._keyed_profiles
        if cached_profile is not whole_profile:
            # A new dictionary: a thread may still use the old one for the previous profile.
            profiles = {}
            self._keyed_profiles = whole_profile, profiles
        profile = profiles.get((session, key))
        if profile is None:
            profile = with_iterations(whole_profile if session is None else whole_profile.only_session(session), key)
            profiles[session, key] = profile
            for oldest in list(profiles)[:-MAX_CACHED_ITERATION_KEYS]:
                profiles.pop(oldest, None)
        return profile

    def _chosen(self, session: int | None, aggregation: Aggregation) -> Profile:
        """Return the profile to show.

        Raises:
            ProftuiError: The iterations or their key do not exist.
        """
        from tui.analysis.iterations.chosen_iterations import select_iterations

        return select_iterations(self._with_key(session, aggregation.key), aggregation)

    # --- tables ------------------------------------------------------------------------------------------------------

    @cached_property
    def arrangements(self) -> Arrangements:
        """The arrangements of tables, of this run and earlier ones."""
        from tui.state.workspace import Arrangements

        return Arrangements()

    def set_global_filter(self, text: str) -> None:
        """Filter every view that can apply the text; empty removes the filter. A phase selects its iterations."""
        if (phase := phase_filter(text)) is not None:
            self.choose_iterations(replace(self.aggregation, phase=phase))
            return
        if text != self.global_filter:
            self.global_filter = text
            for screen in self._views.values():
                screen.global_filter_changed()

    @property
    def profile_name(self) -> str:
        """The name of the open profile, for headings."""
        from tui.output.export import profile_name

        sources = self.whole_profile.sources if self.whole_profile is not None else ()
        if len(sources) == 1:
            return profile_name(sources)
        return profile_name(self._paths, len(sources))

    @property
    def opened_name(self) -> str:
        """What is open as the user named it, for exports."""
        from tui.output.export import profile_name

        sources = self.whole_profile.sources if self.whole_profile is not None else ()
        return profile_name(self._paths, len(sources))
