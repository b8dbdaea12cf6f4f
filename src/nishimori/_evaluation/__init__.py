"""What people ask of a model with labels: scorecards, intervals, tests, comparisons, groups, curves, the gate."""
