"""Commands that the lab adds to ``sswim``."""
