"""Finding the rows nearest to a point."""
