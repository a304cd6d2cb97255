"""Detects the capabilities of a terminal from its environment.

Pure functions of the environment; nothing is read or written here.
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
"""Values of TERM of terminals with truecolor that do not always set COLORTERM."""

_COLORLESS_TERMS: Final = ("dumb", "unknown", "vt5", "vt10", "vt22")
"""Prefixes of TERM of terminals without colors."""

SSH_FRAMES_PER_SECOND: Final = "30"
"""Half of Textual's default: bounds the traffic, without a visible difference."""


class Terminal(NamedTuple):
    """The capabilities of a terminal."""

    obstacle: str
    """Why a full-screen program cannot run, or empty."""
    color: str
    """truecolor, 256, 16 or none."""
    ssh: bool
    """Whether it is connected by SSH."""
    multiplexer: str
    """tmux, screen, or empty."""
    utf8: bool
    """Whether its locale uses UTF-8, so that box drawing and bars can be used."""


def terminal(env: Mapping[str, str], *, stdout_is_tty: bool, color: str = "auto") -> Terminal:
    """Detect the capabilities of the terminal.

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
    """Return why a full-screen program cannot run; empty if it can.

    >>> obstacle({"TERM": "dumb"}, stdout_is_tty=True)
    'TERM=dumb'
    """
    if not stdout_is_tty:
        return "standard output is not a terminal"
    term = env.get("TERM", "")
    if not term:
        return "TERM is not set"
    return f"TERM={term}" if term in ("dumb", "unknown") else ""


def color_tier(env: Mapping[str, str], color: str = "auto") -> str:
    """Return the colors to send: truecolor, 256, 16 or none.

    ``NO_COLOR`` counts if it is not empty (https://no-color.org); ``always`` overrides it.

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
    """Return the terminal multiplexer: tmux, screen, or empty; the inner one if nested.

    >>> multiplexer({"TMUX": "/tmp/tmux-0/default,1,0", "TERM": "screen-256color"}), multiplexer({"STY": "7.pts"})
    ('tmux', 'screen')
    >>> multiplexer({"TMUX": "/tmp/tmux-0/default,1,0", "STY": "7.pts", "TERM": "screen.xterm-256color"})
    'screen'
    """
    term = env.get("TERM", "")
    if term.startswith("screen."):
        # GNU screen appends the outer terminal to TERM; tmux does not.
        return "screen"
    if env.get("TMUX") or term.startswith("tmux"):
        return "tmux"
    return "screen" if env.get("STY") or term.startswith("screen") else ""


def delays_escape(env: Mapping[str, str]) -> bool:
    """Return whether a lone escape key is delayed until the next key if the mouse is captured.

    GNU screen does so, because an escape could begin a mouse report. The escape key is more important than the mouse.

    >>> delays_escape({"STY": "7.pts", "TERM": "screen"}), delays_escape({"TMUX": "/tmp/tmux-0", "TERM": "screen"})
    (True, False)
    """
    return bool(env.get("STY")) or multiplexer(env) == "screen"


def is_utf8(env: Mapping[str, str]) -> bool:
    """Return whether the locale's characters are UTF-8; the first of LC_ALL, LC_CTYPE and LANG that is set decides.

    >>> is_utf8({"LC_ALL": "C", "LANG": "en_US.UTF-8"}), is_utf8({"LC_CTYPE": "C.utf8"}), is_utf8({})
    (False, True, False)
    """
    locale = next((env[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if env.get(name)), "")
    return locale.lower().replace("-", "").partition("@")[0].endswith("utf8")


def textual_environment(capabilities: Terminal, env: Mapping[str, str]) -> dict[str, str | None]:
    """Return the changes of the environment for Textual, which reads it when it is imported.

    Variables that the user has set for Textual stay as they are.

    Returns:
        New values by name; None to remove a variable.
    """
    changes: dict[str, str | None] = {}
    if capabilities.color == NO_COLOR:
        changes["NO_COLOR"] = "1"
    else:
        changes["NO_COLOR"] = None
        changes["TEXTUAL_COLOR_SYSTEM"] = {TIER_16: "standard"}.get(capabilities.color, capabilities.color)
    if capabilities.ssh:
        changes["TEXTUAL_ANIMATIONS"] = "none"
        changes["TEXTUAL_SMOOTH_SCROLL"] = "0"
        changes["TEXTUAL_FPS"] = SSH_FRAMES_PER_SECOND
    return {name: value for name, value in changes.items() if not (name.startswith("TEXTUAL_") and name in env)}
