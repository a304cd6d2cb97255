from __future__ import annotations

import pytest

from tui.terminal import color_tier, is_utf8, multiplexer, obstacle, terminal, textual_environment


@pytest.mark.parametrize(
    ("env", "tty", "reason"),
    [
        ({"TERM": "xterm-256color"}, True, ""),
        ({"TERM": "linux"}, True, ""),
        ({"TERM": "xterm-256color"}, False, "standard output is not a terminal"),
        ({"TERM": "dumb"}, True, "TERM=dumb"),
        ({"TERM": "unknown"}, True, "TERM=unknown"),
        ({"TERM": ""}, True, "TERM is not set"),
        ({}, True, "TERM is not set"),
    ],
)
def test_obstacles_to_drawing_a_screen(env: dict[str, str], tty: bool, reason: str) -> None:
    assert obstacle(env, stdout_is_tty=tty) == reason


@pytest.mark.parametrize(
    ("env", "choice", "tier"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "auto", "truecolor"),
        ({"TERM": "tmux-256color", "COLORTERM": "24bit"}, "auto", "truecolor"),
        ({"TERM": "xterm-kitty"}, "auto", "truecolor"),
        ({"TERM": "alacritty"}, "auto", "truecolor"),
        ({"TERM": "xterm-direct"}, "auto", "truecolor"),
        ({"TERM": "xterm-256color"}, "auto", "256"),
        ({"TERM": "screen-256color"}, "auto", "256"),
        ({"TERM": "xterm"}, "auto", "16"),
        ({"TERM": "linux"}, "auto", "16"),
        ({"TERM": "vt100"}, "auto", "none"),
        ({"TERM": "dumb"}, "auto", "none"),
        ({}, "auto", "none"),
        ({"TERM": "vt220"}, "always", "16"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "auto", "none"),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, "auto", "256"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "always", "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "16", "16"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "16", "16"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "never", "none"),
    ],
)
def test_color_tiers(env: dict[str, str], choice: str, tier: str) -> None:
    assert color_tier(env, choice) == tier


@pytest.mark.parametrize(
    ("env", "utf8"),
    [
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "en_US.utf8@euro"}, True),
        ({"LC_CTYPE": "C.UTF-8", "LANG": "C"}, True),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, False),
        ({"LC_ALL": "", "LANG": "en_US.UTF-8"}, True),
        ({"LANG": "en_US.ISO-8859-1"}, False),
        ({}, False),
    ],
)
def test_utf8_locales(env: dict[str, str], utf8: bool) -> None:
    assert is_utf8(env) is utf8


@pytest.mark.parametrize(
    ("env", "program"),
    [
        ({"TMUX": "/tmp/tmux-1000/default,1,0", "TERM": "screen"}, "tmux"),
        ({"TERM": "tmux-256color"}, "tmux"),
        ({"STY": "1234.pts-0.host", "TERM": "screen.xterm"}, "screen"),
        ({"TERM": "screen"}, "screen"),
        ({"TERM": "xterm"}, ""),
    ],
)
def test_multiplexers(env: dict[str, str], program: str) -> None:
    assert multiplexer(env) == program


def test_less_is_drawn_over_ssh() -> None:
    env = {"TERM": "xterm-256color", "SSH_CONNECTION": "10.0.0.1 50000 10.0.0.2 22", "LANG": "C.UTF-8"}
    ssh_terminal = terminal(env, stdout_is_tty=True)
    assert ssh_terminal.ssh
    assert textual_environment(ssh_terminal, env) == {
        "NO_COLOR": None,
        "TEXTUAL_COLOR_SYSTEM": "256",
        "TEXTUAL_ANIMATIONS": "none",
        "TEXTUAL_SMOOTH_SCROLL": "0",
        "TEXTUAL_FPS": "30",
    }


def test_textual_settings_of_the_user_are_kept() -> None:
    env = {"TERM": "xterm", "SSH_TTY": "/dev/pts/1", "TEXTUAL_FPS": "10", "TEXTUAL_COLOR_SYSTEM": "truecolor"}
    changes = textual_environment(terminal(env, stdout_is_tty=True), env)
    assert changes == {"NO_COLOR": None, "TEXTUAL_ANIMATIONS": "none", "TEXTUAL_SMOOTH_SCROLL": "0"}


@pytest.mark.parametrize(
    ("choice", "changes"),
    [
        ("never", {"NO_COLOR": "1"}),
        ("16", {"NO_COLOR": None, "TEXTUAL_COLOR_SYSTEM": "standard"}),
        ("always", {"NO_COLOR": None, "TEXTUAL_COLOR_SYSTEM": "truecolor"}),
    ],
)
def test_the_color_option_sets_the_environment_of_textual(choice: str, changes: dict[str, str | None]) -> None:
    env = {"TERM": "xterm", "COLORTERM": "truecolor", "NO_COLOR": "1"}
    assert textual_environment(terminal(env, stdout_is_tty=True, color=choice), env) == changes
