"""Small rows, models, tables and peers that more than one test needs."""
