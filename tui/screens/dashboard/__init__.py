"""The dashboard: the main findings and the use of time, at a glance; every line is a link to the rows behind it."""

from tui.screens.dashboard.screen import DashboardScreen

__all__ = ["DashboardScreen"]
