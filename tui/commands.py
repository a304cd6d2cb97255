"""The ``:`` command line and the command palette: the same actions as the keys, by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from tui.keys import ACTIONS, Scope
from tui.model.aggregation import aggregation, is_range
from tui.model.errors import CommandError, ProftuiError
from tui.text import whole_number
from tui.theme import theme_name
from tui.views import VIEWS, find_view, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from tui.screens.base import ViewScreen
    from tui.screens.explorer import Explorer


def _with_table(explorer: Explorer, do: Callable[[ViewScreen], None]) -> None:
    screen = explorer.view_screen
    if screen is None or screen.table is None:
        raise CommandError("No table in this view.")
    do(screen)


def _filter(explorer: Explorer, rest: str) -> None:
    _with_table(explorer, lambda screen: screen.filter_table(rest))


def _find(explorer: Explorer, rest: str) -> None:
    _with_table(explorer, lambda screen: screen.find_in_table(rest))


def _sort(explorer: Explorer, rest: str) -> None:
    if not rest:
        raise CommandError("Enter a column, for example :sort -total (largest first).")
    _with_table(explorer, lambda screen: screen.sort_table(rest))


def _top(explorer: Explorer, rest: str) -> None:
    number = whole_number(rest)
    if rest != "all" and not number:
        raise CommandError("Enter a number of rows, or all.")

    def show(screen: ViewScreen) -> None:
        if screen.table is not None:
            screen.table.change(most_rows=number)

    _with_table(explorer, show)


def _group(explorer: Explorer, rest: str) -> None:
    screen = explorer.view_screen
    if screen is not None:
        screen.choose_grouping(rest)


def _session(explorer: Explorer, rest: str) -> None:
    number = whole_number(rest)
    if rest in ("", "all") or number is not None:
        explorer.profile_session.choose_session(number)
    else:
        two = len(rest.split()) == 2 and all(whole_number(word) is not None for word in rest.split())
        form = f" To compare two, use :compare sessions {' '.join(rest.split())}." if two else ""
        raise CommandError(f"Not a session: {rest}. Enter a number, or all.{form}")


def _aggregate(explorer: Explorer, rest: str) -> None:
    key = explorer.profile_session.aggregation.key
    _choose_iterations(explorer, None if rest in ("", "all") else rest, key)


def _key(explorer: Explorer, rest: str) -> None:
    # Other iterations have other numbers: a range of the old ones is meaningless.
    _choose_iterations(explorer, None, rest or None)


def _choose_iterations(explorer: Explorer, iterations: str | None, key: str | None) -> None:
    try:
        explorer.profile_session.choose_iterations(aggregation(iterations, key))
    except ProftuiError as error:
        raise CommandError(str(error)) from error


def _theme(explorer: Explorer, rest: str) -> None:
    if rest not in ("dark", "light"):
        raise CommandError("Themes: dark, light.")
    explorer.theme = theme_name(rest, explorer.options.color)


def _sql(explorer: Explorer, rest: str) -> None:
    def run(screen: ViewScreen) -> None:
        from tui.screens.sql import SqlScreen

        assert isinstance(screen, SqlScreen)
        if rest:
            screen.run(rest)
        else:
            screen.focus_query()

    explorer.go("sql", run)


def _compare(explorer: Explorer, rest: str) -> None:
    explorer.comparison.compare(rest)


def _open(explorer: Explorer, rest: str) -> None:
    if not rest:
        raise CommandError("Enter a file, for example :open run.nsys-rep.")
    explorer.open_file(rest)


def _line(explorer: Explorer, rest: str) -> None:
    number = whole_number(rest)
    if number is None:
        raise CommandError(f"Not a line number: {rest}.")
    explorer.navigator.go_to_line(number)


def _forget(explorer: Explorer, _rest: str) -> None:
    explorer.forget()


def _quit(explorer: Explorer, _rest: str) -> None:
    explorer.exit()


VIEW_OF_SCOPE: Final = {Scope.TIMELINE: "timeline"}
"""Views with a key of their own: their name alone is a command."""

COMMANDS: Final[dict[str, tuple[Callable[[Explorer, str], None], str]]] = {
    "filter": (_filter, "keep matching rows"),
    "find": (_find, "find and highlight text"),
    "sort": (_sort, "sort by a column; -column: largest first; several with commas"),
    "top": (_top, "show the first N rows; all"),
    "group": (_group, "group ops by name, shapes, config, class or instance; the tree by module, caller, ..."),
    "session": (_session, "show one session by its number, or all"),
    "aggregate": (
        _aggregate,
        "show some iterations in every view: 3:7, 3:, :7, 5 or phase=decode; all; also :iterations 3:7",
    ),
    "key": (_key, "iterations end with this kernel, op, range or API call; without a name: reset"),
    "compare": (_compare, "compare with a file, session 1, sessions 0 1, iterations 3:5, or iterations 3 5"),
    "open": (_open, "open another file instead of this file"),
    "sql": (_sql, "run SQL, as SELECT name, total_ns FROM kernels; without a query: list the tables"),
    "theme": (_theme, "theme: dark or light"),
    "line": (_line, "go to a line of the log"),
    "forget": (_forget, "delete the notes, queries and last position saved for this file"),
    "q": (_quit, "quit"),
    "quit": (_quit, "quit"),
}
"""Commands with arguments; every view and every key is a command as well."""


def command_words() -> list[str]:
    """Return the first words of the command line, for completion."""
    views = [view.name for view in VIEWS]
    actions = [action.id.partition(".")[2] for action in ACTIONS if action.group not in ("Movement",)]
    return sorted({*COMMANDS, *views, *actions})


def run_command(explorer: Explorer, line: str) -> None:
    """Run one line of the command line.

    ``:kernels gemm total>1ms`` goes to a view and filters it; ``:iterations 3:7`` goes to the iterations and shows
    these in every view, as ``--iterations`` does; ``:120`` goes to line 120 of the log; ``:reload`` does what the key
    of that name does.

    Raises:
        CommandError: It is not known, takes no words, or cannot be done here.
    """
    word, _, rest = line.strip().removeprefix(":").partition(" ")
    rest = rest.strip()
    if not word:
        return
    if word.isdecimal():
        _line(explorer, word)
        return
    if word in COMMANDS:
        COMMANDS[word][0](explorer, rest)
        return
    target = find_view(word)
    if target is not None:
        if target.name == "iterations" and (rest == "all" or is_range(rest)):
            _aggregate(explorer, rest)
            rest = ""
        explorer.go(target.name, (lambda screen: screen.show_only(rest)) if rest else None)
        return
    action = next((action for action in ACTIONS if action.id.partition(".")[2] == word), None)
    if action is not None:
        if rest:
            raise CommandError(f":{word} takes no argument.")
        _run_action(explorer, action.scope, action.method)
        return
    from tui.model.errors import did_you_mean

    hint = did_you_mean(word, command_words()) or "? lists the keys, m the views."
    raise CommandError(f"Unknown command: {word}. {hint[:1].upper()}{hint[1:]}")


def _run_action(explorer: Explorer, scope: Scope, method: str) -> None:
    if scope is Scope.APP:
        explorer.call_later(explorer.run_action, method, explorer)
        return
    screen = explorer.view_screen
    target = screen.action_target(method) if screen is not None else None
    if target is not None:
        explorer.call_later(explorer.run_action, method, target)
    elif scope in VIEW_OF_SCOPE:

        def run(home: ViewScreen) -> None:
            explorer.call_later(explorer.run_action, method, home.action_target(method))

        explorer.go(VIEW_OF_SCOPE[scope], run)
    else:
        raise CommandError("This view has no table.")


class CommandPaletteProvider(Provider):
    """The entries of the command palette: every view, and every key of the current screen."""

    def _entries(self, *, elsewhere: bool = False) -> list[tuple[str, Callable[[], None], str]]:
        """Return titles, actions and descriptions.

        Args:
            elsewhere: Whether to include keys of other views, which are then opened.
        """
        explorer = cast("Explorer", self.app)
        entries: list[tuple[str, Callable[[], None], str]] = [
            (f"Go to {view.title}" + f"  ({view.key})" * bool(view.key), partial(explorer.go, view.name), view.about)
            for view in VIEWS
        ]
        screen = explorer.view_screen
        for action in ACTIONS:
            here = action.scope is Scope.APP or (screen is not None and screen.action_target(action.method) is not None)
            if (here or (elsewhere and action.scope in VIEW_OF_SCOPE)) and action.group != "Movement":
                where = "" if here else f"{view(VIEW_OF_SCOPE[action.scope]).title}: "
                entries.append(
                    (
                        f"{where}{action.label.capitalize()}  ({action.shown_keys or action.keys.split(',')[0]})",
                        partial(_run_action, explorer, action.scope, action.method),
                        action.help,
                    )
                )
        entries += [(f"Theme: {name}", partial(_theme, explorer, name), "") for name in ("dark", "light")]
        return entries

    async def discover(self) -> Hits:
        """Yield all entries, shown before anything is typed."""
        for title, callback, about in self._entries():
            yield DiscoveryHit(title, callback, help=about)

    async def search(self, query: str) -> Hits:
        """Yield entries that match the typed words, including actions of other views."""
        matcher = self.matcher(query)
        for title, callback, about in self._entries(elsewhere=True):
            score = max(matcher.match(title), matcher.match(about) * 0.6 if about else 0)
            if score > 0:
                yield Hit(score, matcher.highlight(title), callback, help=about)
