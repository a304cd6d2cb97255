"""What the views show of all that was read: a session, some iterations; and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from textual.app import App

from tui.commands import CommandError
from tui.model.errors import ProftuiError

if TYPE_CHECKING:
    from pathlib import PurePath

    from tui.model.aggregation import Aggregation
    from tui.model.profile import Profile
    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen

MESSAGE_SECONDS: Final = 3.0
WARNING_SECONDS: Final = 8.0
"""How long a message stays on the screen."""


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
        self._screens: dict[str, ViewScreen] = {}
        self._profile: Profile | None = None

    @property
    def profile(self) -> Profile:
        """What the views show: the session and the iterations that were chosen, of everything read."""
        assert self.whole_profile is not None, "views open only after a profile is there"
        if self._profile is None:
            whole = self.whole_profile
            self._profile = self._chosen(whole, self.session, self.aggregation)
        return self._profile

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
        try:
            profile = self._chosen(self.whole_profile, session, wanted)
        except ProftuiError as error:
            raise CommandError(str(error)) from error
        self._profile, self.session, self.aggregation = profile, session, wanted
        for screen in self._screens.values():
            screen.profile_changed()

    @staticmethod
    def _chosen(whole: Profile, session: int | None, wanted: Aggregation) -> Profile:
        """What is to be shown.

        Raises:
            ProftuiError: The iterations or their key are not there.
        """
        from tui.analysis.iterations.aggregation import aggregated

        return aggregated(whole if session is None else whole.only_session(session), wanted)

    # --- what is said -------------------------------------------------------------------------------------------------

    def notify(self, message: str, **how: Any) -> None:
        """A passing message; the one before it goes, so that they never pile up over the rows."""
        self.clear_notifications()
        super().notify(message, **{"timeout": MESSAGE_SECONDS, **how})

    def say(self, message: str, *, severity: str = "information") -> None:
        """A passing message; the text is never markup."""
        seconds = MESSAGE_SECONDS if severity == "information" else WARNING_SECONDS
        self.notify(message, severity=cast("Any", severity), markup=False, timeout=seconds)
