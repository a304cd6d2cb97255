"""The filter language, and what it does to a table."""
