"""Version number of sswim."""

__version__ = "0.3.0"
