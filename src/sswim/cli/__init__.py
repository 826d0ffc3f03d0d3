"""The command ``sswim``."""
