"""The command line of proftui: its arguments, its commands, and their output."""
