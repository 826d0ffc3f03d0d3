"""Tools that every other package of sswim uses: records, files, factorisations, checks."""
