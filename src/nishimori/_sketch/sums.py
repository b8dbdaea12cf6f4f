"""The functions of `_sums` for a sketch."""

from nishimori._sketch.sketch import Sketch
from nishimori._sums.census import Census, census


@census.register(Sketch)
def _(data: Sketch) -> Census:
    """The census that the sketch keeps."""
    return data.census
