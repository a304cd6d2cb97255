"""Profiles of Huawei's Ascend NPUs: the CSV files and databases of torch_npu's profiler and of msprof."""
