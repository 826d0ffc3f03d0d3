"""Members conditioned on rows: their predictions, densities and mixtures."""
