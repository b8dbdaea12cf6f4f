"""Evaluation with labels: scorecards, intervals, tests, comparisons, groups, curves, the gate."""
