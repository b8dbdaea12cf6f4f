"""Rows of which only the most probable classes are listed."""
