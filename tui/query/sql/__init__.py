"""SQL over the frames of a profile and what is computed from them: read only, by Polars."""
