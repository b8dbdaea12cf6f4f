"""What other packages need to know of calibrators: one module for each, to be imported for its effect."""
