"""Charts in characters: bars, sparklines, iterations."""
