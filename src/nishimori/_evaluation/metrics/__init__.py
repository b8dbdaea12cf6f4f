"""Metrics by subject: `table.py` finds them by itself, and `metric.py` says what one is."""
