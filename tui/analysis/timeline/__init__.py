"""Streams and threads over time: the lanes, what a slice of time holds, what lies under a cursor."""
