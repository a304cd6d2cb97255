"""The filter language: text to Polars expressions, and its completion."""
