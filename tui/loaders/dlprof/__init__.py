"""NVIDIA DLProf: its database and the CSV reports of its command line."""
