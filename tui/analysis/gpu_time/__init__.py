"""Busy and idle time of GPUs, what overlaps, and what the CPU did meanwhile."""
