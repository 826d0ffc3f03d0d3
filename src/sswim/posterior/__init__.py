"""A member conditioned on rows, its predictions, and mixtures of members."""
