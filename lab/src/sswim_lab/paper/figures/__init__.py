"""The paper's figures, one module each, with a function ``run``."""
