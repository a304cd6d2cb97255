"""Dashboard: what is wrong and where the time went, at a glance; every line is a link to the rows behind it."""

from tui.screens.dashboard.screen import DashboardScreen

__all__ = ["DashboardScreen"]
