"""The reports of ``nsys stats``."""
