"""The reports of ``nsys stats``."""

from tui.loaders.nsys_stats.stats_reader import NSYS_STATS

__all__ = ["NSYS_STATS"]
