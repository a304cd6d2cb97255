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

    from tui.keys import Action
    from tui.screens.base import ViewScreen
    from tui.screens.explorer import Explorer


def _view_screen(explorer: Explorer) -> ViewScreen:
    screen = explorer.view_screen
    if screen is None:
        raise CommandError("No table in this view.")
    return screen


def _filter(explorer: Explorer, argument: str) -> None:
    _view_screen(explorer).filter_table(argument)


def _find(explorer: Explorer, argument: str) -> None:
    _view_screen(explorer).find_in_table(argument)


def _sort(explorer: Explorer, argument: str) -> None:
    if not argument:
        raise CommandError("Enter a column, for example :sort -total (largest first).")
    _view_screen(explorer).main_table().arrangement.sort_by_names(argument)


def _top(explorer: Explorer, argument: str) -> None:
    number = whole_number(argument)
    if argument != "all" and not number:
        raise CommandError("Enter a number of rows, or all.")
    _view_screen(explorer).main_table().change(max_rows=number)


def _group(explorer: Explorer, argument: str) -> None:
    screen = explorer.view_screen
    if screen is not None:
        screen.choose_grouping(argument)


def _session(explorer: Explorer, argument: str) -> None:
    number = whole_number(argument)
    if argument in ("", "all") or number is not None:
        explorer.profile_session.choose_session(number)
    else:
        are_two_numbers = len(argument.split()) == 2 and all(
            whole_number(word) is not None for word in argument.split()
        )
        hint = f" To compare two, use :compare sessions {' '.join(argument.split())}." if are_two_numbers else ""
        raise CommandError(f"Not a session: {argument}. Enter a number, or all.{hint}")


def _aggregate(explorer: Explorer, argument: str) -> None:
    key = explorer.profile_session.aggregation.key
    _choose_iterations(explorer, None if argument in ("", "all") else argument, key)


def _key(explorer: Explorer, argument: str) -> None:
    # Other iterations have other numbers: a range of the old ones is meaningless.
    _choose_iterations(explorer, None, argument or None)


def _choose_iterations(explorer: Explorer, iterations: str | None, key: str | None) -> None:
    try:
        explorer.profile_session.choose_iterations(aggregation(iterations, key))
    except ProftuiError as error:
        raise CommandError(str(error)) from error


def _theme(explorer: Explorer, argument: str) -> None:
    if argument not in ("dark", "light"):
        raise CommandError("Themes: dark, light.")
    explorer.theme = theme_name(argument, explorer.options.color)


def _sql(explorer: Explorer, argument: str) -> None:
    def run(screen: ViewScreen) -> None:
        from tui.screens.sql import SqlScreen

        assert isinstance(screen, SqlScreen)
        if argument:
            screen.run(argument)
        else:
            screen.focus_query()

    explorer.go("sql", run)


def _compare(explorer: Explorer, argument: str) -> None:
    explorer.comparison.compare(argument)


def _open(explorer: Explorer, argument: str) -> None:
    if not argument:
        raise CommandError("Enter a file, for example :open run.nsys-rep.")
    explorer.open_file(argument)


def _line(explorer: Explorer, argument: str) -> None:
    number = whole_number(argument)
    if number is None:
        raise CommandError(f"Not a line number: {argument}.")
    explorer.navigator.go_to_line(number)


def _forget(explorer: Explorer, _argument: str) -> None:
    explorer.forget()


def _quit(explorer: Explorer, _argument: str) -> None:
    explorer.exit()


VIEW_OF_SCOPE: Final = {Scope.TIMELINE: "timeline"}
"""The view that opens for an action of a scope, if the shown view has no such action."""

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


def command_names() -> list[str]:
    """Return the first words of the command line, for completion."""
    views = [view.name for view in VIEWS]
    actions = [action.id.partition(".")[2] for action in ACTIONS if action.group not in ("Movement",)]
    return sorted({*COMMANDS, *views, *actions})


def run_command(explorer: Explorer, line: str) -> None:
    """Run a line of the command line.

    ``:kernels gemm total>1ms`` goes to a view and filters it; ``:iterations 3:7`` goes to the iterations and shows
    these in every view, as ``--iterations`` does; ``:120`` goes to line 120 of the log; ``:reload`` runs the
    action of that name.

    Raises:
        CommandError: The command is unknown, takes no argument, or does not apply to the current view.
    """
    name, _, argument = line.strip().removeprefix(":").partition(" ")
    argument = argument.strip()
    if not name:
        return
    if name.isdecimal():
        _line(explorer, name)
        return
    if name in COMMANDS:
        COMMANDS[name][0](explorer, argument)
        return
    target = find_view(name)
    if target is not None:
        if target.name == "iterations" and (argument == "all" or is_range(argument)):
            _aggregate(explorer, argument)
            argument = ""
        explorer.go(target.name, (lambda screen: screen.show_only(argument)) if argument else None)
        return
    actions = [action for action in ACTIONS if action.id.partition(".")[2] == name]
    if actions:
        if argument:
            raise CommandError(f":{name} takes no argument.")
        view_screen = explorer.view_screen
        # Several scopes may have an action of this name.
        action = next((action for action in actions if _is_available(action, view_screen)), actions[0])
        _run_action(explorer, action.scope, action.method)
        return
    from tui.model.errors import did_you_mean

    hint = did_you_mean(name, command_names()) or "? lists the keys, m the views."
    raise CommandError(f"Unknown command: {name}. {hint[:1].upper()}{hint[1:]}")


def _is_available(action: Action, screen: ViewScreen | None) -> bool:
    """Return whether an action can run in a view."""
    return action.scope is Scope.APP or (screen is not None and screen.action_target(action.method) is not None)


def _run_action(explorer: Explorer, scope: Scope, method: str) -> None:
    if scope is Scope.APP:
        explorer.call_later(explorer.run_action, method, explorer)
        return
    screen = explorer.view_screen
    target = screen.action_target(method) if screen is not None else None
    if target is not None:
        explorer.call_later(explorer.run_action, method, target)
    elif scope in VIEW_OF_SCOPE:

        def run(target_view: ViewScreen) -> None:
            explorer.call_later(explorer.run_action, method, target_view.action_target(method))

        explorer.go(VIEW_OF_SCOPE[scope], run)
    else:
        raise CommandError(f"Not in this view; only {scope.value}.")


class CommandPaletteProvider(Provider):
    """The entries of the command palette: every view, and every key of the current screen."""

    def _entries(self, *, with_other_views: bool = False) -> list[tuple[str, Callable[[], None], str]]:
        """Return titles, actions and descriptions.

        Args:
            with_other_views: Whether to include keys of other views, which are then opened.
        """
        explorer = cast("Explorer", self.app)
        entries: list[tuple[str, Callable[[], None], str]] = [
            (
                f"Go to {view.title}" + f"  ({view.key})" * bool(view.key),
                partial(explorer.go, view.name),
                view.description,
            )
            for view in VIEWS
        ]
        screen = explorer.view_screen
        available_actions = [action for action in ACTIONS if _is_available(action, screen)]
        reachable_actions = screen.reachable_actions(available_actions) if screen is not None else available_actions
        for action in ACTIONS:
            is_available = action in available_actions
            is_listed = (
                (action in reachable_actions or not action.keys)
                if is_available
                else with_other_views and action.scope in VIEW_OF_SCOPE
            )
            if is_listed and action.group != "Movement":
                prefix = "" if is_available else f"{view(VIEW_OF_SCOPE[action.scope]).title}: "
                entries.append(
                    (
                        f"{prefix}{action.label.capitalize()}  ({action.shown_keys or action.keys.split(',')[0]})",
                        partial(_run_action, explorer, action.scope, action.method),
                        action.help,
                    )
                )
        entries += [(f"Theme: {name}", partial(_theme, explorer, name), "") for name in ("dark", "light")]
        return entries

    async def discover(self) -> Hits:
        """Yield all entries, shown before anything is typed."""
        for title, callback, description in self._entries():
            yield DiscoveryHit(title, callback, help=description)

    async def search(self, query: str) -> Hits:
        """Yield entries that match the typed words, including actions of other views."""
        matcher = self.matcher(query)
        for title, callback, description in self._entries(with_other_views=True):
            score = max(matcher.match(title), matcher.match(description) * 0.6 if description else 0)
            if score > 0:
                yield Hit(score, matcher.highlight(title), callback, help=description)
