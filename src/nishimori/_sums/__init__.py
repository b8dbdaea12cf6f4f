"""Sums over rows that support ``+``: the results of passes over batches."""
