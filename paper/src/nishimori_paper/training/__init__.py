"""Training of the paper's networks, from images to logits."""
