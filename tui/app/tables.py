"""What the tables of all views share: how they are arranged, and the filter that goes along from view to view."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tui.app.choice import ChoosingApp

if TYPE_CHECKING:
    from tui.options import OpenOptions
    from tui.state.arrangements import Arrangements


class TablesApp(ChoosingApp):
    """Holds what tables share."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self.carried = ""
        """The filter that the user carries from view to view."""

    @cached_property
    def arrangements(self) -> Arrangements:
        """How tables were arranged, in this run and before."""
        from tui.state.arrangements import Arrangements

        return Arrangements()

    @property
    def profile_name(self) -> str:
        """What is open, in a word, for headings."""
        sources = self.whole_profile.sources if self.whole_profile is not None else ()
        name = sources[0].rsplit("/", 1)[-1] if len(sources) == 1 else f"{len(sources)} files"
        return "standard input" if name == "-" else name

    @property
    def opened_name(self) -> str:
        """What is open as the user named it, for exports."""
        from tui.output.about import profile_name

        sources = self.whole_profile.sources if self.whole_profile is not None else ()
        return profile_name(self.options.paths, len(sources))

    def carry_filter(self, text: str) -> None:
        """Filter every view that can understand it; empty: no longer."""
        if text != self.carried:
            self.carried = text
            for screen in self._screens.values():
                screen.carried_changed()
