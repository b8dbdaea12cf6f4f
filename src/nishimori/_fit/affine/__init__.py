"""Fit an affine map with penalties on its departures from one temperature: sums, search, and strengths of penalties."""
