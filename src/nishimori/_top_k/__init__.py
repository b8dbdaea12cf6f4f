"""Rows that list only the most probable classes."""
