"""One file per metric: every module here holds the metrics that its subject has, and the table finds them by itself."""
