"""What other packages need to know of calibrators: one module for each package, under its name, to be imported for its effect."""
