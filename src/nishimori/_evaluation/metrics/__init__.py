"""Metrics by subject: `table.py` finds them by itself, and `metric.py` defines the class."""
