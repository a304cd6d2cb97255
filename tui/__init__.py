"""proftui: the terminal explorer for GPU profiles."""

__version__ = "0.1.0"
