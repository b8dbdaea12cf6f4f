"""Statements of Section 4 on its figures: ECE against temperature, reliability diagrams, the size of the training set."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._measured import network, scores
from nishimori_paper._names import resnet20_on
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._figure_curves import FigureCurves
from nishimori_paper.artefacts._statements._chance import (
    TWO_SIDED,
    any_beyond,
    any_equivalence_fails,
    beyond,
    either,
    equivalence_fails,
    in_words,
    rank_correlation_above,
)
from nishimori_paper.artefacts._statements._minimum import distance, minima, minimum_pieces, titles
from nishimori_paper.artefacts._statements._networks import SIMILAR, allowed, difference, lead
from nishimori_paper.artefacts._statements._precision import precision_pieces, precisions
from nishimori_paper.artefacts._statements._resamples import column, farther_limit, pooled, resampled_differences
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement

# Further from the T of the least ECE is not close to it.
_CLOSE = 0.1
# Diagrams that differ by fewer points are indistinguishable.
_INDISTINGUISHABLE = 2.0
# A rank correlation above this is growth.
_GROWS = 0.8
_RESNET20 = "cifar10/resnet20-authors"


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    fractions = printed()["figure-train-size"]["fraction"]
    return {
        **{f"curves {name}": work for name, work in FigureCurves().pieces(scale).items()},
        **{f"fraction {fraction:g}": partial(_fraction, fraction, scale) for fraction in fractions},
        **precision_pieces(scale),
        **minimum_pieces(scale),
    }


def _fraction(fraction: float, scale: Scale) -> dict[str, Any]:
    name = str(resnet20_on(fraction))
    loaded = network(name, scale)
    row = scores(loaded.validation, loaded.test)
    return {**row, "draws": resampled_differences(name, loaded, row, scale)}


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    dense, paper = done["curves cifar10/densenet121"], printed()["figure-curves"]
    rows = [value for key, value in done.items() if key.startswith("fraction ")]
    size = printed()["figure-train-size"]
    theirs = [{key: size[key][i] for key in ("temperature_ts", "temperature_ec")} for i in range(len(size["fraction"]))]
    return {
        **_minimum(minima(done)),
        **_distances(paper, (paper["least_ece_temperature"], paper["least_ece"])),
        **_diagrams(done),
        "validation_accuracy": dense["accuracy"],
        "test_accuracy": 1 - dense["clean"]["error"],
        "validation_accuracy_paper": paper["accuracy"],
        "test_accuracy_paper": 1 - printed()["statements"]["figure_curves_error"],
        "n_steps": len(rows) - 1,
        "n_grows": _n_grows([1 - row["error"] for row in rows]),
        "rank_correlation": _rank_correlation([1 - row["error"] for row in rows]),
        "rank_correlation_paper": _rank_correlation(size["accuracy"]),
        "rank_by_chance": in_words(rank_correlation_above(_GROWS, len(rows))),
        **_sizes(done, rows, own_limit=max(difference(row) for row in theirs)),
        "size_ece_apart_paper": max(abs(ts - ec) for ts, ec in zip(size["ece_ts"], size["ece_ec"], strict=True)),
    }


def _sizes(done: Pieces, rows: Sequence[Mapping[str, Any]], *, own_limit: float) -> dict[str, Any]:
    """How far apart the methods are at each size of the training set, in temperature and in ECE.

    ``own_limit`` is the largest relative difference of the temperatures in the paper's own figure.
    """
    of_sizes = [precisions(done)[str(resnet20_on(fraction))] for fraction in printed()["figure-train-size"]["fraction"]]
    farthest = max(of_sizes, key=lambda row: row["difference"])
    errors = [row["difference_error"] for row in of_sizes]
    ece = pooled([100 * lead(row) for row in rows], [[100 * x for x in draws] for draws in column(rows, "lead")])
    limit = 100 * float(np.mean([allowed(row, "ece") for row in rows]))
    fails = either(any_equivalence_fails(SIMILAR, errors), equivalence_fails(limit, ece["error"]))
    return {
        "size_apart": farthest["difference"],
        "size_apart_error": farthest["difference_error"],
        "size_limit": max(row["difference"] + TWO_SIDED * row["difference_error"] for row in of_sizes),
        "size_ece": ece["mean"],
        "size_ece_error": ece["error"],
        "size_ece_limit": farther_limit(ece),
        "size_ece_apart": max(abs(lead(row)) for row in rows),
        "size_ece_allowed": limit,
        "size_fails": in_words(fails),
        "own_limit_fails": any_beyond(own_limit, errors),
        "size_apart_paper": own_limit,
    }


def _minimum(curves: Mapping[str, Any]) -> dict[str, Any]:
    """On how many networks one of the two temperatures is close to the temperature with the lowest ECE."""
    off = {name: distance(curve, "clean") for name, curve in curves.items()}
    augmented = [distance(curve, "augmented") for curve in curves.values() if "augmented" in curve]
    return {
        "n_minima": len(off),
        "n_close": sum(distance_off <= _CLOSE for distance_off in off.values()),
        "not_close": titles([name for name, distance_off in off.items() if distance_off > _CLOSE]),
        "off_median": float(np.median(list(off.values()))),
        "n_augmented": len(augmented),
        "n_close_augmented": sum(distance_off <= _CLOSE for distance_off in augmented),
        "off_augmented_low": min(augmented),
        "off_augmented_high": max(augmented),
        "n_missed_by_chance": sum(beyond(_CLOSE, curve["error"]) for curve in curves.values()),
        "n_missed_augmented": sum(beyond(_CLOSE, curve["error"]) for curve in curves.values() if "augmented" in curve),
    }


def _distances(chosen: Mapping[str, float], least: Sequence[float]) -> dict[str, float]:
    """How far the nearer of the two temperatures of the paper is from the smallest ECE, in T and in points of ECE."""
    temperature, ece = least
    return {
        "off_paper": min(abs(chosen[f"temperature_{method}"] - temperature) for method in ("ts", "ec")),
        "excess_paper": 100 * (min(chosen[f"ece_{method}"] for method in ("ts", "ec")) - ece),
    }


def _diagrams(done: Pieces) -> dict[str, Any]:
    """How far apart the two diagrams are, and how probable it is that they are too far apart for the same T."""
    points, precise = _diagrams_apart(done[f"curves {_RESNET20}"]["reliability"]), precisions(done)[_RESNET20]
    # Diagrams move in proportion to the difference of the temperatures.
    too_far = _INDISTINGUISHABLE / points * precise["difference"]
    return {"diagrams_apart": points, "diagrams_fail": in_words(beyond(too_far, precise["difference_error"]))}


def _diagrams_apart(bins: Sequence[Mapping[str, Any]]) -> float:
    """The largest vertical distance between the diagrams after TS and after EC, in points."""
    lines = [np.array([(row["confidence"], row["accuracy"]) for row in bins if row["when"] == when]).T for when in ("TS", "EC")]
    grid = np.linspace(max(line[0, 0] for line in lines), min(line[0, -1] for line in lines), 201)
    ts, ec = (np.interp(grid, *line) for line in lines)
    return 100 * float(np.abs(ts - ec).max())


def _n_grows(accuracies: Sequence[float]) -> int:
    return int((np.diff(accuracies) > 0).sum())


def _rank_correlation(values: Sequence[float]) -> float:
    """Spearman's correlation of the values with their order."""
    ranks = np.argsort(np.argsort(values))
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])


STATEMENTS = (
    Statement(
        "accuracy of the first figure",
        "3, first figure",
        "The dark dashed line is the accuracy for the validation set",
        "the network of the figure has this accuracy on images that it was not trained on",
        "our DenseNet121: {validation_accuracy:.1%} on validation images, {test_accuracy:.1%} on test images",
        None,
        "the network is needed",
        paper_data="{validation_accuracy_paper:.1%} on validation images; the figure's ECE for T → 0 means about "
        "{test_accuracy_paper:.1%} on test images",
    ),
    Statement(
        "TS and EC in the reliability diagram",
        "3, first figure",
        "The reliability diagram after EC is indistinguishable from the one of TS",
        "the two curves differ by less than 2 points everywhere (authors' ResNet20)",
        "by at most {diagrams_apart:.1f} points",
        lambda n: n["diagrams_apart"] < _INDISTINGUISHABLE,
        chance="fails with probability {diagrams_fail} if T_EC = T_TS for infinitely many images",
    ),
    Statement(
        "accuracy grows with the training set",
        "4",
        "the accuracy of the model increases with the amount of training data",
        "Spearman's correlation of accuracy and size is above 0.8; with one training per size, single steps may fall",
        "correlation {rank_correlation:.2f}, rising in {n_grows} of {n_steps} steps",
        lambda n: n["rank_correlation"] > _GROWS,
        paper_data="correlation {rank_correlation_paper:.2f}",
        paper_holds=lambda n: n["rank_correlation_paper"] > _GROWS,
        chance="passes with probability {rank_by_chance} if the accuracies are in random order",
    ),
    Statement(
        "similarity at every training size",
        "4",
        "the temperatures and ECE obtained from both methods are extremely similar, independently of the accuracy of the model",
        "both measures are: at each size the 95 % interval of |T_TS − T_EC| / T_TS is below 10 %, and that of the mean of "
        "ECE_TS − ECE_EC over the sizes is within a tenth of what TS takes from the ECE, {size_ece_allowed:.2f} points",
        "temperatures differ by at most {size_apart:.1%} ± {size_apart_error:.1%} (largest upper limit {size_limit:.1%}), "
        "ECEs by {size_ece:+.2f} ± {size_ece_error:.2f} points on average and {size_ece_apart:.2%} at most",
        lambda n: n["size_limit"] < SIMILAR and n["size_ece_limit"] < n["size_ece_allowed"],
        paper_data="at most {size_apart_paper:.1%}; ECEs within {size_ece_apart_paper:.2%}",
        paper_holds=lambda n: n["size_apart_paper"] < SIMILAR,
        chance="fails with probability {size_fails} if T_EC = T_TS for infinitely many images. The differences of the paper's "
        "own figure as limits would fail with probability {own_limit_fails:.2f} even then",
    ),
    Statement(
        "minimum of the ECE",
        "4",
        "neither T_TS nor T_EC is close to the minimum of ECE",
        "on most networks both are more than 0.1 away from the T with the smallest test ECE",
        "with clean validation images the nearer one is within 0.1 on {n_close} of {n_minima} networks (not on {not_close}), "
        "in the median {off_median:.2f} away; with augmented ones on {n_close_augmented} of {n_augmented}, "
        "{off_augmented_low:.2f} to {off_augmented_high:.2f} away",
        lambda n: n["n_close"] < n["n_minima"] / 2,
        "with augmented validation images, as in the CIFAR-10 rows of Table 1; with clean ones it is contradicted",
        lambda n: n["n_close_augmented"] < n["n_augmented"] / 2,
        paper_data="{off_paper:.2f} away in T and {excess_paper:.2f} points in ECE",
        paper_holds=lambda n: n["off_paper"] > _CLOSE,
        chance="if T_EC were that T for infinitely many images, {n_missed_by_chance:.1f} of {n_minima} networks would be "
        "expected to miss it by more than 0.1, {n_missed_augmented:.1f} of the {n_augmented} with augmented images",
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
