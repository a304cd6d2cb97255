"""The Expert System: rules that look for what costs time or spoils figures, each with what to do about it."""
