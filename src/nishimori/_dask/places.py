"""The places of chunks as Dask hands them to tasks: a part of each task, which needs no task of its own.

Nothing imports this module before there is an array of Dask.
"""

from dask.layers import ArrayBlockwiseDep

from nishimori._support.arrays import HostArray


class ChunkPlaces(ArrayBlockwiseDep):
    """The place of each chunk along one dimension."""

    def __init__(self, places: HostArray) -> None:
        super().__init__(((1,) * len(places),))
        self.places = places

    def __getitem__(self, idx: tuple[int, ...]) -> HostArray:
        return self.places[idx[0] : idx[0] + 1]
