"""Analyse the population of networks as paper/population.toml announces it.

    python bench/studies/population_results.py PACKS        # PACKS: the folder of what bench/studies/population.py has written

Writes bench/results/population.md and the numbers, without logits, to paper/population_results.json. Numbers of a network that
were computed before are read from the folder PACKS-measured.
"""

import argparse
import json
from dataclasses import dataclass
from math import log, sqrt
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp
from scipy.stats import t as student

from population_measures import OTHERS, Held, Resamples, at_epoch, declaration, growth, left_by_ec, profile, read, scores
from population_tables import page

# Statistics of the population of networks: a random intercept for each kind, differences of kinds, and Holm's correction.
#
# Each quantity is an array whose first element is the estimate and whose others are the same quantity for bootstrap samples of
# the images, one after another, the same images for all networks of a data set.


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error and degrees of freedom.

    Attributes
    ----------
    images, networks : float
        The parts of the standard error: what other images would change, and what other kinds and seeds would.
    between, within : float or None
        Standard deviation between kinds, and between networks of one kind.
    """

    value: float
    images: float
    networks: float
    freedom: int
    between: float | None = None
    within: float | None = None

    @property
    def error(self):
        return sqrt(self.images**2 + self.networks**2)

    def below(self, bound):
        """The p-value of "it is at least ``bound``": small if the mean is clearly below."""
        return float(student.cdf((self.value - bound) / self.error, self.freedom))

    def above(self, bound):
        """The p-value of "it is at most ``bound``"."""
        return float(student.sf((self.value - bound) / self.error, self.freedom))

    def within_margin(self, margin):
        """The p-value of "it is beyond ± ``margin``": the larger one of two one-sided tests."""
        return max(self.below(margin), self.above(-margin))

    def interval(self, level=0.95):
        """The interval of Student's t."""
        half = float(student.ppf((1 + level) / 2, self.freedom)) * self.error
        return [self.value - half, self.value + half]

    def numbers(self):
        """All numbers, for a file."""
        low, high = self.interval()
        found = {"value": self.value, "error": self.error, "low": low, "high": high, "freedom": self.freedom}
        found |= {"error_of_images": self.images, "error_of_networks": self.networks}
        return found | {f"sd_{key}": value for key in ("between", "within") if (value := getattr(self, key)) is not None}


def intercept(groups):
    """Mean, its variance, and the variances between and within groups, of y = μ + group + rest, by REML."""
    sizes = np.array([len(each) for each in groups])
    means = np.array([np.mean(each) for each in groups])
    within = sum(float(np.square(np.asarray(each) - np.mean(each)).sum()) for each in groups)
    n = sizes.sum()

    def solve(ratio):  # of the variance between groups to that within
        weights = sizes / (1 + ratio * sizes)
        mean = float(weights @ means / weights.sum())
        variance = (within + float(weights @ np.square(means - mean))) / (n - 1)
        return mean, variance, weights

    def loss(log_ratio):
        ratio = np.exp(log_ratio)
        _, variance, weights = solve(ratio)
        return (n - 1) * log(variance) + np.log1p(ratio * sizes).sum() + log(weights.sum())

    inside = minimize_scalar(loss, bounds=(-12, 16), method="bounded", options={"xatol": 1e-8})
    ratio = float(np.exp(inside.x)) if inside.fun < loss(-np.inf) else 0.0
    mean, variance, weights = solve(ratio)
    return mean, variance / weights.sum(), ratio * variance, variance


def by_kind(values, kinds):
    """Arrays of networks, stacked for each kind."""
    return {
        kind: np.stack([each for each, of in zip(values, kinds, strict=True) if of == kind]) for kind in dict.fromkeys(kinds)
    }


def image_error(stacks, signs=None):
    """Standard deviation over bootstrap samples of the mean of the kinds' means, or of a weighted sum of them."""
    means = np.stack([each.mean(axis=0) for each in stacks])[:, 1:]
    weights = np.full(len(means), 1 / len(means)) if signs is None else np.asarray(signs)
    return float(np.std(weights @ means, ddof=1))


def mean_over_kinds(values, kinds):
    """The mean of the mixed model, with the errors of networks and of images."""
    stacks = list(by_kind(values, kinds).values())
    mean, variance, between, within = intercept([each[:, 0] for each in stacks])
    return Estimate(mean, image_error(stacks), sqrt(variance), len(stacks) - 1, sqrt(between), sqrt(within))


def difference(values, kinds, plus, minus):
    """Mean of the means of some kinds, minus that of others; one standard deviation within kinds, pooled over all kinds."""
    stacks = by_kind(values, kinds)
    freedom = sum(len(each) - 1 for each in stacks.values())
    within = sum(float(np.square(each[:, 0] - each[:, 0].mean()).sum()) for each in stacks.values()) / freedom
    signs = {kind: 1 / len(plus) for kind in plus} | {kind: -1 / len(minus) for kind in minus}
    chosen = [stacks[kind] for kind in signs]
    weights = np.array(list(signs.values()))
    value = float(weights @ [each[:, 0].mean() for each in chosen])
    networks = sqrt(sum(weight**2 * within / len(each) for weight, each in zip(weights, chosen, strict=True)))
    return Estimate(value, image_error(chosen, weights), networks, freedom, within=sqrt(within))


def mean_over_networks(values):
    """A plain mean over networks."""
    stack = np.stack(values)
    networks = float(np.std(stack[:, 0], ddof=1)) / sqrt(len(stack))
    return Estimate(float(stack[:, 0].mean()), image_error([stack]), networks, len(stack) - 1)


def holm(p_values):
    """Holm's corrected p-values by name."""
    found, largest = {}, 0.0
    for i, (name, p) in enumerate(sorted(p_values.items(), key=lambda each: each[1])):
        largest = max(largest, min(1.0, (len(p_values) - i) * p))
        found[name] = largest
    return {name: found[name] for name in p_values}


ROOT = Path(__file__).parents[2]
SEEDS = {"cifar10": 10, "cifar100": 100}  # of the bootstrap samples
INTERPOLATED = 0.995
NOT_PLAIN = ("smoothing", "mixup")
ALPHA = 0.05


def held(arrays, epoch, prefix=""):
    """The logits of an epoch."""
    logits = {part: arrays[f"{prefix}{part}_{epoch}"].astype(np.float32) for part in ("validation", "test")}
    labels = {f"{part}_labels": arrays[f"{part}_labels"].astype(np.int64) for part in ("validation", "test")}
    return Held(**logits, **labels)


def epochs_of(arrays):
    """The epochs at which test logits were kept, in order."""
    return sorted(int(key.removeprefix("test_")) for key in arrays if key.startswith("test_") and key != "test_labels")


def measure(about, arrays, resamples):
    """Everything about one network: arrays with bootstrap samples, and plain numbers."""
    epochs = epochs_of(arrays)
    last, labels = epochs[-1], arrays["test_labels"].astype(np.int64)
    values, numbers = scores(held(arrays, last), resamples)
    numbers["epochs"] = {}
    for epoch in epochs:
        test = arrays[f"test_{epoch}"].astype(np.float32)
        found, distances, log_beta = at_epoch(test, labels[: len(test)])
        trained = about["measured"][str(epoch)]
        numbers["epochs"][epoch] = found | {"training_accuracy": trained["accuracy"], "training_loss": trained["loss"]}
    values["left"] = left_by_ec(distances, log_beta, resamples.test)
    numbers["margins"] = profile(distances, log_beta)
    begun = [each for each in epochs if numbers["epochs"][each]["training_accuracy"] >= INTERPOLATED]
    numbers["interpolates"] = last in begun
    if begun and begun[0] < last:
        pair = [arrays[f"test_{each}"].astype(np.float32) for each in (begun[0], last)]
        n = len(pair[0])
        values |= growth(pair[0], pair[1][:n], labels[:n], resamples.test[:, :n])
        numbers["from"], numbers["to"] = begun[0], last
    if f"passes_test_{last}" in arrays:
        passes, _ = scores(held(arrays, last, "passes_"), resamples, others=())
        values |= {f"passes {key}": each for key, each in passes.items() if key.split()[-1] in ("none", "ts", "ec")}
    return values, numbers


def measured(name, content, resamples, folder):
    """The same, computed once."""
    path = folder / f"{name}.npz"
    if not path.exists():
        values, numbers = measure(*content, resamples)
        folder.mkdir(parents=True, exist_ok=True)
        np.savez(path, numbers=np.frombuffer(json.dumps(numbers).encode(), np.uint8), **values)
        print(f"{name}: T_EC {np.exp(values['log_ec'][0]):.3f}, T_TS {np.exp(values['log_ts'][0]):.3f}", flush=True)
    with np.load(path) as stored:
        values = {key: stored[key] for key in stored.files if key != "numbers"}
        return values, json.loads(stored["numbers"].tobytes())


def ensemble(members):
    """The log of the mean probability of some networks."""
    parts = {
        part: logsumexp([log_softmax(getattr(each, part).astype(np.float64), axis=1) for each in members], axis=0)
        for part in ("validation", "test")
    }
    return Held(parts["validation"], members[0].validation_labels, parts["test"], members[0].test_labels)


class Population:
    """All networks that were measured, without kinds of fewer than two."""

    def __init__(self, content, folder):
        some = {}
        for about, arrays in content.values():
            some.setdefault(about["dataset"], arrays)
        self.resamples = {
            each: Resamples(len(arrays["validation_labels"]), len(arrays["test_labels"]), SEEDS[each])
            for each, arrays in some.items()
        }
        kinds = [about["kind"] for about, _ in content.values()]
        self.content = {name: each for name, each in content.items() if kinds.count(each[0]["kind"]) >= 2}
        found = {name: measured(name, each, self.resamples[each[0]["dataset"]], folder) for name, each in self.content.items()}
        self.values = {name: each[0] for name, each in found.items()}
        self.numbers = {name: each[1] for name, each in found.items()}

    def kind(self, name):
        return self.content[name][0]["kind"]

    def plain(self):
        """Networks trained with plain labels."""
        return [name for name in self.values if not self.kind(name).endswith(NOT_PLAIN)]

    def differences(self, one, other, names=None):
        """A quantity minus another one, and the kinds."""
        chosen = [*self.values] if names is None else names
        return [self.values[name][one] - self.values[name][other] for name in chosen], [self.kind(name) for name in chosen]

    def mean(self, one, other, names=None):
        return mean_over_kinds(*self.differences(one, other, names))

    def left(self):
        """What EC leaves of the gap by margin, for networks of CIFAR-10, and the kinds."""
        names = [name for name in self.values if self.content[name][0]["dataset"] == "cifar10"]
        return [self.values[name]["left"] for name in names], [self.kind(name) for name in names]

    def by_interpolation(self):
        """Plain kinds of CIFAR-10 of which no network interpolates at the end, and those of which all do."""
        names = [name for name in self.plain() if self.content[name][0]["dataset"] == "cifar10"]
        each = {
            kind: [self.numbers[name]["interpolates"] for name in names if self.kind(name) == kind]
            for kind in map(self.kind, names)
        }
        return [kind for kind, found in each.items() if not any(found)], [kind for kind, found in each.items() if all(found)]


def hypotheses(population):
    """For each hypothesis, its estimate, what the estimate was compared with, and the p-value; None if it cannot be tested."""
    found = {}

    def test(name, estimate, compare, bound):
        p = {"below": estimate.below, "above": estimate.above, "within": estimate.within_margin}[compare](bound)
        found[name] = {"estimate": estimate, "compare": compare, "bound": bound, "p": p}

    plain = population.plain()
    ratios = [population.values[name]["log_ratio"] for name in plain]
    test("H1", mean_over_kinds(ratios, [population.kind(name) for name in plain]), "within", 0.05)
    left, kinds = population.left()
    for name, kind in {"H2a": "c10-smoothing", "H2b": "c10-mixup"}.items():
        if {kind, "c10-cosine"} <= set(kinds):
            test(name, difference(left, kinds, [kind], ["c10-cosine"]), "above", 0.0)
    test("H3a", population.mean("ece adaptive", "ece ts"), "below", 0.1)
    test("H3b", population.mean("ece adaptive, few", "ece ec, few"), "below", 0.0)
    test("H4a", population.mean("nll best", "nll ts, same map"), "below", 0.0)
    test("H4b", population.mean("ece best", "ece ts, same map"), "below", 0.2)
    test("H5a", population.mean("ece vector+ec", "ece vector"), "below", 0.0)
    test("H5b", population.mean("nll vector+ec", "nll vector"), "below", 0.002)
    grown = [name for name in plain if "growth of T" in population.values[name]]
    if len(grown) >= 2:
        rise = mean_over_networks([population.values[name]["growth of T"] for name in grown])
        test("H6a", rise, "above", 0.0)
        apart = mean_over_networks([population.values[name]["growth apart"] for name in grown])
        test("H6b", apart, "within", 0.25 * abs(rise.value))
        test("H6c", mean_over_networks([population.values[name]["r2"] for name in grown]), "above", 0.9)
    without, interpolating = population.by_interpolation()
    if len(grown) >= 2 and without and interpolating:
        test("H7", difference(left, kinds, without, interpolating), "above", 0.0)
    bayes(population, test)
    corrected = holm({name: each["p"] for name, each in found.items()})
    for name, each in found.items():
        each["holm"] = corrected[name]
    return found


def bayes(population, test):
    """H8: temperature scaling against an ensemble and against dropout."""
    members = [name for name in population.values if population.kind(name) == "c10-cosine"]
    if members:
        single = np.stack([population.values[name]["ece ts"] for name in members])
        apart = single.mean(axis=0) - ensemble_scores(population)["ece none"]
        error = float(np.std(single[:, 0], ddof=1)) / len(members) ** 0.5
        test("H8a", Estimate(float(apart[0]), float(np.std(apart[1:], ddof=1)), error, len(members) - 1), "below", 0.5)
    dropping = [name for name in population.values if population.kind(name) == "c10-dropout"]
    if dropping:
        apart, _ = population.differences("ece ts", "passes ece none", dropping)
        test("H8b", mean_over_networks(apart), "below", 0.5)


def ensemble_scores(population):
    """Scores of the ensemble of the networks of c10-cosine."""
    members = [each for name, each in population.content.items() if population.kind(name) == "c10-cosine"]
    last = epochs_of(members[0][1])[-1]
    return scores(ensemble([held(arrays, last) for _, arrays in members]), population.resamples["cifar10"], others=())[0]


def kind_numbers(population):
    """Means over the networks of each kind."""
    found = {}
    for kind in dict.fromkeys(map(population.kind, population.values)):
        names = [name for name in population.values if population.kind(name) == kind]
        rows, numbers = [population.values[name] for name in names], [population.numbers[name] for name in names]
        keys = [key for key in rows[0] if all(key in row for row in rows)]
        stacks = {key: np.stack([row[key] for row in rows]) for key in keys}
        found[kind] = {
            "networks": len(names),
            "values": {
                key: {
                    "mean": float(each[:, 0].mean()),
                    "sd": float(np.std(each[:, 0], ddof=1)),
                    "error_of_images": float(np.std(each[:, 1:].mean(axis=0), ddof=1)),
                }
                for key, each in stacks.items()
            },
            "error": float(np.mean([each["error"] for each in numbers])),
            "classes": float(np.mean([each["classes"] for each in numbers])),
            "chosen": [each["chosen"] for each in numbers],
            "epochs": {
                epoch: {
                    key: float(np.mean([each["epochs"][epoch][key] for each in numbers])) for key in numbers[0]["epochs"][epoch]
                }
                for epoch in numbers[0]["epochs"]
            },
            "margins": [
                {key: float(np.mean([each["margins"][i][key] for each in numbers])) for key in ("margin", "gap", "gap_se")}
                for i in range(len(numbers[0]["margins"]))
            ],
            "growth": [
                {"network": name, "from": each["from"], "to": each["to"]}
                | {key: float(row[key][0]) for key in ("growth of T", "growth of scale", "r2")}
                for name, row, each in zip(names, rows, numbers, strict=True)
                if "from" in each
            ],
        }
    return found


def results(population, declared):
    """All numbers, as plain JSON."""
    tests = hypotheses(population)
    shown = {}
    for each in declared["hypotheses"]:
        found = tests.get(each["id"])
        shown[each["id"]] = (
            {"says": each["says"], "verdict": "not tested"}
            if found is None
            else {
                "says": each["says"],
                "estimate": found["estimate"].numbers(),
                "compare": found["compare"],
                "bound": found["bound"],
                "p": found["p"],
                "holm": found["holm"],
                "verdict": "supported" if found["holm"] < ALPHA else "not supported",
            }
        )
    means = {
        "log_ratio": mean_over_kinds(
            [each["log_ratio"] for each in population.values.values()], [*map(population.kind, population.values)]
        )
    }
    means |= {f"{what} of EC − TS": population.mean(f"{what} ec", f"{what} ts") for what in ("ece", "nll")}
    means |= {
        f"{what} of {name} − TS": population.mean(f"{what} {name}", f"{what} ts, same map")
        for name in OTHERS
        for what in ("ece", "nll")
    }
    means |= {f"{what} of adaptive − TS": population.mean(f"{what} adaptive", f"{what} ts") for what in ("ece", "nll")}
    found = {
        "networks": {
            name: {"training": about["recipe"], "seed": about["seed"]} for name, (about, _) in population.content.items()
        },
        "hypotheses": shown,
        "means": {name: each.numbers() for name, each in means.items()},
        "kinds": kind_numbers(population),
        "formula": max(
            (abs(last["first_order"] - last["difference"]), name)
            for name, each in population.numbers.items()
            for last in [[*each["epochs"].values()][-1]]
        ),
    }
    if "estimate" in shown["H6a"]:
        found["growth"] = growth_over_kinds(found["kinds"], shown["H6a"]["estimate"]["error_of_images"])
    if any(population.kind(name) == "c10-cosine" for name in population.values):
        found["ensemble"] = {
            key: {"value": float(each[0]), "error_of_images": float(np.std(each[1:], ddof=1))}
            for key, each in ensemble_scores(population).items()
            if key.split()[-1] in ("none", "ts", "ec")
        }
    return rounded(found)


def growth_over_kinds(kinds, error_of_images):
    """The growth of log T after interpolation with kinds as the unit, and how it follows the growth of the logits.

    Seeds of a kind grow alike, so that the networks of a kind are little more than one observation. ``error_of_images`` is
    that of the mean over networks. None with fewer than three kinds of which networks interpolate before their last epoch.
    """
    groups = [each["growth"] for each in kinds.values() if each["growth"]]
    if len(groups) < 3:
        return None
    T, scale = (
        np.array([np.mean([row[key] for row in group]) for group in groups]) for key in ("growth of T", "growth of scale")
    )
    estimate = Estimate(float(T.mean()), error_of_images, float(T.std(ddof=1)) / len(T) ** 0.5, len(T) - 1)
    follows = {"correlation": float(np.corrcoef(T, scale)[0, 1]), "slope": float(np.polyfit(scale, T, 1)[0])}
    return {"kinds": len(T)} | estimate.numbers() | follows


def rounded(tree):
    """The same with numbers of five digits."""
    if isinstance(tree, dict):
        return {str(key): rounded(each) for key, each in tree.items()}
    if isinstance(tree, list | tuple):
        return [rounded(each) for each in tree]
    return float(f"{tree:.5g}") if isinstance(tree, float) else tree


def main():
    """Read the packs, measure, and write numbers and page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packs", type=Path)
    parser.add_argument("--page", type=Path, default=ROOT / "bench" / "results" / "population.md")
    parser.add_argument("--numbers", type=Path, default=ROOT / "paper" / "population_results.json")
    chosen = parser.parse_args()
    folder = chosen.packs.with_name(f"{chosen.packs.name}-measured")
    declared = declaration()
    networks, order = read(chosen.packs), [kind["name"] for kind in declared["kinds"]]
    content = {name: each for kind in order for name, each in sorted(networks.items()) if each[0]["kind"] == kind}
    found = results(Population(content, folder), declared)
    chosen.numbers.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    chosen.page.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
