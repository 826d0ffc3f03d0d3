"""The model: warps, features, noise and output warp of one member."""
