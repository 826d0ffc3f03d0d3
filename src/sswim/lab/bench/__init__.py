"""Accuracy on named data sets, beside other methods and published numbers."""
