"""Methods to compare with, each a small class behind one protocol."""
