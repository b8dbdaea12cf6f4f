"""Situations in which people calibrate, and what calibration changes in each: means over networks and cells of the study."""

from dataclasses import dataclass, replace

import numpy as np

from shift_conditions import CLEAN, CONDITIONS, NOISES, RATES, SEVERITIES, VARIANTS
from shift_measures import COLUMNS, MEASURES, METHODS, PLACES, SHARES, SOURCES

LITTLE = (0.05, 0.1)
MUCH = (0.2, 0.3, 0.4)
CORRUPTED = tuple(each for each in CONDITIONS if each != CLEAN)


@dataclass(frozen=True)
class Situation:
    """What validation and test data look like.

    Attributes
    ----------
    validation, test : str
        In words, for a table.
    conditions : tuple of str
        Of the test images.
    source : str
        The images that T is fitted to, one of `SOURCES`, or "corrupted" for corrupted ones with clean test images.
    place : str
        Which labels have noise: one of `PLACES`, or "none".
    rates : tuple of float
        Of the noise.
    """

    validation: str
    test: str
    conditions: tuple
    source: str
    place: str = "none"
    rates: tuple = ()

    def cells(self, scores):
        """Scores of shape (measures, cells, splits, columns): a cell is a corruption with a kind and a rate of noise."""
        conditions = [CONDITIONS.index(each) for each in self.conditions]
        if self.source == "corrupted":
            return scores.unshifted[:, [CONDITIONS.index(each) for each in CORRUPTED]]
        variants = [i for i, (_, rate) in enumerate(VARIANTS) if (rate in self.rates if self.rates else i == 0)]
        place = 0 if self.place == "none" else PLACES.index(self.place)
        found = scores.shifted[:, :, :, SOURCES.index(self.source), place][:, conditions][:, :, :, variants]
        found = np.moveaxis(found, 3, 2)  # (measures, conditions, variants, splits, columns)
        return found.reshape(len(MEASURES), -1, *found.shape[3:])


def percent(rates):
    """A range of rates in words."""
    return f"{100 * rates[0]:.0f}–{100 * rates[-1]:.0f} %"


def situations():
    """By name, the situations in the order of the table."""
    found = {"nothing": Situation("clean", "clean", (CLEAN,), "clean")}
    for name, rates in (("little", LITTLE), ("much", MUCH)):
        wrong = f"{percent(rates)} wrong labels"
        found[f"validation noise, {name}"] = Situation(wrong, "clean", (CLEAN,), "clean", "validation", rates)
    for name, rates in (("little", LITTLE), ("much", MUCH)):
        wrong = f"{percent(rates)} wrong labels"
        found[f"test noise, {name}"] = Situation("clean", wrong, (CLEAN,), "clean", "test", rates)
    for name, rates in (("little", LITTLE), ("much", MUCH)):
        wrong = f"{percent(rates)} wrong labels"
        found[f"noise in both, {name}"] = Situation(wrong, "the same noise", (CLEAN,), "clean", "both", rates)
    found["test corrupted"] = Situation("clean", "corrupted images", CORRUPTED, "clean")
    found["both corrupted"] = Situation("the same corruption", "corrupted images", CORRUPTED, "matching")
    found["mixture"] = Situation("a mixture of other corruptions", "corrupted images", CORRUPTED, "mixed")
    found["validation corrupted"] = Situation("corrupted images", "clean", (CLEAN,), "corrupted")
    found["mixture, test clean"] = Situation("a mixture of corruptions", "clean", (CLEAN,), "mixed")
    for source, words in (
        ("clean", "clean images"),
        ("matching", "the same corruption"),
        ("mixed", "a mixture of other corruptions"),
    ):
        for name, rates in (("little", LITTLE), ("much", MUCH)):
            wrong = f"{words}, {percent(rates)} wrong labels"
            found[f"{source} with noise, {name}"] = Situation(wrong, "corrupted images", CORRUPTED, source, "validation", rates)
    return found


def summary(networks, situation):
    """Means over networks and cells, and how often a method is worse than no calibration.

    A cell counts as worse if the mean difference over splits exceeds its standard deviation over splits, which is about the
    standard error for one validation and one test set of this size. The standard error of a mean is that of the splits and
    that of the networks, taken together.
    """
    of_networks = [situation.cells(each) for each in networks]
    none, oracle = COLUMNS.index("none"), COLUMNS.index("oracle")
    found = {"cells": sum(each.shape[1] for each in of_networks), "none": {}, "oracle": {}}
    for column in ("none", "oracle"):
        for i, measure in enumerate(MEASURES):
            found[column][measure] = float(np.mean([each[i, ..., COLUMNS.index(column)].mean() for each in of_networks]))
    for j, method in enumerate(METHODS):
        row = {}
        for i, measure in enumerate(MEASURES):
            changes = [each[i, ..., j] - each[i, ..., none] for each in of_networks]
            regrets = [each[i, ..., j] - each[i, ..., oracle] for each in of_networks]
            worse = np.concatenate([each.mean(axis=1) > each.std(axis=1, ddof=1) for each in changes])
            better = np.concatenate([each.mean(axis=1) < -each.std(axis=1, ddof=1) for each in changes])
            row[measure] = {
                "mean": float(np.mean([each[i, ..., j].mean() for each in of_networks])),
                "change": float(np.mean([each.mean() for each in changes])),
                "se": standard_error([each.mean(axis=0) for each in changes]),
                "regret": float(np.mean([each.mean() for each in regrets])),
                "worse": float(worse.mean()),
                "better": float(better.mean()),
            }
        found[method] = row
    pairs = [each[1, ..., METHODS.index("ec")] - each[1, ..., METHODS.index("ts")] for each in of_networks]
    lower = np.concatenate([each.mean(axis=1) < -each.std(axis=1, ddof=1) for each in pairs])
    higher = np.concatenate([each.mean(axis=1) > each.std(axis=1, ddof=1) for each in pairs])
    found["ec − ts"] = {
        "change": float(np.mean([each.mean() for each in pairs])),
        "se": standard_error([each.mean(axis=0) for each in pairs]),
        "lower": float(lower.mean()),
        "higher": float(higher.mean()),
    }
    return found


def counts(networks, situation):
    """In how many cells calibration is better and worse than none, for each rate of the noise; as in `summary`."""
    found = {}
    for rate in situation.rates:
        of_networks = [replace(situation, rates=(rate,)).cells(each) for each in networks]
        cells = np.concatenate(of_networks, axis=1)  # (measures, cells, splits, columns)
        change = cells[..., : len(METHODS)] - cells[..., [COLUMNS.index("none")]]
        mean, deviation = change.mean(axis=2), change.std(axis=2, ddof=1)
        found[f"{rate:g}"] = {"cells": cells.shape[1]} | {
            method: {
                measure: {"worse": int((mean > deviation)[i, :, j].sum()), "better": int((mean < -deviation)[i, :, j].sum())}
                for i, measure in enumerate(MEASURES)
                if measure != "gap"
            }
            for j, method in enumerate(METHODS)
        }
    return found


def standard_error(rows):
    """The standard error of a mean over networks, from one row of splits per network: of splits and networks together."""
    rows = np.array(rows)
    of_splits = rows.mean(axis=0).std(ddof=1)
    of_networks = rows.mean(axis=1).std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else 0.0
    return float(np.hypot(of_splits, of_networks))


def curves(networks):
    """Mean ECE and its standard error for the picture: by rate of each noise, and by severity for each source of T."""
    by_rate = {}
    for noise in NOISES:
        by_rate[noise] = {}
        for rate in (0.0, *RATES):
            variant = 0 if rate == 0 else VARIANTS.index((noise, rate))
            rows = [each.shifted[1, 0, :, 0, PLACES.index("validation"), variant] for each in networks]
            by_rate[noise][f"{rate:g}"] = columns(rows)
    by_severity = {}
    for source in (*SOURCES, "corrupted"):
        by_severity[source] = {}
        for severity in (0, *SEVERITIES):
            chosen = [
                i for i, each in enumerate(CONDITIONS) if each.endswith(f" {severity}") or (each == CLEAN and not severity)
            ]
            rows = [
                (each.unshifted[1] if source == "corrupted" else each.shifted[1, :, :, SOURCES.index(source), 0, 0])[
                    chosen
                ].mean(axis=0)
                for each in networks
            ]
            by_severity[source][f"{severity}"] = columns(rows)
    return {"by_rate": by_rate, "by_severity": by_severity}


def columns(rows):
    """Mean and standard error of each column; ``rows`` has an array of shape (splits, columns) for each network."""
    rows = np.array(rows)
    return {name: {"mean": float(rows[..., j].mean()), "se": standard_error(rows[..., j])} for j, name in enumerate(COLUMNS)}


def break_even(networks):
    """For each network, noise and method, the share of wrong validation labels that makes calibration as bad as none.

    ``networks`` has, by name, the scores of `measure_shares` and the share of wrong predictions. The share is where the mean
    score over splits is that of no calibration, interpolated between shares; 0 if calibration does not pay without noise, and
    the largest share if it always does. Its standard deviation is that of the shares of single splits, which is about the
    standard error for one validation and one test set of this size. A rule of thumb stands beside them: EC sets confidence to
    the noisy accuracy, so that it is off by what the noise takes from the accuracy, and without calibration confidence is off
    by the gap.
    """
    none = COLUMNS.index("none")
    found = {}
    for name, (scores, error) in networks.items():
        found[name] = {"rule": rule_of_thumb(scores[MEASURES.index("gap"), ..., none].mean() / 100, error)}
        for i, noise in enumerate(NOISES):
            changes = scores[:, :, i, :, : len(METHODS)] - scores[:, :, i][..., [none]]  # (measures, splits, shares, methods)
            found[name][noise] = {
                method: {measure: break_even_share(changes[MEASURES.index(measure), ..., j]) for measure in ("ece", "nll")}
                for j, method in enumerate(METHODS)
            }
    return found


def break_even_share(changes):
    """Where the mean change over splits becomes positive, and the standard deviation over splits."""
    each = [crossing(SHARES, row) for row in changes]
    return {"share": crossing(SHARES, changes.mean(axis=0)), "sd": float(np.std(each, ddof=1))}


def rule_of_thumb(gap, error, n_classes=10):
    """The rate of uniform noise that takes as much from the accuracy as clean test images have of overconfidence."""
    return float(gap / (1 - error - error / (n_classes - 1)))


def crossing(rates, changes):
    """Where the changes become positive for the first time."""
    above = np.flatnonzero(np.asarray(changes) > 0)
    if not len(above):
        return float(rates[-1])
    if above[0] == 0:
        return 0.0
    low, high = above[0] - 1, above[0]
    return float(np.interp(0.0, [changes[low], changes[high]], [rates[low], rates[high]]))


def by_network(networks, names):
    """For each network: errors, temperatures, and the paper's noise in the validation labels only."""
    found = {}
    paper = VARIANTS.index(("classes", 0.1))
    for name, scores in zip(names, networks, strict=True):
        ece = scores.shifted[1, 0, :, 0, PLACES.index("validation")]
        found[name] = {
            "error": dict(zip(CONDITIONS, (100 * scores.errors).tolist(), strict=True)),
            "temperature": {
                label: dict(zip(METHODS, np.exp(np.nanmean(scores.logs[0, :, 0, variant], axis=0)).tolist(), strict=True))
                for label, variant in (("clean", 0), ("paper's noise", paper))
            },
            "ece": {
                label: {
                    column: {"mean": float(values[:, j].mean()), "sd": float(values[:, j].std(ddof=1))}
                    for j, column in enumerate(COLUMNS)
                }
                for label, values in (("clean", ece[:, 0]), ("paper's noise", ece[:, paper]))
            },
        }
    return found


def by_condition(networks):
    """For each corruption: mean ECE over networks without calibration and after EC and TS, by source of T."""
    found = {}
    for i, condition in enumerate(CONDITIONS):
        found[condition] = {"error": float(100 * np.mean([each.errors[i] for each in networks]))}
        for j, source in enumerate(SOURCES):
            found[condition][source] = columns([each.shifted[1, i, :, j, 0, 0] for each in networks])
    return found
