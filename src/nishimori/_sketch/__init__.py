"""The mergeable summary of a stream of rows: sums on a grid of temperatures, from which fits and scorecards follow."""
