"""How full a launch makes an SM, what limits it, and what would help."""
