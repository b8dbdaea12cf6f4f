"""Compare state evolution with logistic regression in d dimensions, in standard errors, over a grid.

    python bench/theory_against_simulation.py [--d 500] [--seeds 16]

The metrics are those of infinitely many new samples, given the overlaps that training found, so that only the training set is
random. A deviation is (mean over seeds − theory) / standard error. If the theory holds in d dimensions and the values are
normal, it has Student's t distribution with seeds − 1 degrees of freedom. The theory holds up to O(1/d), and enough seeds make
this difference visible: increase d to see whether a large deviation disappears. Exits with 1 if any deviation is above 4.
"""

import argparse
import sys
import time
from itertools import product

import numpy as np
from scipy.stats import t as student

from nishimori_paper.theory import Experiments, StateEvolution, simulate, state_evolution

TEACHERS = ("logit", "affine", "constant", "probit")
ALPHAS = (0.5, 1, 2, 3, 6, 15)
PENALTIES = (1e-4, 0.01, 1)
QUANTITIES = ("m", "q", "error", "loss", "ece", "brier", "temperature_ts", "temperature_ec")
OVERLAPS = QUANTITIES[:2]
LIMIT = 4
Deviations = dict[tuple[str, ...], float]


def in_theory(limit: StateEvolution, name: str) -> float:
    """The value of a quantity in the limit; metrics that depend on a temperature have T = 1."""
    value = getattr(limit, name)
    return float(value() if callable(value) else value)


def report(cell: tuple[str, ...], found: Experiments, limit: StateEvolution) -> Deviations:
    """Print a line for each quantity of a cell, and return the deviations."""
    apart = {}
    for name in QUANTITIES:
        estimate, value = found[name], in_theory(limit, name)
        apart[*cell, name] = estimate.deviation_from(value)
        lost = f"  {estimate.missing} seeds have no value" if estimate.missing else ""
        mark = "  <--" if abs(apart[*cell, name]) > LIMIT else ""
        print(
            f"{cell[0]:>8} {cell[1]:>5} {cell[2]:>7} {name:>14} {value:12.6g} {estimate.mean:12.6g} "
            f"{estimate.standard_error:9.2g} {estimate.mean / value - 1:+9.1e} {apart[*cell, name]:+6.2f}{mark}{lost}",
            flush=True,
        )
    return apart


def count(what: str, apart: Deviations, seeds: int) -> None:
    """Print how many deviations are above 2, 3 and 4, how many are expected by chance, and the largest."""
    sizes = np.abs(list(apart.values()))
    print(f"\n{what}: {len(sizes)} deviations, root of their mean square {np.sqrt(np.mean(sizes**2)):.2f}", end="")
    print(f" (by chance {student(seeds - 1).std():.2f})" if seeds > 3 else "")
    for level in (2, 3, LIMIT):
        chance = 2 * float(student.sf(level, seeds - 1)) * len(sizes)
        print(f"  above {level}: {int((sizes > level).sum()):3d}, expected by chance {chance:6.2f}")
    largest = max(apart, key=lambda key: abs(apart[key]))
    print(f"  largest: {apart[largest]:+.2f} at {', '.join(largest)}")


def main() -> int:
    """Run the grid and count the large deviations."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=500, help="dimension (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=16, help="training sets per cell, at least 2 (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    for name, values, kind in (("teachers", TEACHERS, str), ("alphas", ALPHAS, float), ("penalties", PENALTIES, float)):
        parser.add_argument(
            f"--{name}", nargs="+", type=kind, default=values, metavar=name[0].upper(), help="default: %(default)s"
        )
    options = parser.parse_args()
    print(f"d = {options.d}, {options.seeds} seeds, seed {options.seed}")
    titles = ("limit", "mean", "std. err.", "relative", "deviation")
    print(f"{'teacher':>8} {'alpha':>5} {'penalty':>7} {'':>14} {titles[0]:>12} {titles[1]:>12}", *titles[2:])
    cells = list(product(options.teachers, options.alphas, options.penalties))
    # No two cells share their data: otherwise one unusual training set would affect all of them.
    streams = np.random.SeedSequence(options.seed).generate_state(len(cells))
    apart: Deviations = {}
    start = time.monotonic()
    for i, (teacher, alpha, penalty) in enumerate(cells):
        cell = (teacher, f"{alpha:g}", f"{penalty:g}")
        print(f"{i}/{len(cells)} after {time.monotonic() - start:.0f} s: {' '.join(cell)}", file=sys.stderr, flush=True)
        # The validation and test samples are not used here; they are just large enough to avoid a warning about few errors.
        sizes = {"d": options.d, "seeds": options.seeds, "n_val": 1000, "n_test": 1000}
        found = simulate(teacher, alpha, penalty, **sizes, seed=int(streams[i]), progress=False)
        apart |= report(cell, found, state_evolution(teacher, alpha, penalty))
    print(f"{len(cells)} cells in {time.monotonic() - start:.0f} s", file=sys.stderr)
    count("All (those of one cell follow from the same m and q, so they are not independent)", apart, options.seeds)
    count("m and q only", {key: value for key, value in apart.items() if key[-1] in OVERLAPS}, options.seeds)
    return int(any(abs(value) > LIMIT for value in apart.values()))


if __name__ == "__main__":
    sys.exit(main())
