"""The command line of proftui: its arguments, its commands, and what they say."""
