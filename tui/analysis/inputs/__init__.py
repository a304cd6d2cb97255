"""What an input holds and lacks, which tool recorded it, and what is known of its GPUs."""
