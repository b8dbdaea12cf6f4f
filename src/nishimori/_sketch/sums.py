"""What `_sums` asks, answered from the sums of a sketch."""

from nishimori._sketch.sketch import Sketch
from nishimori._sums.census import Census, census


@census.register(Sketch)
def _(data: Sketch) -> Census:
    """Give the census that the sketch keeps."""
    return data.census
