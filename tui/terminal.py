"""What a terminal can show, detected from its environment.

Pure functions: the environment and what is a terminal are given, nothing is read or written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

COLORS: Final = ("auto", "always", "16", "never")
"""The choices of ``--color``."""

TRUECOLOR: Final = "truecolor"
TIER_256: Final = "256"
TIER_16: Final = "16"
NO_COLOR: Final = "none"

_TRUECOLOR_TERMS: Final = ("alacritty", "contour", "foot", "ghostty", "kitty", "wezterm")
"""Terminals that show all colors, and name themselves in TERM instead of setting COLORTERM everywhere."""

_COLORLESS_TERMS: Final = ("dumb", "unknown", "vt5", "vt10", "vt22")
"""How the TERM of terminals begins that have no colors."""

SSH_FRAMES_PER_SECOND: Final = "30"
"""Half of Textual's own rate: what a screen sends over a network is then bounded, and no eye sees the difference."""


class Terminal(NamedTuple):
    """What is known of the terminal."""

    obstacle: str
    """Why a full-screen program cannot run in it, or empty."""
    color: str
    """truecolor, 256, 16 or none."""
    ssh: bool
    """At the other end of a network connection."""
    multiplexer: str
    """tmux, screen, or empty."""
    utf8: bool
    """Its locale writes UTF-8, so that box drawing and bars can be used."""


def terminal(env: Mapping[str, str], *, stdout_is_tty: bool, color: str = "auto") -> Terminal:
    """Detect what the terminal can do.

    Args:
        env: The environment.
        stdout_is_tty: Whether standard output is a terminal.
        color: One of `COLORS`, as the user chose.

    >>> terminal({"TERM": "xterm-256color", "LANG": "en_US.UTF-8"}, stdout_is_tty=True)
    Terminal(obstacle='', color='256', ssh=False, multiplexer='', utf8=True)
    """
    return Terminal(
        obstacle=obstacle(env, stdout_is_tty=stdout_is_tty),
        color=color_tier(env, color),
        ssh=bool(env.get("SSH_CONNECTION") or env.get("SSH_TTY")),
        multiplexer=multiplexer(env),
        utf8=is_utf8(env),
    )


def obstacle(env: Mapping[str, str], *, stdout_is_tty: bool) -> str:
    """Why a full-screen program cannot run, in words; empty where it can.

    >>> obstacle({"TERM": "dumb"}, stdout_is_tty=True)
    'TERM is dumb'
    """
    if not stdout_is_tty:
        return "standard output is not a terminal"
    term = env.get("TERM", "")
    if not term:
        return "TERM is not set"
    return "TERM is dumb" if term in ("dumb", "unknown") else ""


def color_tier(env: Mapping[str, str], color: str = "auto") -> str:
    """How many colors to send: truecolor, 256, 16 or none.

    ``NO_COLOR`` counts where it is not empty (https://no-color.org); ``always`` overrides it.

    >>> color_tier({"TERM": "xterm", "COLORTERM": "truecolor"}), color_tier({"TERM": "linux"})
    ('truecolor', '16')
    >>> color_tier({"TERM": "xterm-256color", "NO_COLOR": "1"}), color_tier({"NO_COLOR": "1"}, "always")
    ('none', '16')
    """
    if color == "never" or (color == "auto" and env.get("NO_COLOR")):
        return NO_COLOR
    if color == "16":
        return TIER_16
    term = env.get("TERM", "")
    if env.get("COLORTERM") in ("truecolor", "24bit") or "WT_SESSION" in env:
        return TRUECOLOR
    if term.endswith("-direct") or any(name in term for name in _TRUECOLOR_TERMS):
        return TRUECOLOR
    if "256color" in term:
        return TIER_256
    colorless = not term or term.startswith(_COLORLESS_TERMS)
    return NO_COLOR if color == "auto" and colorless else TIER_16


def multiplexer(env: Mapping[str, str]) -> str:
    """The program between us and the terminal: tmux, screen, or empty; of one in the other, the inner one.

    >>> multiplexer({"TMUX": "/tmp/tmux-0/default,1,0", "TERM": "screen-256color"}), multiplexer({"STY": "7.pts"})
    ('tmux', 'screen')
    >>> multiplexer({"TMUX": "/tmp/tmux-0/default,1,0", "STY": "7.pts", "TERM": "screen.xterm-256color"})
    'screen'
    """
    term = env.get("TERM", "")
    if term.startswith("screen."):
        # GNU screen names the terminal that it is in; tmux does not.
        return "screen"
    if env.get("TMUX") or term.startswith("tmux"):
        return "tmux"
    return "screen" if env.get("STY") or term.startswith("screen") else ""


def keeps_escape(env: Mapping[str, str]) -> bool:
    """Whether something on the way keeps a lone escape back where the mouse is taken, until another key follows.

    GNU screen does: an escape could begin a mouse report; the key is more important.

    >>> keeps_escape({"STY": "7.pts", "TERM": "screen"}), keeps_escape({"TMUX": "/tmp/tmux-0", "TERM": "screen"})
    (True, False)
    """
    return bool(env.get("STY")) or multiplexer(env) == "screen"


def is_utf8(env: Mapping[str, str]) -> bool:
    """Whether the locale's characters are UTF-8; the first of LC_ALL, LC_CTYPE and LANG that is set decides.

    >>> is_utf8({"LC_ALL": "C", "LANG": "en_US.UTF-8"}), is_utf8({"LC_CTYPE": "C.utf8"}), is_utf8({})
    (False, True, False)
    """
    locale = next((env[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if env.get(name)), "")
    return locale.lower().replace("-", "").partition("@")[0].endswith("utf8")


def environment_changes(known: Terminal, env: Mapping[str, str]) -> dict[str, str | None]:
    """What must change in the environment before Textual is imported, which reads it then.

    Variables that the user has set for Textual stay as they are.

    Returns:
        New values by name; None where a variable is to be removed.
    """
    wanted: dict[str, str | None] = {}
    if known.color == NO_COLOR:
        wanted["NO_COLOR"] = "1"
    else:
        wanted["NO_COLOR"] = None
        wanted["TEXTUAL_COLOR_SYSTEM"] = {TIER_16: "standard"}.get(known.color, known.color)
    if known.ssh:
        wanted["TEXTUAL_ANIMATIONS"] = "none"
        wanted["TEXTUAL_SMOOTH_SCROLL"] = "0"
        wanted["TEXTUAL_FPS"] = SSH_FRAMES_PER_SECOND
    return {name: value for name, value in wanted.items() if not (name.startswith("TEXTUAL_") and name in env)}
