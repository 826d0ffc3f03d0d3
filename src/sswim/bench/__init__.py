"""The accuracy bench: the named data sets, this package, other methods and published numbers."""
