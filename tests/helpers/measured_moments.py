"""The moments of one observable, where tests look at nothing else."""

from nishimori._sums.moments import Measure


def measure(batch, observable, betas):
    """The moments of one observable on one batch."""
    return Measure(((observable, tuple(betas)),))(batch).items[0]
