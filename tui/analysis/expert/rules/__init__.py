"""The rules, one file a subject; each declares its own when it is imported."""
