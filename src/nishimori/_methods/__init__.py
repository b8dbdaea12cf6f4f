"""What a fitted method is: its name, its record on disk, its traits. Nothing here imports scikit-learn or SciPy."""
