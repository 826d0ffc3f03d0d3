"""The ensemble: plan, folds, fit, stacking, mixtures."""
