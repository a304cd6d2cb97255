"""SQL over the frames of a profile and the tables computed from them: read-only, run by Polars."""
