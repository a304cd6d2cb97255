"""What a profile is: frames, columns, errors. Imports nothing of proftui but itself."""
