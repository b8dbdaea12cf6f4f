"""Time to solve state evolution, with and without a starting point, compared with a plain fixed-point iteration.

    python bench/state_evolution.py [--json FILE]

Times are CPU milliseconds on one core, the fastest of `--repeats` runs. A cold solve has no starting point, a warm one starts
at a nearby solution. Cold solves with the default tolerance of 1e-10 are compared with tol = 1e-13. The plain iteration starts
like `plain_iterations` and stops when m, q and v are within 1e-9 of a cold solve, or after 100,000 iterations. In practice it
could not know when to stop. The ratio is its time divided by that of the cold solve; below one, the plain iteration is faster.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from itertools import product
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from nishimori_paper.theory import StateEvolution, optimal_penalty, plain_iterations, separability, state_evolution, sweep
from nishimori_paper.theory._fixed_point import Problem, unpack
from nishimori_paper.theory._state_evolution import regression

TEACHERS = ("logit", "affine", "constant")
ALPHAS = (0.5, 1, 2, 2.278, 2.447, 3.637, 6, 20, 50)
PENALTIES = (1e-4, 1e-2, 1, 10)
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
    for teacher in TEACHERS:
        edge = separability(teacher)
        for alpha, penalty in product(ALPHAS, PENALTIES):
            took, found = timed(lambda: state_evolution(teacher, alpha, penalty), repeats)  # noqa: B023 - run at once
            error = difference((found.m, found.q, found.v), state_evolution(teacher, alpha, penalty, tol=1e-13))
            row = {"teacher": teacher, "alpha": alpha, "separable": "yes" if alpha < edge else "no", "penalty": penalty}
            yield row | {"ms": took, "steps": found.steps, "residual": found.residual, "difference": error}


def sweeps(repeats: int) -> Iterator[Row]:
    """100 values of α from 0.5 to 50, each started at the previous solution (warm), and each on its own (cold)."""
    for teacher, penalty in product(TEACHERS, PENALTIES[:3]):
        warm, ours = timed(lambda: sweep(teacher, SWEEP, penalty), repeats)  # noqa: B023 - run at once
        cold, theirs = timed(lambda: [state_evolution(teacher, a, penalty) for a in SWEEP], repeats)  # noqa: B023
        row = {"teacher": teacher, "penalty": penalty, "warm ms": warm, "cold ms": cold, "cold / warm": cold / warm}
        yield row | {"difference": max(difference((a.m, a.q, a.v), b) for a, b in zip(ours, theirs, strict=True))}


def optimal_penalties(repeats: int) -> Iterator[Row]:
    """The penalty of least error and of least loss."""
    for teacher, alpha in product(TEACHERS, (0.5, 2, 5, 20)):
        row: Row = {"teacher": teacher, "alpha": alpha}
        for what in ("error", "loss"):
            took, found = timed(lambda: optimal_penalty(teacher, alpha, minimise=what), repeats)  # noqa: B023
            row |= {f"penalty of least {what}": found, f"{what} ms": took}
        yield row


def plain_fixed_point(repeats: int) -> Iterator[Row]:
    """The plain iteration far from separability, near it and at it."""
    for teacher in TEACHERS:
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


def main() -> None:
    """Print the tables and their summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--repeats", type=int, default=5, help="number of runs, of which the fastest counts (default: %(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the tables to FILE")
    options = parser.parse_args()
    tables: dict[str, list[Row]] = {}
    with threadpool_limits(1):
        for part in (cold_solves, sweeps, optimal_penalties, plain_fixed_point):
            tables[part.__name__] = list(part(options.repeats))
            show(part.__name__, tables[part.__name__])
    summary(tables["cold_solves"], tables["sweeps"], tables["plain_fixed_point"])
    if options.json:
        options.json.write_text(json.dumps(tables, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
