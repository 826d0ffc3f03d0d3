"""Training: objectives, their gradients, optimisers and checkpoints."""
