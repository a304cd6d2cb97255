"""The table: a model without Textual, a view that draws lines, and controllers for search and arranging."""
