"""Compute parameters from sums: temperatures by a search, several parameters by Newton's method, and standard errors."""
