"""Version number of sswim."""

__version__ = "0.2.0"
