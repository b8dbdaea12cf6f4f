"""What a fitted method is: its name, its record on disk, its map. Nothing here imports scikit-learn or SciPy."""
