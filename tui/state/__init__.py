"""State that is stored between runs, in the user's state directory; never next to the profiles."""
