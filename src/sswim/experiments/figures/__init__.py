"""The figures of the paper, made again: a module each, whose ``run`` does what is missing."""
