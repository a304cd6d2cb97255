"""What belongs to what: intervals within intervals, GPU work to the op that launched it, both to iterations."""
