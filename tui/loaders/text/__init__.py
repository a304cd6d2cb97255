"""Text logs: their lines, encodings, sections and separated values, whatever format stands in them."""
