"""Rows of files: arrays and tables on disk."""
