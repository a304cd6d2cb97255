"""Busy and idle time of GPUs, overlap, and the concurrent CPU activity."""
