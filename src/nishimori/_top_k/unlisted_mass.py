r"""The unlisted part of a distribution: some number of classes with a known mass, each below a known probability.

At inverse temperature β each class weighs p^β, so everything that a temperature changes depends on the tail's power sum Σp^β,
which its mass does not fix. Let a tail have N classes, mass m, and no probability above c.

**Two completions bound the power sum.** The even tail has N classes of probability m/N. The concentrated one has ⌊m/c⌋ classes
of probability c and one with what is left. Of all tails, the even one is majorised by every other, and the concentrated one
majorises every other. A sum of convex functions grows with majorisation (Schur), and p^β is convex for β ≥ 1 and concave for
β ≤ 1. So Σp^β lies between its values in the two completions: the concentrated one is the larger for β > 1 and the smaller for
β < 1, and at β = 1 both are m.

**They bound the temperature of expectation consistency.** The confidence of a row is (largest p)^β over the sum of all p^β, so
the mean confidence f(β) of the true distributions lies between those of the two completions, f_even and f_conc, at every β, and
all three are equal at β = 1. Each grows with β. If f(1) is below the accuracy a, all three reach a at some β > 1, where
f_conc ≤ f ≤ f_even, so β_even ≤ β ≤ β_conc. If f(1) is above a, they reach it at β < 1, where f_even ≤ f ≤ f_conc, so
β_conc ≤ β ≤ β_even. In both cases the true root lies between the roots of the two completions. Each completion is a possible
distribution, so that the bounds are reached.

**The mean energy** R = ⟨log p⟩ at β is a ratio, and other tails are extreme. Write A for the listed classes' Σp^β and A' for
their Σp^β·log p. A value λ is at most the largest R if and only if the largest of A' - λA + Σg(p) is not negative, where
g(p) = p^β(log p - λ). The second derivative of g has the sign of β(β - 1)(log p - λ) + 2β - 1, so that g has at most one
inflection: it is concave and then convex for β > 1, convex and then concave for β < 1. A sum of N such values at a given mass
is at most N times the concave envelope of g at m/N, and at least N times the convex envelope, and an envelope of such a g mixes
at most two values: 0 and some p, or some p and c. So R lies between the extremes of two families of tails with one parameter
each, in which the number of classes with a probability need not be whole:

- n = m/p classes of probability p, where m/N ≤ p ≤ c, and no others. Along it dR/d log p has the sign of
  1 + (β - 1)(log p - R), which changes once: to a minimum for β > 1, to a maximum for β < 1. With a = A'/A, it is at
  log p = a - (1 + w)/(β - 1), where w·exp(w) = (m/A)·exp((β - 1)a - 1), so that w is Wright's ω of the logarithm of that.
- some classes of probability c and all others of probability p ≤ m/N. It holds the largest R for β > 1 and the smallest for
  β < 1, found by bisection.

The largest R of a row is the largest of functions that grow with β, so it grows with β too, and so does the smallest. The roots
of their means therefore bound the temperature of temperature scaling.

**Rounding.** The mass is one minus a sum, so that rounding can be all of it, and at high temperatures even a mass of 1e-16 in
100,000 classes counts. A mass is therefore known up to some slack. The even tail takes the largest possible mass and the
concentrated one the smallest, which is outward for β < 1; for β > 1 the slack changes the power sum by no more than itself.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from nishimori._support.arrays import HostArray

# A tail whose mass is a multiple of its largest probability has no remainder, whatever the rounding of the quotient.
_ROUNDING = 1e-12

# The parameter of the second family is searched for on a scale of log p of this length, or of 20/β where that is longer: at
# β near 0 the energy is extreme at log p near -1/β. It is halved this many times. The energy is stationary at the solution, so
# an error of 200/2^30 in log p changes it by its square.
_REACH, _HALVINGS = 200.0, 30

# A slack that is a smaller part of the mass than this changes no temperature by more than is promised.
_SMALL_SLACK = 1e-9

# Larger exponents are not needed where only signs are compared, and would overflow.
_LARGEST_EXPONENT = 500.0


class TailLevels(NamedTuple):
    """Tails in which few probabilities occur: how many classes have each, and its logarithm, (levels, n)."""

    numbers: HostArray
    logs: HostArray


@dataclass(frozen=True, eq=False)
class Tails:
    """The tail of each row: its number of classes, its mass, the logarithm of the largest probability in it, and a slack.

    The mass is known up to ``slacks``.
    """

    numbers: HostArray
    masses: HostArray
    ceilings: HostArray
    slacks: HostArray

    def at(self, rows: slice | HostArray) -> "Tails":
        """The tails of some rows."""
        return Tails(self.numbers[rows], self.masses[rows], self.ceilings[rows], self.slacks[rows])

    @property
    def _largest(self) -> "Tails":
        """The tails with their largest possible masses."""
        most = self.numbers * np.exp(self.ceilings)
        return replace(self, masses=np.minimum(self.masses + self.slacks, most))

    @property
    def _smallest(self) -> "Tails":
        """The tails with their smallest possible masses."""
        return replace(self, masses=np.maximum(self.masses - self.slacks, 0.0))

    @property
    def _present(self) -> HostArray:
        present: HostArray = (self.masses > 0) & (self.numbers > 0)
        return present

    @property
    def _even_logs(self) -> HostArray:
        """The logarithm of the mean probability, or of the largest one if there is no tail."""
        present = self._present
        share = np.where(present, self.masses, 1.0) / np.where(present, self.numbers, 1.0)
        return np.where(present, np.minimum(np.log(share), self.ceilings), self.ceilings)

    def even_levels(self) -> TailLevels:
        """All classes with the same probability, and the largest possible mass."""
        largest = self._largest
        return TailLevels(np.where(largest._present, self.numbers, 0.0)[None], largest._even_logs[None])

    def concentrated_levels(self) -> TailLevels:
        """The tail with as many classes as possible at the largest probability, and one with the rest of the smallest mass."""
        largest, masses = np.exp(self.ceilings), self._smallest.masses
        numbers = np.minimum(np.floor(masses / largest * (1 + _ROUNDING)), self.numbers)
        left = np.maximum(masses - numbers * largest, 0.0)
        has_left = (left > _ROUNDING * masses) & (numbers < self.numbers)
        logs = np.log(np.where(has_left, left, largest))
        return TailLevels(np.stack([numbers, has_left.astype(float)]), np.stack([self.ceilings, logs]))

    def energies(self, beta: float, sums: HostArray, slopes: HostArray, peaks: HostArray) -> tuple[HostArray, HostArray]:
        """The smallest and the largest mean of log p - peak at ``beta``.

        ``sums`` and ``slopes`` are Σexp(βd) and Σd·exp(βd) over the listed classes, with d = log p - peak.
        """
        lowest, highest = self._largest._extremes(beta, sums, slopes, peaks)
        (rows,) = np.nonzero(self.slacks > _SMALL_SLACK * self.masses)
        if len(rows):
            low, high = self.at(rows)._smallest._extremes(beta, sums[rows], slopes[rows], peaks[rows])
            lowest[rows], highest[rows] = np.minimum(lowest[rows], low), np.maximum(highest[rows], high)
        return lowest, highest

    def _extremes(self, beta: float, sums: HostArray, slopes: HostArray, peaks: HostArray) -> tuple[HostArray, HostArray]:
        """The smallest and the largest mean of log p - peak at ``beta``, for the masses as they are."""
        lowest = slopes / sums
        highest = lowest.copy()
        rows = np.flatnonzero(self._present)
        if len(rows):
            some = self.at(rows)
            listed = _Listed(beta, sums[rows], slopes[rows], some.masses * np.exp(-peaks[rows]), some.numbers)
            even = some._even_logs - peaks[rows]
            ceiling = np.minimum(some.ceilings, np.log(some.masses)) - peaks[rows]  # no class has more than all of the mass
            even = np.minimum(even, ceiling)
            levelled, mixed = listed.one_level(even, ceiling), listed.two_levels(even, ceiling)
            # The listed classes alone are no tail at all, and rounding may leave the two the wrong way round.
            lowest[rows], highest[rows] = np.minimum(levelled, mixed), np.maximum(levelled, mixed)
        return lowest, highest


@dataclass(frozen=True, eq=False)
class _Listed:
    """Rows at one β: sums over their listed classes, and the mass and number of the others, all relative to the peak."""

    beta: float
    sums: HostArray
    slopes: HostArray
    masses: HostArray
    numbers: HostArray

    def one_level(self, even: HostArray, ceiling: HostArray) -> HostArray:
        """The extreme energy of tails with one probability, whose logarithm lies between ``even`` and ``ceiling``."""
        steps = self.beta - 1
        logs = ceiling
        if steps:
            from scipy.special import wrightomega  # noqa: PLC0415 - all data pass this module, and few are top-k

            mean = self.slopes / self.sums
            omega = wrightomega(np.log(self.masses / self.sums) + steps * mean - 1)
            logs = np.clip(mean - (1 + omega) / steps, even, ceiling)
        weights = self.masses * np.exp(steps * logs)
        energy: HostArray = (self.slopes + weights * logs) / (self.sums + weights)
        return energy

    def two_levels(self, even: HostArray, ceiling: HostArray) -> HostArray:
        """The extreme energy of tails of some classes at ``ceiling`` and all others at one probability, at most ``even``."""
        energy, rises = self._mixture(even, ceiling)
        (left,) = np.nonzero(~rises & (ceiling - even > _ROUNDING))  # elsewhere the even tail is the extreme one
        if not len(left):
            return energy
        some = _Listed(self.beta, *(values[left] for values in (self.sums, self.slopes, self.masses, self.numbers)))
        high, top = even[left], ceiling[left]
        low = high - max(_REACH, 20 / self.beta)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            _, rises = some._mixture(middle, top)
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        energy[left], _ = some._mixture(high, top)
        return energy

    def _mixture(self, logs: HostArray, ceiling: HostArray) -> tuple[HostArray, HostArray]:
        """The energy where the lower probability has the logarithm ``logs``; whether the extreme one is at a larger one."""
        beta, ratios = self.beta, logs - ceiling
        shares = np.exp(ratios)
        at_ceiling = np.exp(beta * ceiling)
        lower = np.exp(beta * ratios)
        room = -np.expm1(ratios)
        largest = np.exp(ceiling)
        many = np.maximum(self.masses / largest - self.numbers * shares, 0.0)
        above = np.minimum(np.where(room > _ROUNDING, many / np.where(room > _ROUNDING, room, 1.0), 0.0), self.numbers)
        heavy, light = above * at_ceiling, (self.numbers - above) * lower * at_ceiling
        energy = (self.slopes + heavy * ceiling + light * logs) / (self.sums + heavy + light)
        excess = ceiling - energy
        # The tangent of g at the lower probability, compared with its chord to the ceiling, in units of g's size there.
        steepness = np.exp(np.minimum((beta - 1) * ratios, _LARGEST_EXPONENT))
        tangent = steepness * (beta * (ratios + excess) + 1) * room
        chord = excess - lower * (ratios + excess)
        return energy, (tangent >= chord) if beta > 1 else (tangent <= chord)
