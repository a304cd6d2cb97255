"""Tables that people can read and extend: op types, GPUs, compute capabilities, the numbers of CUDA calls."""
