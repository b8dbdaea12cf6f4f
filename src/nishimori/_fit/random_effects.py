"""Estimate the variance between the true values of groups, from estimates with errors.

Each group has an estimate t with a variance v, and its true value lies around a common mean with the variance τ². With
weights 1/(v + τ²) and their weighted mean m, Q(τ²) = Σ(t - m)²/(v + τ²) has one less degree of freedom than there are groups,
if errors are normal. Paule and Mandel take the τ² at which Q is what it is on average. The τ² at which Q is an upper quantile
of its distribution is the lower limit of a confidence interval (the Q-profile method of Viechtbauer): as much spread as the
data show beyond doubt. Both are 0 where Q is small enough without any spread.

R. C. Paule and J. Mandel, J. Res. Natl. Bur. Stand. 87 (1982) 377. W. Viechtbauer, Stat. Med. 26 (2007) 37.
"""

from nishimori._support.arrays import HostArray

# Newton's method starts below the root of a convex function, and so approaches it from one side: this many steps are plenty.
_MOST_STEPS = 200
_PRECISION = 1e-12


def variance_between(estimates: HostArray, variances: HostArray) -> float:
    """The variance between groups after Paule and Mandel; 0 if the errors explain all differences."""
    return _variance_at(estimates, variances, len(estimates) - 1)


def variance_limit(estimates: HostArray, variances: HostArray, level: float, *, centre: float | None = None) -> float:
    """The lower limit of the variance between groups at confidence ``level``, at least 0.

    At a level of 0.95 it is 0 where all groups may be the same; at a low level it is an upper limit. ``centre`` is the common
    mean, if it is known, so that Q has as many degrees of freedom as there are groups.
    """
    from scipy.special import chdtri  # noqa: PLC0415 - slow to import

    degrees = len(estimates) - (centre is None)
    return _variance_at(estimates, variances, float(chdtri(degrees, 1 - level)), centre) if degrees > 0 else 0.0


def _variance_at(estimates: HostArray, variances: HostArray, target: float, centre: float | None = None) -> float:
    """The τ² at which Q is ``target``, at least 0."""
    if not len(estimates):
        return 0.0
    variance = 0.0
    for _ in range(_MOST_STEPS):
        weights = 1 / (variances + variance)
        # Relative to their sum, which may overflow where a group is known much better than others.
        mean = float(estimates @ (weights / weights.sum())) if centre is None else centre
        squares = weights * (estimates - mean) ** 2
        excess, slope = float(squares.sum()) - target, float((weights * squares).sum())
        if excess <= 0 or excess <= _PRECISION * variance * slope:
            break
        variance += excess / slope
    return variance
