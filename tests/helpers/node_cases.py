"""Random rows for the sums of a sketch in the native kernel, each compared with the definitions in extended precision.

Run as a script with the path of another library, such as one that checks its own memory, it uses that one instead.
"""

import sys
from pathlib import Path

import numpy as np
from native_cases import layout

from nishimori._kernels import native
from nishimori._kernels.sums import NodeSums
from nishimori._sketch.grid import Grid

GRIDS = [Grid(-18, 18), Grid(-2, 2), Grid(-3, 4, 7), Grid(-30, 3)]
N_BINS = 15
SCALE = N_BINS / (1 + 1e-13)

# The squares of weights of the last node have nine times doubled errors.
TOLERANCE = 2e-12


class Definitions:
    """Numbers per row (rows,) at one β, in extended precision."""

    def __init__(self, z, labels, beta):
        z, rows = z.astype(np.longdouble), np.arange(len(z))
        d = z - z.max(axis=1, keepdims=True)
        top = np.argmax(z, axis=1)
        e = (d == 0).astype(np.longdouble) if beta == np.inf else np.exp(beta * d)
        self.p = e / e.sum(axis=1, keepdims=True)
        self.right, self.confidence = top == labels, self.p[rows, top]
        e[rows, top] = 0  # so that what is small beside 1 keeps its digits
        self.log_partition = np.log1p(e.sum(axis=1))
        self.doubt = e.sum(axis=1) * self.confidence
        self.mean = (self.p * d).sum(axis=1)
        self.drop = d[rows, labels]
        centred = d - self.mean[:, None]
        self.variance, self.third = (self.p * centred**2).sum(axis=1), (self.p * centred**3).sum(axis=1)
        self.second_size = (self.p * d**2).sum(axis=1)
        self.third_size = (self.p * np.abs(d) ** 3).sum(axis=1)
        self.miss = np.where(self.right, -self.doubt, self.confidence)
        self.energy = self.mean - self.drop
        error = self.p.copy()
        error[rows, labels] -= 1
        error[rows[self.right], top[self.right]] = -self.doubt[self.right]
        self.brier = (error**2).sum(axis=1)
        self.brier_slope = (error * self.p * centred).sum(axis=1)
        self.brier_size = (self.p * (np.abs(d) + np.abs(self.mean)[:, None])).sum(axis=1)

    def gaps(self, w):
        """The 13 sums, and how large the numbers are that are added or subtracted for them."""
        c, r, m, v = self.confidence, self.right, self.mean, self.variance
        g, h = self.miss, self.energy
        rows = [(1 - r) * c, r * self.doubt, c * m, c * (m * m - v), m, v, self.third, g * g, g * h, h * h]
        rows += [w * g * g, w * g * h, w * h * h]
        sizes = [np.abs(each) for each in rows]
        sizes[3], sizes[5] = c * (2 * m * m + self.second_size), m * m + self.second_size
        sizes[6] = 6 * self.third_size
        h_size = np.abs(m) + np.abs(self.drop)  # h itself is a difference
        sizes[8:10], sizes[11:13] = [np.abs(g) * h_size, h_size**2], [w * np.abs(g) * h_size, w * h_size**2]
        return np.array([w @ each for each in rows]), np.array([w @ each for each in sizes])

    def metrics(self, w):
        rows = [self.confidence, self.log_partition, self.brier, self.brier_slope]
        sizes = [*np.abs(rows[:3]), self.brier_size]
        return np.array([w @ each for each in rows]), np.array([w @ each for each in sizes])

    def bins(self, w):
        places = np.ceil(self.confidence * SCALE).astype(int) - 1
        table = np.stack([w, w * self.confidence, w * self.right, w**2, (w * self.miss) ** 2])
        return np.array([table[:, places == b].sum(axis=1) for b in range(N_BINS)])


def defined_sums(z, labels, weights, grid):
    """`NodeSums` in the most obvious way, and the sizes of what is added; rows of weight zero are left out."""
    kept = weights > 0
    z, labels, w = z[kept], labels[kept], weights[kept].astype(np.longdouble)
    n_nodes = len(grid.betas)
    found, sizes = (
        NodeSums(*(each.astype(np.longdouble) for each in NodeSums.zeros(n_nodes, N_BINS).arrays())) for _ in range(2)
    )
    if not len(z):
        return found, sizes
    rows = [Definitions(z, labels, beta) for beta in (0.0, *grid.betas, np.inf)]
    right, drops = rows[0].right, rows[0].drop
    found.counts[:] = [len(w), right.sum(), w @ right, w @ ~right, w**2 @ right, w**2 @ ~right, w @ drops]
    for i, each in enumerate(rows):
        found.gaps[i], sizes.gaps[i] = each.gaps(w)
    # At both ends there are no sums of second and third powers: slopes and curvatures are not right there, and not used.
    for i in (0, -1):
        found.gaps[i, [3, 5, 6]] = np.nan
    for i, each in enumerate(rows[1:-1]):
        found.metrics[i], sizes.metrics[i] = each.metrics(w)
        found.bins[i] = each.bins(w)
        for place, offset in enumerate((-4, -3, -2, -1, 1, 2, 3, 4)):
            if 0 <= i + offset < n_nodes:
                other = rows[1 + i + offset]
                for power in range(2):
                    heavy = w ** (power + 1) * each.miss
                    found.crossed[i, power, place] = heavy @ other.energy
                    sizes.crossed[i, power, place] = np.abs(heavy) @ (np.abs(other.mean) + np.abs(drops))
    sizes.counts[:], sizes.bins[...] = np.abs(found.counts), np.abs(found.bins)
    return found, sizes


def check_sums(found, z, labels, weights, grid, about=(), least=1e-290):
    """Compare sums with the definitions; what is below ``least`` may be left out. Weights below 1e-300 are zero anyway."""
    wanted, sizes = defined_sums(z, labels, weights, grid)
    for name, mine, theirs, size in zip(vars(found), found.arrays(), wanted.arrays(), sizes.arrays(), strict=True):
        off = np.abs(mine - theirs) - TOLERANCE * size
        assert np.all((off <= least) | np.isnan(theirs)), (about, name, np.nanmax(off / (size + least)))


def random_rows(rng):
    """Logits with ties, constants and outliers, labels that are often right, and weights of which some are zero."""
    n, k = int(rng.choice([0, 1, 7, 8, 9, 47, 48, 49, 95, 96, 97, 200])), int(rng.integers(1, 71))
    k = k if rng.random() < 0.7 else int(rng.choice([127, 128, 129, 256, 257, 300]))
    z = 10.0 ** rng.uniform(-2, 1.5) * rng.normal(size=(n, k)) + rng.choice([0, 0, 50]) * rng.normal(size=(n, 1))
    z = np.round(z) if rng.random() < 0.3 else z
    z = z.astype((np.float32, np.float64)[rng.integers(2)])
    labels = np.where(rng.random(n) < 0.6, z.argmax(axis=1), rng.integers(k, size=n))
    weights = np.ones(n) if rng.random() < 0.4 else rng.random(n) * 10.0 ** rng.integers(-3, 4)
    return z, labels, weights * (rng.random(n) < rng.choice([0.0, 0.7, 1.0], p=[0.1, 0.4, 0.5]))


def check_random_rows(seed):
    """Some rows through the kernel, and what it must refuse."""
    rng = np.random.default_rng(seed)
    z, labels, weights = random_rows(rng)
    grid = GRIDS[rng.integers(len(GRIDS))]
    given, said = layout(z, rng), labels.copy()
    (unseen,) = np.nonzero((weights == 0) & (rng.random(len(z)) < 0.5))  # what a row of weight zero holds does not matter
    if len(unseen):
        given = np.array(given)
        given[unseen], said[unseen] = rng.choice([np.nan, np.inf, 1e30]), rng.choice([-1, z.shape[1], -(2**62)])
    found = native.node_sums(given, said, weights, grid.betas, grid.beyond, N_BINS, SCALE)
    check_sums(found, z, labels, weights, grid, (seed, z.shape, z.dtype))
    (kept,) = np.nonzero(weights)
    if len(kept):
        row, bad, wrong = rng.choice(kept), z.copy(), labels.copy()
        if rng.random() < 0.7:
            bad[row, rng.integers(z.shape[1])] = rng.choice([np.nan, np.inf, -np.inf])
        else:
            wrong[row] = rng.choice([-1, z.shape[1], 2**40, -(2**63)])
        assert native.node_sums(bad, wrong, weights, grid.betas, grid.beyond, N_BINS, SCALE) is None, seed


if __name__ == "__main__":
    native._LIBRARY = Path(sys.argv[1])
    for number in range(int(sys.argv[2])):
        check_random_rows(number)
    sys.stdout.write(f"{native.description()} {native.library().source}\n")
