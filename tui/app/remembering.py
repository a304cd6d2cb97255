"""Where the user left off in a file: remembered when it is closed, offered when it is opened again."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from textual import events, work

from tui.app.other_keys import OtherKeysApp
from tui.commands import CommandError
from tui.model.aggregation import Aggregation
from tui.model.history import Place
from tui.views import VIEWS, view

if TYPE_CHECKING:
    from tui.options import OpenOptions
    from tui.screens.base import ViewScreen
    from tui.state.files import Files
    from tui.state.left_off import KeptPlace, LeftOff
    from tui.state.queries import Queries
    from tui.widgets.offer_line import OfferLine

KEPT_EVERY: Final = 20.0
"""Seconds: a line that breaks takes the program with it, and where the user was must be known all the same."""
NO_FILE: Final = "standard input cannot be opened again: nothing is remembered of it"
CHANGED: Final = "the file has changed"


class RememberingApp(OtherKeysApp):
    """Remembers where the user was in a file, and goes back there when asked to."""

    def __init__(self, options: OpenOptions) -> None:
        super().__init__(options)
        self.left: LeftOff | None = None
        """Where the user left off before."""
        self._kept: LeftOff | None = None
        """What was written last."""
        self._is_forgotten = False
        self._offer: OfferLine | None = None
        """The line that offers to go back there, as long as no key was pressed."""
        self._lost: list[str] = []
        """What was told to be gone as the user went back, until it is known which rows are."""
        self._restoring: dict[str, KeptPlace] = {}
        """Views that are to be shown as they were left, once they are gone to."""

    @cached_property
    def files(self) -> Files | None:
        """What is open, as it is known again; None where it cannot be opened again."""
        from tui.state.files import files

        return files(self.options.paths)

    def look_at_files(self) -> None:
        """The files were read: what they hold may be something else than before."""
        from tui.state.files import files

        self.files = files(self.options.paths)

    # --- offering ----------------------------------------------------------------------------------------------------

    def offer_to_resume(self) -> None:
        """The files are open for the first time: go back to where the user left off, or offer to."""
        from tui.state import left_off

        if self.files is None:
            if self.options.resume:
                self.say(NO_FILE, severity="warning")
            return
        self.left, complaint = left_off.read(self.files)
        if complaint:
            self.say(complaint, severity="warning")
        if self.options.resume:
            self.action_resume()
        elif self.left is not None and self.view_screen is not None:
            changed = f"{CHANGED} since; " if self.left.stamp != self.files.stamp else ""
            offer = f"{changed}where you left off: {self._in_words(self.left)}"
            from tui.widgets.offer_line import OfferLine

            self._offer = OfferLine(offer, "press ' or :resume")
            self.view_screen.mount(self._offer)
        self.set_interval(KEPT_EVERY, self._keep_now_and_then)

    async def on_event(self, event: events.Event) -> None:
        """The next key takes the offer away, whatever else it does."""
        if self._offer is not None and isinstance(event, (events.Key, events.MouseDown)):
            self._offer.display = False
            self._offer.remove()
            self._offer = None
        await super().on_event(event)

    @staticmethod
    def _in_words(left: LeftOff) -> str:
        place = left.place
        titles = [known.title for known in VIEWS if known.name == place.view]
        tables = place.tables
        filters = [table.filter for table in tables if table.filter]
        marks = sum(len(table.marks) for table in tables)
        parts = [
            titles[0] if titles else place.view,
            f"filter {' and '.join([*filters, *([left.carried] if left.carried else [])])}"
            if filters or left.carried
            else "",
            f"{marks} marked" if marks else "",
            left.aggregation.words,
            f"key {left.key}" if left.key else "",
            f"session {left.session}" if left.session is not None else "",
        ]
        return ", ".join(part for part in parts if part)

    # --- going back --------------------------------------------------------------------------------------------------

    def action_resume(self) -> None:
        """Go back to where the user left off."""
        if self.files is None:
            self.say(NO_FILE, severity="warning")
        elif self.whole_profile is not None and self.left is None:
            self.say("nothing is remembered of this file: it was not left anywhere yet")
        elif self.whole_profile is not None and self.left is not None:
            lost = [f"{CHANGED} since"] if self.left.stamp != self.files.stamp else []
            lost += self._choose_as_left(self.left)
            self.carry_filter(self.left.carried)
            lost += self._show_as_left(self.left)
            self._lost = lost
            if lost:
                self.say("\n".join(lost), severity="warning")

    def _choose_as_left(self, left: LeftOff) -> list[str]:
        """Show the session and the iterations; what is not there any more is told. The command line comes first."""
        assert self.whole_profile is not None
        lost: list[str] = []
        session = left.session if self.options.session is None else self.options.session
        if session is not None and session >= self.whole_profile["sessions"].height:
            lost.append(f"there is no session {session} any more: showing all")
            session = None
        wanted = left.aggregation if self.options.aggregation == Aggregation() else self.options.aggregation
        if (session, wanted) != (self.session, self.aggregation):
            try:
                self._choose(session, wanted)
            except CommandError as error:
                lost.append(f"{error}: showing all iterations")
                self._choose(session, Aggregation())
        return lost

    def _show_as_left(self, left: LeftOff) -> list[str]:
        """Show the view that was shown last; the others are restored when they are gone to."""
        lost = []
        there = {known.name for known in VIEWS if known.screen}
        for kept in left.places:
            if kept.view not in there:
                lost.append(f"there is no view {kept.view} any more")
            elif (reason := self.availability.get(kept.view, "ok")) != "ok":
                lost.append(f"{view(kept.view).title}: {reason}")
            else:
                self._restoring[kept.view] = kept
        if left.place.view in self._restoring:
            self._remember()
            screen = self._show(left.place.view)
            self.history.visit(screen.place())
        return lost

    def _show(self, name: str) -> ViewScreen:
        screen = super()._show(name)
        kept = self._restoring.pop(name, None)
        if kept is not None:
            screen.call_after_refresh(self._restore, screen, kept)
        return screen

    def _restore(self, screen: ViewScreen, kept: KeptPlace) -> None:
        # A level above decides what its tables are: they are arranged once it is chosen.
        screen.restore(Place(kept.view, kept.level, line=kept.line, text=kept.text, spot=self._spot(kept)))
        tables = {table.pane: table for table in kept.tables}
        states = tuple((pane.id, tables[pane.id].on(pane.state)) for pane in screen.panes if pane.id in tables)
        screen.restore(Place(kept.view, kept.level, states))
        self.history.keep(screen.place())
        self.once_filled(screen, partial(self._tell_of_lost_rows, screen, kept))

    def _spot(self, kept: KeptPlace) -> tuple[int, ...]:
        """A place in the timeline: that of another recording says nothing."""
        is_as_before = self.left is not None and self.files is not None and self.left.stamp == self.files.stamp
        return kept.spot if is_as_before else ()

    def _tell_of_lost_rows(self, screen: ViewScreen, kept: KeptPlace) -> None:
        tables = {table.pane: table for table in kept.tables}
        lost = []
        for pane in screen.panes:
            if pane.id in tables and pane.display and pane.frame.height:
                cursor, marks = pane.missing_of(tables[pane.id].on(pane.state))
                lost += ["the row under the cursor"] if cursor else []
                lost += [f"{marks} marked row{'' if marks == 1 else 's'}"] if marks else []
        # One message takes the place of another.
        before, self._lost = self._lost, []
        if lost:
            self.say("\n".join([*before, f"not there any more: {', '.join(lost)}"]), severity="warning")

    # --- what was asked -----------------------------------------------------------------------------------------------

    @cached_property
    def queries(self) -> Queries:
        """The SQL that was run, in this run and before."""
        from tui.state.queries import Queries

        return Queries()

    @work(thread=True, group="remember")
    def keep_query(self, text: str) -> None:
        """Remember a query; what was asked of standard input, or after ``:forget``, is recalled in this run alone."""
        if self.files is None or self._is_forgotten:
            return
        if complaint := self.queries.keep(text, self.files.name):
            self.call_from_thread(self.say, complaint, severity="warning")

    # --- remembering -------------------------------------------------------------------------------------------------

    def exit(self, *arguments: object, **named: object) -> None:
        """Remember where the user is, then leave."""
        where = self._where()
        if where is not None and self.files is not None and where != self._kept:
            from tui.state import left_off

            left_off.keep(self.files, where)
        super().exit(*arguments, **named)  # type: ignore[arg-type]

    def _keep_now_and_then(self) -> None:
        where = self._where()
        if where is not None and where != self._kept:
            self._kept = where
            self._keep(where)

    @work(thread=True, group="remember")
    def _keep(self, where: LeftOff) -> None:
        # A home directory can lie on a slow network: no key waits for it.
        if self.files is not None:
            from tui.state import left_off

            left_off.keep(self.files, where)

    def _where(self) -> LeftOff | None:
        """Where the user is; None where they have been nowhere, so that what was remembered before stays."""
        screen = self.view_screen
        if self.files is None or self.whole_profile is None or screen is None or self._is_forgotten:
            return None
        places = {name: kept_screen.place() for name, kept_screen in self._screens.items() if kept_screen.is_mounted}
        here = places.pop(screen.VIEW, None)
        chosen = (self.session, self.aggregation, self.carried)
        if here is None or (not places and chosen == (self.options.session, self.options.aggregation, "")):
            return None
        from tui.state import left_off

        where = left_off.left_off(
            self.files,
            [*places.values(), here],
            session=self.session,
            aggregation=self.aggregation,
            carried=self.carried,
        )
        # What was not gone to since it was asked for again is remembered as it was.
        waiting = tuple(kept for name, kept in self._restoring.items() if name not in places and name != screen.VIEW)
        return left_off.with_others(where, waiting)

    def forget_place(self) -> str:
        """Remember nothing of where the user is and was in these files, and what was asked; says why that cannot be."""
        from tui.state import left_off

        self._is_forgotten, self.left = True, None
        self._restoring.clear()
        return (left_off.forget(self.files) or self.queries.forget(self.files.name)) if self.files is not None else ""
