"""The timeline: lanes of cells with a cursor, and the text below them."""
