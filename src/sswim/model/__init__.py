"""The model of one member: warps of the inputs, Fourier features, noise and output warp."""
