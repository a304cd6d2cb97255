"""Tables that people can read and extend: op types, GPUs, compute capabilities."""
