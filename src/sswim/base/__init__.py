"""Records, files, factorisations and checks that every room uses."""
