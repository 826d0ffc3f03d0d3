"""The scikit-learn estimator, its model file and its evaluation."""
