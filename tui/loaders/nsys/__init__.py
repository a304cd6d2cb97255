"""NVIDIA Nsight Systems: SQLite exports, Parquet exports, and reports."""
