"""Two profiles, or two parts of one, side by side: what changed, what is new, what was removed."""
