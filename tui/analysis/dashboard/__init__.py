"""The dashboard: where the time went, at a glance, and what the input cannot say. Values and frames, no drawing."""

from tui.analysis.dashboard.board import ORDERS, REST, SPLIT, TOP, Dashboard, dashboard, top
from tui.analysis.dashboard.facts import Fact

__all__ = ["ORDERS", "REST", "SPLIT", "TOP", "Dashboard", "Fact", "dashboard", "top"]
