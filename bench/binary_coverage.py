"""How often intervals of 95 % of the parameters of Platt scaling hold the truth, with and without smoothed labels.

    python bench/binary_coverage.py    # a minute

Scores are normal with standard deviation 2, and labels have the log-odds slope·s + intercept. Standard errors are the sandwich
of what each fit solves, computed here, because `Platt` has none for smoothed labels. Draws whose scores separate the classes
are left out.
"""

import numpy as np

import nishimori
from nishimori.errors import NishimoriError

TRUTHS = ((1.0, -0.5), (2.0, 1.0), (0.5, -2.0))
SIZES = (50, 200, 1000)
DRAWS = 400


def errors(s: np.ndarray, y: np.ndarray, fitted: nishimori.Platt) -> np.ndarray:
    """The standard errors of slope and intercept."""
    p = fitted.predict_proba(s)[:, 1]
    targets = y.astype(float)
    if fitted.smooth_labels:
        targets = np.where(y, (y.sum() + 1) / (y.sum() + 2), 1 / ((~y).sum() + 2))
    x = np.column_stack([s, np.ones(len(s))])
    gaps = x * (p - targets)[:, None]
    inverse = np.linalg.inv((x * (p * (1 - p))[:, None]).T @ x)
    return np.sqrt(np.diag(inverse @ gaps.T @ gaps @ inverse))


def main() -> None:
    """Print one line per truth and size."""
    rng = np.random.default_rng(1)
    print(f"| slope | intercept | n | smoothed: slope | intercept | plain: slope | intercept |\n{'|---' * 7}|")
    for truth in TRUTHS:
        for n in SIZES:
            held: dict[bool, list[np.ndarray]] = {True: [], False: []}
            for _ in range(DRAWS):
                s = 2 * rng.normal(size=n)
                y = truth[0] * s + truth[1] + rng.logistic(size=n) > 0
                try:
                    fits = [nishimori.Platt(smooth_labels=smooth).fit(s, y) for smooth in held]
                except NishimoriError:
                    continue
                for fitted in fits:
                    off = np.abs(np.array(list(fitted.parameters_.values())) - truth)
                    held[fitted.smooth_labels].append(off < 1.96 * errors(s, y, fitted))
            cells = [f"{share:.1%}" for smooth in held for share in np.mean(held[smooth], axis=0)]
            print(f"| {truth[0]:g} | {truth[1]:g} | {n:,} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
