"""State evolution beside logistic regression in d dimensions, in standard errors, over a grid; and the time that it takes.

    python bench/accuracy/theory.py [--d 500] [--seeds 16]
    python bench/accuracy/theory.py --times [--json FILE]     # how long a solution takes, instead

The metrics are those of infinitely many new samples, given the overlaps that training found, so that only the training set is
random. A deviation is (mean over seeds − theory) / standard error. If the theory holds in d dimensions and the values are
normal, it has Student's t distribution with seeds − 1 degrees of freedom. The theory holds up to O(1/d), and enough seeds make
this difference visible: increase d to see whether a large deviation disappears. Exits with 1 if any deviation is above 4.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student
from threadpoolctl import threadpool_limits

from nishimori_paper.theory import (
    Experiments,
    StateEvolution,
    optimal_penalty,
    plain_iterations,
    separability,
    simulate,
    state_evolution,
    sweep,
)
from nishimori_paper.theory._fixed_point import Problem, unpack
from nishimori_paper.theory._state_evolution import regression

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


# Time to solve state evolution, with and without a starting point, compared with a plain fixed-point iteration.
#
# Times are CPU milliseconds on one core, the fastest of `--repeats` runs. A cold solve has no starting point, a warm one starts
# at a nearby solution. Cold solves with the default tolerance of 1e-10 are compared with tol = 1e-13. The plain iteration
# starts like `plain_iterations` and stops when m, q and v are within 1e-9 of a cold solve, or after 100,000 iterations. In
# practice it could not know when to stop. The ratio is its time divided by that of the cold solve; below one, the plain
# iteration is faster.

TIMED_TEACHERS = ("logit", "affine", "constant")
TIMED_ALPHAS = (0.5, 1, 2, 2.278, 2.447, 3.637, 6, 20, 50)
TIMED_PENALTIES = (1e-4, 1e-2, 1, 10)
SWEEP = np.geomspace(0.5, 50, 100)
CAP = 100_000
Row = dict[str, Any]


def timed(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """CPU milliseconds of the fastest run, and the result."""
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        result = run()
        best = min(best, time.process_time() - start)
    return 1e3 * best, result


def difference(found: tuple[float, ...], exact: StateEvolution) -> float:
    """Largest relative difference of m, q and v."""
    return max(abs(a / b - 1) for a, b in zip(found, (exact.m, exact.q, exact.v), strict=True))


def cold_solves(repeats: int) -> Iterator[Row]:
    """A cold solve for every cell of the grid."""
    for teacher in TIMED_TEACHERS:
        edge = separability(teacher)
        for alpha, penalty in product(TIMED_ALPHAS, TIMED_PENALTIES):
            took, found = timed(lambda: state_evolution(teacher, alpha, penalty), repeats)  # noqa: B023 - run at once
            error = difference((found.m, found.q, found.v), state_evolution(teacher, alpha, penalty, tol=1e-13))
            row = {"teacher": teacher, "alpha": alpha, "separable": "yes" if alpha < edge else "no", "penalty": penalty}
            yield row | {"ms": took, "steps": found.steps, "residual": found.residual, "difference": error}


def sweeps(repeats: int) -> Iterator[Row]:
    """100 values of α from 0.5 to 50, each started at the previous solution (warm), and each on its own (cold)."""
    for teacher, penalty in product(TIMED_TEACHERS, TIMED_PENALTIES[:3]):
        warm, ours = timed(lambda: sweep(teacher, SWEEP, penalty), repeats)  # noqa: B023 - run at once
        cold, theirs = timed(lambda: [state_evolution(teacher, a, penalty) for a in SWEEP], repeats)  # noqa: B023
        row = {"teacher": teacher, "penalty": penalty, "warm ms": warm, "cold ms": cold, "cold / warm": cold / warm}
        yield row | {"difference": max(difference((a.m, a.q, a.v), b) for a, b in zip(ours, theirs, strict=True))}


def optimal_penalties(repeats: int) -> Iterator[Row]:
    """The penalty of least error and of least loss."""
    for teacher, alpha in product(TIMED_TEACHERS, (0.5, 2, 5, 20)):
        row: Row = {"teacher": teacher, "alpha": alpha}
        for what in ("error", "loss"):
            took, found = timed(lambda: optimal_penalty(teacher, alpha, minimise=what), repeats)  # noqa: B023
            row |= {f"penalty of least {what}": found, f"{what} ms": took}
        yield row


def plain_fixed_point(repeats: int) -> Iterator[Row]:
    """The plain iteration far from separability, near it and at it."""
    for teacher in TIMED_TEACHERS:
        edge = separability(teacher)
        away = [(1, 10), (1, 1), *((share * edge, 1e-4) for share in (0.5, 0.95, 1.05, 2, 8))]
        for alpha, penalty in away + [(edge, penalty) for penalty in (1e-2, 1e-4, 1e-6, 1e-8)]:
            ours, found = timed(lambda: state_evolution(teacher, alpha, penalty), repeats)  # noqa: B023 - run at once
            n, left = iterations(found)
            some = min(n, 1000)
            took, _ = timed(lambda: plain_iterations(teacher, alpha, penalty, some), repeats)  # noqa: B023
            row = {"teacher": teacher, "alpha / separability": alpha / edge, "penalty": penalty, "iterations": n}
            row |= {"difference": left, "µs each": 1e3 * took / some, "plain ms": n * took / some, "Newton ms": ours}
            yield row | {"ratio": row["plain ms"] / ours}


def iterations(exact: StateEvolution) -> tuple[int, float]:
    """The number of plain iterations that come within 1e-9 of the solution, and the remaining difference."""
    problem = Problem(regression(exact.teacher), exact.alpha, exact.penalty)
    m, q, v = plain_iterations(exact.teacher, exact.alpha, exact.penalty, 0)  # the starting point
    x = np.array([log(m * m / (exact.teacher.rho * q - m * m)), log(q), log(v)])
    n = 0
    while (left := difference((m, q, v), exact)) > 1e-9 and n < CAP:
        x, n = problem.iterate(x), n + 1
        eta, _, q, v = unpack(x)
        m = sqrt(exact.teacher.rho * eta * q)
    return n, left


def show(title: str, rows: list[Row]) -> None:
    """A Markdown table."""
    text = [[f"{x:.3g}" if isinstance(x, float) and name != "alpha" else str(x) for name, x in row.items()] for row in rows]
    print(f"\n## {title.replace('_', ' ').capitalize()}\n")
    for line in (list(rows[0]), ["---"] * len(rows[0]), *text):
        print("|", " | ".join(line), "|", flush=True)


def summary(cold: list[Row], warm: list[Row], base: list[Row]) -> None:
    """Print a summary of the tables."""
    ms, steps, residual, error = ([row[name] for row in cold] for name in ("ms", "steps", "residual", "difference"))
    print(f"\nCold solve: median {np.median(ms):.1f} ms, worst {max(ms):.1f} ms; up to {max(steps)} steps,", end=" ")
    print(f"residual {max(residual):.0e}, difference from tol = 1e-13 {max(error):.0e}")
    ms, gain = ([row[name] for row in warm] for name in ("warm ms", "cold / warm"))
    print(f"Sweep of {len(SWEEP)}: {min(ms):.0f} to {max(ms):.0f} ms warm, {min(gain):.1f} to {max(gain):.1f} times that cold")
    alike: dict[str, list[Row]] = {}
    for row in base:
        where = "at" if row["alpha / separability"] == 1 else "away from"
        alike.setdefault(f"{where} separability, penalty {row['penalty']:g}", []).append(row)
    for where, rows in alike.items():
        ratios, capped = [row["ratio"] for row in rows], any(row["iterations"] == CAP for row in rows)
        print(f"Plain / Newton {where}: {'at least ' * capped}{min(ratios):.3g} to {max(ratios):.3g}")


def measure_times(repeats: int, path: Path | None) -> None:
    """Print the tables and their summary, and write them to a file of JSON."""
    tables: dict[str, list[Row]] = {}
    with threadpool_limits(1):
        for part in (cold_solves, sweeps, optimal_penalties, plain_fixed_point):
            tables[part.__name__] = list(part(repeats))
            show(part.__name__, tables[part.__name__])
    summary(tables["cold_solves"], tables["sweeps"], tables["plain_fixed_point"])
    if path:
        path.write_text(json.dumps(tables, indent=1, default=float) + "\n")


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
    parser.add_argument("--times", action="store_true", help="measure how long a solution takes, and nothing else")
    parser.add_argument("--repeats", type=int, default=5, help="runs of which the fastest counts (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables of times to FILE")
    options = parser.parse_args()
    if options.times:
        measure_times(options.repeats, options.json)
        return 0
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
