"""Accuracy on named data sets, compared with peers and with published scores."""
