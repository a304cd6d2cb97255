"""Streams and threads over time: the lanes, the contents of a time slice, the item under a cursor."""
