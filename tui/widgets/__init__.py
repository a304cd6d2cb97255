"""Textual widgets that know nothing of any one screen."""
