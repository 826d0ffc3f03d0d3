"""Search for nearest points."""
