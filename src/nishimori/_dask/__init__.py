"""Rows of Dask arrays, read where their chunks are."""
