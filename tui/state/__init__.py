"""What is remembered between runs, in the user's state directory; never beside the files that are looked at."""
