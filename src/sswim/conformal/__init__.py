"""Guarantees from rows that a model has not seen: conformal intervals, and signs of drift."""
