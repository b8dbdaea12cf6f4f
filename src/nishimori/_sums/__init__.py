"""Sums over rows, which add: what a pass over a batch returns."""
