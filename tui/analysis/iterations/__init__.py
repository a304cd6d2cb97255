"""Iterations of a loop: recorded, found by repetition, or by a key; the profile of a range of them."""
