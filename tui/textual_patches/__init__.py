"""Changes to Textual: one module each, with the reason, the measured gain and the version it was checked against."""
