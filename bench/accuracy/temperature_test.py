"""Size and power of the test whether EC and TS choose the same temperature, and of the forms of it that were not chosen.

    python bench/accuracy/temperature_test.py                   # all situations; writes bench/results/temperature_test.md
    python bench/accuracy/temperature_test.py --repeats 50 --power-repeats 50 --sizes 100 --out quick.md

Each repetition draws n rows, with replacement, from the test logits of a bundled network, or from the Gaussian scores of a
teacher's student, and then labels. A cell is the share of repetitions, in percent, in which the p-value is below 0.05. Rows are
written as they are done.

Confidence and expected logit of each test image are tabulated once as polynomials in log T, so that a repetition takes a
millisecond. The first draws of each cell are also tested by the library, which must agree.
"""

import argparse
import importlib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import chi2

import nishimori
from nishimori import calibration_test, data, temperatures
from nishimori.errors import NoTemperatureError
from nishimori.plot._style import OTHER_COLORS
from nishimori_paper._style import TEACHER_COLORS
from nishimori_paper.theory import state_evolution

SIZES = (100, 300, 1000, 5000)
NETWORKS = ("cifar10/resnet20", "svhn/resnet20", "cifar100/vgg19")
TEACHERS = ("logit", "probit", "affine", "constant")
QUANTILE = 1.959964

# Polynomials in log T: how far they reach from the T of all images to either side, and their degree.
REACH, DEGREE = 1.2, 20

# So many draws of each cell are tested by the library too, which must agree up to this.
CHECKED, AGREEMENT = 10, 1e-3

Statistics = tuple[float, float, float, float]


class Situation(NamedTuple):
    """Where labels come from, and how one draw of so many rows is tested; ``holds`` if T_EC = T_TS in an infinite sample."""

    kind: str
    name: str
    holds: bool
    log_ratio: float  # of an infinite sample, or of all test images
    test: Callable[[np.random.Generator, int, bool], Statistics]


class Pool:
    """Test images of a network, with confidence and expected drop of each as a polynomial in log T."""

    def __init__(self, name: str) -> None:
        test = data.load(name).test
        self.logits, self.labels = test.logits.astype(float), test.labels
        found = temperatures(self.logits, self.labels)
        assert found.ec is not None
        assert found.ts is not None
        self.ec, self.ts, self.n_classes = found.ec, found.ts, self.logits.shape[1]
        self.drops, self.top = self.logits - self.logits.max(axis=1, keepdims=True), self.logits.argmax(axis=1)
        nodes = np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
        values = [self._values(self.ts * np.exp(REACH * x)) for x in nodes]
        to_coefficients = np.linalg.inv(chebyshev.chebvander(nodes, DEGREE)).T
        self.tables = [np.stack(each, axis=1) @ to_coefficients for each in zip(*values, strict=True)]

    def _values(self, temperature: float) -> tuple[np.ndarray, np.ndarray]:
        p = softmax(self.drops / temperature, axis=1)
        return p.max(axis=1), (p * self.drops).sum(axis=1)

    def test(self, rows: np.ndarray, labels: np.ndarray, check: bool) -> Statistics:
        """All statistics of some rows with these labels."""
        label_drops = self.drops[rows, labels]
        observed = (self.top[rows] == labels).astype(float), label_drops
        tables = [each[rows] for each in self.tables]
        places = [root(table.mean(axis=0), truth.mean()) for table, truth in zip(tables, observed, strict=True)]
        if any(each is None for each in places):
            return statistics(self.logits[rows], labels)
        (own_ec, _), (ec, ts) = (
            [Condition.at(x, table, truth) for table, truth in zip(tables, observed, strict=True)] for x in places
        )
        delta = REACH * (places[0] - places[1])
        influence, own = ec.influence - ts.influence, own_ec.influence - ts.influence
        contrast = ts.slope * ec.gaps - ec.slope * ts.gaps
        T = self.ts * np.exp(REACH * places[1])
        confidence = ec.gaps + observed[0]
        variance = (confidence * (1 - confidence)).sum() - T * ec.slope**2 / abs(ts.slope)
        found = (
            delta / np.sqrt((influence**2).sum()),
            contrast.sum() ** 2 / (contrast**2).sum(),
            delta / np.sqrt((own**2).sum()),
            ec.gaps.sum() / np.sqrt(variance),
        )
        if check:
            expected = statistics(self.logits[rows], labels)
            assert np.allclose(np.abs(found), np.abs(expected), rtol=AGREEMENT, atol=AGREEMENT), (found, expected)
        return found


class Condition(NamedTuple):
    """The gaps of each row at one temperature, and the slope of their sum in log T."""

    gaps: np.ndarray
    slope: float

    @classmethod
    def at(cls, x: float, table: np.ndarray, observed: np.ndarray) -> "Condition":
        slope = chebyshev.chebval(x, chebyshev.chebder(table.sum(axis=0))) / REACH
        return cls(table @ chebyshev.chebvander(x, DEGREE)[0] - observed, float(slope))

    @property
    def influence(self) -> np.ndarray:
        influence: np.ndarray = self.gaps / self.slope
        return influence


def root(mean: np.ndarray, observed: float) -> float | None:
    """Where the mean of an observable, which falls with T, is what was observed; None if that is not within reach."""
    low, high, x = -1.0, 1.0, 0.0
    slopes = chebyshev.chebder(mean)
    if not chebyshev.chebval(low, mean) > observed > chebyshev.chebval(high, mean):
        return None
    for _ in range(60):
        gap = chebyshev.chebval(x, mean) - observed
        low, high = (x, high) if gap > 0 else (low, x)
        step = gap / chebyshev.chebval(x, slopes)
        new = x - step if low < x - step < high else (low + high) / 2
        if abs(new - x) < 1e-10:
            break
        x = new
    return new


def of_network(name: str) -> Iterator[Situation]:
    """Labels redrawn from the model; real labels reweighted to T_EC = T_TS; real labels; Table 2's label noise."""
    pool = Pool(name)
    labels, number, k = pool.labels, len(pool.labels), pool.n_classes
    cumulated = softmax(pool.logits / pool.ts, axis=1).cumsum(axis=1)
    share = tilted(pool.logits, labels, pool.ts)

    def redrawn(rng: np.random.Generator, n: int, check: bool) -> Statistics:
        rows = rng.integers(number, size=n)
        drawn = (rng.random((n, 1)) > cumulated[rows]).sum(axis=1)
        return pool.test(rows, np.minimum(drawn, k - 1), check)

    def reweighted(rng: np.random.Generator, n: int, check: bool) -> Statistics:
        rows = rng.choice(number, size=n, p=share)
        return pool.test(rows, labels[rows], check)

    def real(rng: np.random.Generator, n: int, check: bool) -> Statistics:
        rows = rng.integers(number, size=n)
        return pool.test(rows, labels[rows], check)

    def corrupted(rng: np.random.Generator, rows: np.ndarray) -> np.ndarray:
        return np.where(labels[rows] < k // 10, rng.integers(k, size=len(rows)), labels[rows])

    def noisy(rng: np.random.Generator, n: int, check: bool) -> Statistics:
        rows = rng.integers(number, size=n)
        return pool.test(rows, corrupted(rng, rows), check)

    all_rows = np.tile(np.arange(number), 20)
    under_noise = temperatures(pool.logits[all_rows], corrupted(np.random.default_rng(0), all_rows))
    assert under_noise.ec is not None
    assert under_noise.ts is not None
    yield Situation("labels redrawn from softmax(z/T)", name, True, 0.0, redrawn)
    yield Situation("real labels, reweighted to T_EC = T_TS", name, True, 0.0, reweighted)
    yield Situation("real labels", name, False, np.log(pool.ec / pool.ts), real)
    yield Situation("label noise as in Table 2", name, False, np.log(under_noise.ec / under_noise.ts), noisy)


def tilted(logits: np.ndarray, labels: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities of rows, closest to equal ones, under which both conditions hold at ``temperature``."""
    gaps = moments(logits, labels, temperature).gaps
    found = minimize(lambda a: np.exp(a @ gaps).mean(), np.zeros(2), jac=lambda a: (gaps * np.exp(a @ gaps)).mean(axis=1))
    share: np.ndarray = np.exp(found.x @ gaps)
    return share / share.sum()


def of_teacher(name: str, alpha: float = 20.0, penalty: float = 0.1) -> Situation:
    """Scores of logistic regression on a teacher, in high dimension, and the teacher's labels."""
    student = state_evolution(name, alpha, penalty)
    r, teacher = student.correlation, student.teacher

    def test(rng: np.random.Generator, n: int, check: bool) -> Statistics:  # noqa: ARG001 - it is the library
        score, noise = rng.normal(size=(2, n))
        field = teacher.signal * (r * score + np.sqrt(1 - r * r) * noise)
        return statistics(np.sqrt(student.q) * score, (rng.random(n) < teacher.probability(field)).astype(int))

    log_ratio = np.log(student.temperature_ec / student.temperature_ts)
    return Situation(f"teacher, α = {alpha:g}, λ = {penalty:g}", name, False, log_ratio, test)


def statistics(logits: np.ndarray, labels: np.ndarray) -> Statistics:
    """Of the chosen form, of J, of each condition at its own T, and of the gap of EC at T_TS with the variance of the model."""
    found = calibration_test(logits, labels, statistic="temperatures")
    assert found.ec is not None
    assert found.ts is not None
    assert found.j is not None
    if logits.ndim == 1:
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    ec, ts = moments(logits, labels, found.ec), moments(logits, labels, found.ts)
    influence = ec.gaps[0] / (ec.covariances[1] / found.ec) - ts.gaps[1] / (ts.covariances[2] / found.ts)
    own = found.value / np.sqrt((influence**2).sum())
    variance = ts.covariances[0] - ts.covariances[1] ** 2 / ts.covariances[2]
    return found.z, found.j, own, ts.gaps[0].sum() / np.sqrt(max(variance, 1e-300))


class Moments(NamedTuple):
    """Both gaps of each row; sums over rows of var [top], cov([top], z) and var z under the model."""

    gaps: np.ndarray
    covariances: tuple[float, float, float]


def moments(logits: np.ndarray, labels: np.ndarray, temperature: float) -> Moments:
    """Those at one temperature."""
    rows, peak = np.arange(len(labels)), logits.max(axis=1)
    drops = logits - peak[:, None]
    p = np.exp(drops / temperature)
    p /= p.sum(axis=1, keepdims=True)
    c, mean = p.max(axis=1), np.einsum("ij,ij->i", p, drops)
    square = np.einsum("ij,ij,ij->i", p, drops, drops)
    label = drops[rows, labels]
    gaps = np.stack([c - (drops.argmax(axis=1) == labels), mean - label])
    return Moments(gaps, (float((c * (1 - c)).sum()), float(-(c * mean).sum()), float((square - mean**2).sum())))


def shares(situation: Situation, n: int, repeats: int) -> tuple[list[float], int]:
    """How often each form rejects, in percent, and how many draws had no temperature."""
    rng = np.random.default_rng([n, *situation.name.encode()])
    found = []
    for i in range(repeats):
        try:
            found.append(situation.test(rng, n, i < CHECKED))
        except NoTemperatureError:
            continue
    wald, j, own, model = np.abs(np.array(found)).T
    rejected = (wald > QUANTILE, j > chi2.ppf(0.95, 1), own > QUANTILE, model > QUANTILE)
    return [100 * float(each.mean()) for each in rejected], repeats - len(found)


def report(rows: list[str], repeats: int, power_repeats: int) -> str:
    """The file of results."""
    return "\n".join(
        [
            'Share of repetitions, in percent, in which `calibration_test(statistic="temperatures")` has p < 0.05: 5 where '
            f"T_EC = T_TS (sizes), and as much as possible where not (power). {repeats:,} repetitions for sizes, "
            f"with a standard error of {100 * np.sqrt(0.05 * 0.95 / repeats):.1f}, and {power_repeats:,} for power. Written by "
            f"`python bench/accuracy/temperature_test.py` with nishimori {nishimori.__version__}.",
            "",
            "*Chosen*: log(T_EC/T_TS) over its standard error from the joint sandwich, with both conditions at T_TS. *J*: "
            "Hansen's J at T_TS. *Own T*: as chosen, but with each condition at its own temperature. *Model*: the gap of EC at "
            "T_TS over its standard deviation if labels are drawn from softmax(z/T_TS). δ = log(T_EC/T_TS) of infinitely many "
            "samples. *No T*: draws in which a temperature does not exist; they are left out of the shares.",
            "",
            "| labels | of | δ | n | chosen | J | own T | model | no T |",
            "|---|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


# What the picture calls each kind, how its lines look, and whether it belongs to the panel of sizes.
SHOWN = {
    "labels redrawn": ("redrawn labels", "-", True),
    "real labels, reweighted": ("reweighted labels", "--", True),
    "label noise": ("label noise", "-", False),
    "real labels": ("real labels", ":", False),
    "teacher": ("teacher", "--", False),
}


def picture(text: str, path: Path) -> None:
    """Draw the chosen form's share of rejections against n: sizes on the left, power on the right."""
    pyplot = importlib.import_module("matplotlib.pyplot")
    table = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")][1:]
    curves: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for kind, name, log_ratio, n, share, *_ in table:
        curves.setdefault((kind, name, log_ratio), []).append((int(n.replace(",", "")), float(share)))
    figure, panels = pyplot.subplots(1, 4, figsize=(13.5, 4.8), sharex=True, layout="constrained")
    hues = dict(zip(NETWORKS, OTHER_COLORS, strict=False)) | TEACHER_COLORS
    places = {"size": 0, "label noise": 1, "real labels": 2, "teacher": 3}
    for (kind, name, log_ratio), points in curves.items():
        word, style, holds = next(shown for start, shown in SHOWN.items() if kind.startswith(start))
        label = f"{name}, {word.removesuffix(' labels')}" if holds else f"{name}: {100 * float(log_ratio):+.1f} %"
        panel = panels[places["size" if holds else word]]
        shape = style if holds else "-"
        panel.plot(*zip(*points, strict=True), shape, color=hues[name], marker="o", markersize=4, label=label)
    ticks = sorted({n for points in curves.values() for n, _ in points})
    for axes in panels:
        axes.set(xscale="log", xlabel="validation samples", ylim=(0, 103))
        axes.set_xticks(ticks, [f"{n:,}" for n in ticks])
        axes.minorticks_off()
        axes.spines[["top", "right"]].set_visible(False)
        axes.axhline(5, color="0.6", linewidth=1, zorder=0)
    size, *power = panels
    size.axhspan(*(5 + 2 * 100 * np.sqrt(0.05 * 0.95 / 2000) * np.array([-1, 1])), color="0.9", zorder=0)
    size.set(title="Size: both temperatures are equal", ylim=(0, 12), ylabel="rejected at a level of 5 %, in %")
    for axes, title in zip(power, ("Power: label noise", "Power: real labels", "Power: teachers"), strict=True):
        axes.set_title(title)
    for axes, title in zip(panels, ("labels", *("log(T_EC / T_TS)",) * 3), strict=True):
        look = {"fontsize": 8.5, "title_fontsize": 8.5, "frameon": False, "ncols": 2 if axes is size else 1}
        axes.legend(title=title, loc="upper center", bbox_to_anchor=(0.5, -0.17), columnspacing=0.8, **look)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def main() -> None:
    """Measure, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2000, help="repetitions where T_EC = T_TS")
    parser.add_argument("--power-repeats", type=int, default=1000, help="repetitions where not")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--networks", nargs="*", default=NETWORKS)
    parser.add_argument("--teachers", nargs="*", default=TEACHERS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "temperature_test.md")
    parser.add_argument("--picture", type=Path, help="where to draw the shares")
    parser.add_argument("--draw-only", action="store_true", help="draw the results that --out holds already")
    options = parser.parse_args()
    warnings.simplefilter("ignore", nishimori.errors.FewErrorsWarning)
    if not options.draw_only:
        measure(options)
    if options.picture:
        picture(options.out.read_text(encoding="utf-8"), options.picture)


def measure(options: argparse.Namespace) -> None:
    """Measure all cells and write them as they come."""
    situations = [each for name in options.networks for each in of_network(name)]
    situations += [of_teacher(name) for name in options.teachers]
    rows: list[str] = []
    for each in sorted(situations, key=lambda one: (not one.holds, one.kind)):
        for n in options.sizes:
            found, missing = shares(each, n, options.repeats if each.holds else options.power_repeats)
            cells = " | ".join(f"{share:.1f}" for share in found)
            rows.append(f"| {each.kind} | {each.name} | {each.log_ratio:.4f} | {n:,} | {cells} | {missing} |")
            options.out.write_text(report(rows, options.repeats, options.power_repeats), encoding="utf-8")
            print(rows[-1], flush=True)


if __name__ == "__main__":
    main()
