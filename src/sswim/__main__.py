"""``python -m sswim``, which is the command ``sswim``."""

from sswim.cli.app import app

if __name__ == "__main__":
    app(prog_name="sswim")
