"""Text logs: lines, encodings, sections and separated values, shared by all text formats."""
