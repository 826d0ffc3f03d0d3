"""The command line, ``sswim``."""
