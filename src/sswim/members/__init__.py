"""Members of an ensemble: their parameters, training and predictions."""
