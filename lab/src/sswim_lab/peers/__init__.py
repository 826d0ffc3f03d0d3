"""Peers: other methods of regression, and SSWIM itself, behind one protocol."""
