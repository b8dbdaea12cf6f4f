"""Certified thresholds: how many answers they give, how often they refuse, and how often they are wrong.

    python bench/studies/thresholds.py                            # about half an hour in one thread
    python bench/studies/thresholds.py --draws 20 --sizes 300 --out small.md

A population is an order of confidence and the error rate at each; bundled networks are populations of their test images, after
EC on the validation images. The oracle answers the largest share whose error rate in the population is at most the risk. Beside
the rule of `nishimori.threshold` stand a single sequence of tests from the top (it stops at the first one that is not passed,
so that each may use the whole level) and five sequences from different ranks, each at a fifth of the level.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from scipy.special import bdtr
from scipy.stats import beta

import nishimori
from nishimori._evaluation.certificate import RankedAnswers, certified
from nishimori._support.tables import Tabular

DELTA = 0.05
SIZES = (100, 300, 1000, 10_000)
RISKS = (0.01, 0.05, 0.1)
WAYS = ("threshold", "single sequence", "five sequences")

# Confidence by share of the answers, the most confident first; then error rates.
Population = tuple[np.ndarray, np.ndarray]
_POINTS = 20_000
_U = (np.arange(_POINTS) + 0.5) / _POINTS


def smooth(T: float) -> Population:
    """A model that is calibrated at T, with many confident answers."""
    confidence = 1 - 0.9 * beta.ppf(_U, 0.6, 2.0)
    return confidence, 1 / (1 + np.exp(T * np.log(confidence / (1 - confidence))))


def flat(rate: float) -> Population:
    """Label noise: the first 40 % of the answers have the same error rate, and then it rises."""
    return 1 - _U, np.where(_U < 0.4, rate, rate + (_U - 0.4) / 0.6 * 0.4)


def nine_levels() -> Population:
    """What a language model states."""
    levels = np.array([1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5])
    errors = np.array([0.02, 0.04, 0.08, 0.15, 0.2, 0.3, 0.35, 0.4, 0.5])
    place = np.searchsorted(np.cumsum([0.15, 0.15, 0.15, 0.15, 0.15, 0.1, 0.05, 0.05]), _U)
    return levels[place], errors[place]


def of_network(name: str) -> Population:
    """The test images of a bundled network, after EC."""
    network = nishimori.data.load(name)
    fitted = nishimori.ExpectationConsistency().fit(network.validation.logits, network.validation.labels)
    p = fitted.predict_proba(network.test.logits)
    confidence, wrong = p.max(axis=1), p.argmax(axis=1) != network.test.labels
    order = np.argsort(-confidence, kind="stable")
    return confidence[order].astype(float), wrong[order].astype(float)


TRIED: dict[str, Callable[[], Population]] = {
    "calibrated": lambda: smooth(1.0),
    "T = 0.5": lambda: smooth(0.5),
    "T = 0.7": lambda: smooth(0.7),
    "T = 1.5": lambda: smooth(1.5),
    **{f"flat {100 * rate:g} %": (lambda rate=rate: flat(rate)) for rate in (0.005, 0.01, 0.02, 0.03)},
    "nine levels": nine_levels,
}
"""The populations of the trial in which the rule was chosen."""
NETWORKS = {name: (lambda name=name: of_network(name)) for name in nishimori.data.names()}
"""Those with which nothing was chosen."""


def touching(risk: float, times: int = 12) -> Population:
    """Error rates whose cumulative mean touches the risk from below so many times, and exceeds it after the last."""
    blocks = np.array_split(np.arange(_POINTS), 2 * times + 1)
    rates = np.zeros(_POINTS)
    for number, block in enumerate(blocks):
        if number % 2 == 0:
            rates[block] = 0.5 * risk
        else:  # as high as brings the mean to the risk
            before = rates[: block[0]].sum()
            rates[block] = (risk * (block[-1] + 1) - before) / len(block)
    rates[blocks[-1]] = 4 * risk
    return 1 - _U, rates


BOUNDARY: dict[str, Callable[[float], Population]] = {
    "flat at the risk": lambda risk: (1 - _U, np.full(_POINTS, risk * (1 + 1e-9))),
    "touches it 12 times, then above": touching,
    "just above it for 40 %, then below": lambda risk: (1 - _U, np.where(_U < 0.4, risk * (1 + 1e-9), 0.9 * risk)),
    "the most confident worst": lambda risk: (1 - _U, np.where(_U < 0.1, 3 * risk, 0.8 * risk)),
    "nine levels at the risk": lambda risk: (np.ceil((1 - _U) * 9) / 10, np.full(_POINTS, risk * (1 + 1e-9))),
}


def draw(population: Population, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Confidences and errors of random samples; between the points of a population without ties there are others."""
    confidence, rates = population
    places = rng.random(n) * len(rates)
    rows = places.astype(int)
    drawn = confidence[rows]
    if (np.diff(confidence) < 0).all():
        drawn = drawn + (places - rows) * (np.append(confidence[1:], 2 * confidence[-1] - confidence[-2])[rows] - drawn)
    return drawn, rng.random(n) < rates[rows]


def single(p: np.ndarray) -> int:
    """How many tests of a sequence from the top are passed."""
    failed = np.flatnonzero(p > DELTA)
    return int(failed[0]) if len(failed) else len(p)


def five(p: np.ndarray) -> int:
    """The last test that one of five sequences reaches."""
    best = 0
    for start in np.unique(np.linspace(0, len(p) - 1, 5).round().astype(int)):
        end = start
        while end < len(p) and p[end] <= DELTA / 5:
            end += 1
        best = max(best, end if end > start else 0)
    return best


def answered(confidence: np.ndarray, wrong: np.ndarray, risk: float) -> dict[str, float | None]:
    """The threshold of each way; None if it refuses."""
    ranked = RankedAnswers.from_rows(confidence, wrong, risk, DELTA)
    if not len(ranked.thresholds):
        return dict.fromkeys(WAYS)
    tested = ranked.answered - 1
    p = bdtr(np.minimum(ranked.wrong, tested), tested, risk)
    places = (certified(ranked, risk, DELTA), single(p), five(p))
    return {way: float(ranked.thresholds[place - 1]) if place else None for way, place in zip(WAYS, places, strict=True)}


def of_population(population: Population, threshold: float | None) -> tuple[float, float]:
    """The share that is answered above a threshold, and how much of that is wrong."""
    confidence, rates = population
    number = 0 if threshold is None else int(np.searchsorted(-confidence, -threshold, side="right"))
    return number / len(rates), float(rates[:number].mean()) if number else 0.0


def oracle(population: Population, risk: float) -> float:
    """The largest share that can be answered at the risk, at the ends of ties."""
    confidence, rates = population
    ends = np.append(np.diff(confidence) != 0, True)
    good = np.flatnonzero(ends & (np.cumsum(rates) / np.arange(1, len(rates) + 1) <= risk))
    return (good[-1] + 1) / len(rates) if len(good) else 0.0


def trial(
    populations: Sequence[Population], n: int, risk: float, n_draws: int, seed: int
) -> dict[str, tuple[float, float, float]]:
    """By way: the coverage over that of the oracle, the share of refusals, and how often the risk is exceeded."""
    rng = np.random.default_rng(seed)
    sums = {way: np.zeros(3) for way in WAYS}
    n_cells = 0
    for population in populations:
        best = oracle(population, risk)
        if not best:
            continue
        n_cells += 1
        for _ in range(n_draws):
            for way, threshold in answered(*draw(population, n, rng), risk).items():
                coverage, wrong = of_population(population, threshold)
                sums[way] += (coverage / best, threshold is None, wrong > risk)
    return {way: tuple((total / max(1, n_cells * n_draws)).tolist()) for way, total in sums.items()}


def table(cells: dict[str, list[Population]], sizes: Sequence[int], risks: Sequence[float], n_draws: int) -> Tabular:
    """A row per population, risk and size."""
    rows = []
    for name, populations in cells.items():
        for risk in risks:
            if not any(oracle(population, risk) for population in populations):  # nothing can be answered at this risk
                continue
            for n in sizes:
                found = trial(populations, n, risk, n_draws, seed=n)
                shown = (f"{coverage:.2f}, {100 * refused:.0f} %" for coverage, refused, _ in found.values())
                most = max(exceeded for _, _, exceeded in found.values())
                rows.append((name, f"{100 * risk:g} %", f"{n:,}", *shown, f"{100 * most:.1f} %"))
    return Tabular(("population", "risk", "n", *WAYS, "most wrong"), rows)


def boundary(sizes: Sequence[int], risks: Sequence[float], n_draws: int) -> Tabular:
    """How often a threshold is certified whose risk is above the bound, with a 95 % upper limit."""
    rows = []
    for name, make in BOUNDARY.items():
        for risk in risks:
            for n in sizes:
                population, rng, wrong = make(risk), np.random.default_rng(n), 0
                for _ in range(n_draws):
                    confidence, errors = draw(population, n, rng)
                    ranked = RankedAnswers.from_rows(confidence, errors, risk, DELTA)
                    place = certified(ranked, risk, DELTA)
                    threshold = float(ranked.thresholds[place - 1]) if place else None
                    wrong += of_population(population, threshold)[1] > risk
                limit = beta.ppf(0.95, wrong + 1, n_draws - wrong)
                rows.append((name, f"{100 * risk:g} %", f"{n:,}", f"{100 * wrong / n_draws:.2f} %", f"{100 * limit:.2f} %"))
    return Tabular(("population", "risk", "n", "wrong certificates", "95 % upper limit"), rows)


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=300, help="data sets per cell")
    parser.add_argument("--boundary-draws", type=int, default=20_000, help="data sets per cell at the boundary")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="samples per data set")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "thresholds.md")
    arguments = parser.parse_args()
    tried = {name: [make()] for name, make in TRIED.items()}
    networks = {"19 networks": [make() for make in NETWORKS.values()]}
    sizes = [n for n in arguments.sizes if n >= SIZES[1]] or arguments.sizes
    parts = [
        "# Certified thresholds",
        f"Coverage over that of the oracle, and refusals, in {arguments.draws} data sets per cell; the last column is how "
        "often the risk of the population was exceeded, by the way that exceeds it most (5 % are promised).",
        "## The populations of the trial",
        table(tried, arguments.sizes, RISKS, arguments.draws).markdown(),
        "## Bundled networks",
        table(networks, arguments.sizes, RISKS, max(1, arguments.draws // 10)).markdown(),
        "## Where a wrong certificate is most probable",
        f"{arguments.boundary_draws:,} data sets per cell.",
        boundary([n for n in sizes if n <= 1000], RISKS[1:2], arguments.boundary_draws).markdown(),
    ]
    arguments.out.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
