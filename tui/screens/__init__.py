"""One screen a file, named as the view it shows."""
