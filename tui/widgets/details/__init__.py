"""The details of a row as text, and the pane that shows them."""
