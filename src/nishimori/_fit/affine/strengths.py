"""How strongly departures from one temperature are penalised: by marginal likelihood, as far as the data can tell.

Departures of a block are taken for draws from a normal distribution of mean 0 and precision λ, the strength of the penalty
λ/2·Σθ². The marginal likelihood of the data is highest where λ = γ/Σθ², with γ = number of departures − λ·(sum of their
posterior variances), the number of departures that the data determine (D. MacKay, Neural Computation 4, 415, 1992). Few data
often have their maximum at λ = ∞ or at a λ that is far too small. Therefore λ has a prior, worth `PSEUDO` departures, around
a usual value: λ = (γ + ν)/(Σθ² + ν/usual).

The usual value is relative to what the data say, the curvature of the loss by a departure, averaged over a block and taken at
one temperature: λ = curvature·(I₀/I)³. I is the mean curvature by a bias, Σp(1 − p) per class: about the number of uncertain
rows that each class has. At I₀ = `INFORMATION` the prior and the data count alike. With fewer data it would cost more to trust
a departure that is not there than to miss one. With many data λ is at least `LEAST`: departures of networks are seldom much
larger than 1/√λ. Off-diagonal departures are penalised ten times as much as others, because there are many of them. All
constants were chosen on networks of ten and a hundred classes; bench/studies/affine.py shows what they do.
"""

import numpy as np

from nishimori._fit.affine.parameters import BIAS, DIAGONAL, OFF_DIAGONAL, Parameters
from nishimori._support.arrays import HostArray

PSEUDO = 4.0
"""How many departures the prior of a strength is worth."""

INFORMATION = 10.0
"""The mean curvature by a bias at which departures are usually penalised as much as the data determine them."""

LEAST = {DIAGONAL: 30.0, OFF_DIAGONAL: 100.0, BIAS: 2.0}
"""What strengths usually are where the data are many: those of departures of 0.18, 0.1 and 0.7."""

OFF_DIAGONAL_FACTOR = 10.0
"""How much more than others off-diagonal departures are usually penalised, relative to their curvature."""

# Beyond this a departure is zero to all digits that matter, below it is free.
_LEAST, _MOST = 1e-6, 1e12


def usual_strengths(parameters: Parameters, seconds: HostArray) -> HostArray:
    """The centre of the prior of each strength, from the second derivatives by all factors and biases at one temperature."""
    names = parameters.blocks
    curvatures = np.array([seconds[places - 1].mean() for places in parameters.members])
    factors = np.array([OFF_DIAGONAL_FACTOR if name == OFF_DIAGONAL else 1.0 for name in names])
    information = max(float(seconds[-parameters.n_classes :].mean()), _LEAST)
    usual = factors * curvatures * (INFORMATION / information) ** 3
    strengths: HostArray = np.clip(np.maximum(usual, [LEAST[name] for name in names]), _LEAST, _MOST)
    return strengths


def fitting_strengths(
    parameters: Parameters, theta: HostArray, variances: HostArray, strengths: HostArray, usual: HostArray
) -> tuple[HostArray, HostArray]:
    """The strengths of highest marginal likelihood and prior, and how many departures of each block the data determine.

    The departures ``theta`` at the strengths so far, and their posterior variances, are taken to stay as they are.
    """
    squares = np.array([np.sum(theta[places] ** 2) for places in parameters.members])
    uncertain = np.array([np.sum(variances[places]) for places in parameters.members])
    numbers = np.array([len(places) for places in parameters.members])
    determined = np.clip(numbers - strengths * uncertain, 0, numbers)
    return np.clip((determined + PSEUDO) / (squares + PSEUDO / usual), _LEAST, _MOST), determined
