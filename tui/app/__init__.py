"""The application: what was read, what of it is shown, and how the user moves through it."""

from tui.app.app import ProftuiApp, run_app

__all__ = ["ProftuiApp", "run_app"]
