"""Rows whose readings are reported."""

from nishimori._rows.rows import RowsInside


class Watched(RowsInside):
    """Other rows; ``report`` is told how many of them each reading has read."""

    def __init__(self, inside, report):
        super().__init__(inside)
        self.report = report

    def gather(self, pass_, report=None):
        return self.inside.gather(pass_, self.report)
