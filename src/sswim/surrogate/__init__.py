"""A smooth model of tens to hundreds of rows, for the optimisation of costly functions."""
