"""What an input holds and what it does not, which tool recorded it, and what is known of its GPUs."""
