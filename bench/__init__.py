"""How fast and how lean proftui reads, against floors measured in the same run: ``python -m bench``."""
