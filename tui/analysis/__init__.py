"""Pure functions from the frames of a profile to the frames that views show; one topic a module."""
