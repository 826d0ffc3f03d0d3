"""Several processes that train one model, each with a share of the rows."""
