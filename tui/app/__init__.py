"""The application: the open profile, the part of it that is shown, and navigation."""

from tui.app.app import ProftuiApp, run_app

__all__ = ["ProftuiApp", "run_app"]
