"""Sums over the classes of a row: the arithmetic that takes nearly all of the time, one file per way to do it."""
