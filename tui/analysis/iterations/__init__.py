"""Iterations of a loop, recorded, found or by a key; a profile of some of them."""
