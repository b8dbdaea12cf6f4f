"""The mergeable summary of a stream of rows: sums on a grid of temperatures, from which fits and scorecards follow."""

from nishimori._sketch._archive import is_sketch_file
from nishimori._sketch._sketch import Sketch

__all__ = ["Sketch", "is_sketch_file"]
