"""The paper's networks, from images to logits."""
