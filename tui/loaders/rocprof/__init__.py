"""AMD's rocprof: the CSV, JSON and databases (rocpd) of its first version and of rocprofv3."""
