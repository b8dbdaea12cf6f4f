"""The fit of an affine map whose departures from one temperature are penalised: sums, search, and strengths of penalties."""
