"""``python -m sswim``, which is the command ``sswim``."""

from sswim.cli.entry import main

if __name__ == "__main__":
    main()
