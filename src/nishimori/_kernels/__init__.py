"""Sums over the classes of a row, which take nearly all of the computing time: one file per implementation."""
