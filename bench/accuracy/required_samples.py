"""How well `nishimori.required_samples` predicts the number of validation samples: against draws, and against `theory.plan`.

    python bench/accuracy/required_samples.py                   # writes bench/results/required_samples.md
    python bench/accuracy/required_samples.py --pilots 10 --draws 20 --networks cifar10/resnet20 --teachers logit --out quick.md

Pilots of 500 rows are drawn, with replacement, from the test images of a network, and each predicts how many samples bring one
standard error of T to 2 %. Then that many rows are drawn again and again, and the spread of log T is what it should be. For
logistic regression on a teacher the prediction of pilots is compared with that of `theory.plan`, which needs no samples.
"""

import argparse
import warnings
from pathlib import Path

import numpy as np

import nishimori
from nishimori import data, required_samples, temperatures
from nishimori.errors import NoTemperatureError
from nishimori.results import Temperatures
from nishimori_paper.theory import plan, state_evolution

NETWORKS = ("cifar10/resnet20", "svhn/resnet20", "cifar100/vgg19")
TEACHERS = ("logit", "probit", "affine", "constant")
PILOT, TARGET, ALPHA, PENALTY = 500, 0.02, 20.0, 0.1


def found(pilots: list[Temperatures], method: str) -> tuple[int, str]:
    """The median of the numbers that pilots predict, and the range of nine tenths of them."""
    numbers = [required_samples(TARGET, each, method=method).n for each in pilots]
    low, middle, high = np.quantile(numbers, [0.05, 0.5, 0.95])
    return round(middle), f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"


def of_network(name: str, n_pilots: int, n_draws: int) -> list[str]:
    """A row for each method."""
    test, rng = data.load(name).test, np.random.default_rng(0)

    def drawn(n: int) -> Temperatures:
        rows = rng.integers(len(test.labels), size=n)
        return temperatures(test.logits[rows], test.labels[rows])

    pilots, rows = [drawn(PILOT) for _ in range(n_pilots)], []
    for method in ("ec", "ts"):
        n, shown = found(pilots, method)
        logs = [np.log(getattr(drawn(n), method)) for _ in range(n_draws)]
        spread = 100 * np.std(logs, ddof=1)
        rows.append(f"| {name} | {method.upper()} | {shown} | {spread:.2f} ± {spread / np.sqrt(2 * n_draws):.2f} |")
        print(rows[-1], flush=True)
    return rows


def of_teacher(name: str, n_pilots: int) -> list[str]:
    """A row for each method."""
    student, rng = state_evolution(name, ALPHA, PENALTY), np.random.default_rng(0)
    teacher, r = student.teacher, student.correlation
    planned = plan(name, ALPHA, PENALTY, relative_error=TARGET, probability=0.682689492137)
    pilots = []
    while len(pilots) < n_pilots:
        score, noise = rng.normal(size=(2, PILOT))
        field = teacher.signal * (r * score + np.sqrt(1 - r * r) * noise)
        try:
            pilots.append(
                temperatures(np.sqrt(student.q) * score, (rng.random(PILOT) < teacher.probability(field)).astype(int))
            )
        except NoTemperatureError:
            continue
    rows = []
    for method in ("ec", "ts"):
        rows.append(f"| {name} | {method.upper()} | {found(pilots, method)[1]} | {getattr(planned, f'n_{method}'):,} |")
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pilots", type=int, default=200)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--teachers", nargs="*", default=TEACHERS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "required_samples.md")
    options = parser.parse_args()
    warnings.simplefilter("ignore", nishimori.errors.FewErrorsWarning)
    networks = [row for name in options.networks for row in of_network(name, options.pilots, options.draws)]
    teachers = [row for name in options.teachers for row in of_teacher(name, options.pilots)]
    text = [
        f"Number of validation samples for one standard error of {100 * TARGET:g} % of T: median of {options.pilots} pilots of "
        f"{PILOT} samples, and the range of nine tenths of them. Written by `python bench/accuracy/required_samples.py` with "
        f"nishimori "
        f"{nishimori.__version__}.",
        "",
        f"| network | method | predicted n | spread of T at the median n, in %, {options.draws} draws |",
        "|---|---|---|---|",
        *networks,
        "",
        f"| teacher, α = {ALPHA:g}, λ = {PENALTY:g} | method | predicted n | n of `theory.plan` |",
        "|---|---|---|---|",
        *teachers,
        "",
    ]
    options.out.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
