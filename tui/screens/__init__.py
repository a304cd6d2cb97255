"""The screens: one file for each view, with its name."""
