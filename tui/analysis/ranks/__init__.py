"""Sessions that worked together, as the ranks of one training run: side by side, and who keeps the others waiting."""
