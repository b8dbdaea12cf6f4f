"""The mergeable summary of a stream of rows: sums on a grid of temperatures, from which fits and scorecards follow."""

from nishimori._sketch._archive import is_sketch_file
from nishimori._sketch._sketch import Sketch
from nishimori._sketch._stream import Stream

__all__ = ["Sketch", "Stream", "is_sketch_file"]
