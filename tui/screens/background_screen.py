"""Views whose rows take a while to work out of many launches: that is done in a thread, and said meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import work

from tui.screens.base import ROWS_AT_ONCE, ViewScreen

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.model.profile import Profile


class BackgroundScreen(ViewScreen):
    """A view that is filled once its rows are there; the functions that make them remember what they made."""

    def __init__(self) -> None:
        super().__init__()
        self._made: tuple[Profile, str] | None = None
        """Of which profile which rows are there."""

    def is_made(self, what: str, make: Callable[[Profile], object]) -> bool:
        """Whether rows can be had at once; if not, they are made, and the view is filled again after that.

        Args:
            what: Which rows.
            make: Makes them, and remembers them.
        """
        profile = self.profile
        if profile["activities"].height <= ROWS_AT_ONCE:
            return True
        if self._made is not None and self._made[0] is profile and self._made[1] == what:
            return True
        self._make(profile, what, make)
        return False

    @work(thread=True, exclusive=True, group="make rows")
    def _make(self, profile: Profile, what: str, make: Callable[[Profile], object]) -> None:
        make(profile)
        self.app.call_from_thread(self._are_made, profile, what)

    def _are_made(self, profile: Profile, what: str) -> None:
        if self.is_attached and profile is self.profile:
            self._made = (profile, what)
            self.populate()
            self.show_crumbs()
