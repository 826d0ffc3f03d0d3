"""Measurements of sswim: peers, named data sets, benchmarks, the paper's tables and figures."""
