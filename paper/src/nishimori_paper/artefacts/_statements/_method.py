"""Statements of Sections 2 and 3: the metrics, and the two ways to choose a temperature."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import log_softmax

from nishimori import metrics
from nishimori._fit.temperatures import temperatures_of
from nishimori._rows.entry import open_rows
from nishimori.data import Labelled
from nishimori.errors import FewErrorsWarning, NoTemperatureError
from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._measured import network
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._rows import COLUMNS
from nishimori_paper.artefacts._statements._chance import in_words
from nishimori_paper.artefacts._statements._precision import precision_pieces, precisions
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement
from nishimori_paper.methods import LiteralTopN

_RESNET20 = "cifar10/resnet20-authors"
# Its classes are not equally frequent, so that even a constant prediction has something to gain.
_UNBALANCED = "svhn/resnet20-authors"


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    works = {"one network": _one_network, "all right or all wrong": _one_sided, "constant prediction": _constant}
    return {**precision_pieces(scale), **{name: partial(work, scale) for name, work in works.items()}}


def _one_network(scale: Scale) -> dict[str, Any]:
    loaded = network(_RESNET20, scale)
    validation = loaded.validation
    logits, labels = validation.logits, validation.labels
    top_n = [metrics.top_n_accuracy(logits, labels, top_n=n) for n in range(1, logits.shape[1] + 1)]
    augmented = validation if loaded.augmented is None else loaded.augmented
    log_p = log_softmax(np.asarray(logits, dtype=np.float64), axis=1)
    return {
        "ec_validation": _ec(validation),
        "ec_augmented": _ec(augmented),
        "ec_test": _ec(loaded.test),
        "loss": metrics.nll(logits, labels),
        "log_likelihood": float(np.take_along_axis(log_p, labels[:, None], axis=1).mean()),
        "n_validation": len(labels),
        "literal": [_literal(validation, n) for n in range(1, logits.shape[1] + 1)],
        "confidence": {f"{T:g}": metrics.confidence(logits, labels, temperature=T) for T in (0.5, 1.0, 2.0)},
        "accuracy": metrics.accuracy(logits, labels),
        "top_n": top_n,
    }


def _ec(sample: Labelled) -> float | None:
    return temperatures_of(open_rows(sample.logits, sample.labels), warn=False).ec


def _literal(sample: Labelled, top_n: int) -> float | None:
    """The temperature at which mean confidence is the top-N accuracy, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FewErrorsWarning)  # for large N, few labels are not among the N largest classes
        try:
            return LiteralTopN(top_n).fit(sample.logits, sample.labels).temperature_
        except NoTemperatureError:
            return None


def _one_sided(scale: Scale) -> list[str | None]:
    """Why the samples that the network classifies correctly have no T_EC, and why the others have none; None if they have."""
    validation = network(_RESNET20, scale).validation
    right = validation.logits.argmax(axis=1) == validation.labels
    numbers = (
        temperatures_of(open_rows(validation.logits[rows], validation.labels[rows]), warn=False).ec_error
        for rows in (right, ~right)
    )
    return [error.end if isinstance(error, NoTemperatureError) else None for error in numbers]


def _constant(scale: Scale) -> dict[str, float]:
    """Metrics of the prediction P(y = k) for every sample, and the error of a network."""
    test = network(_UNBALANCED, scale).test
    frequency = np.bincount(test.labels, minlength=test.logits.shape[1]) / len(test.labels)
    constant = np.tile(np.log(frequency), (len(test.labels), 1))
    return {
        "ece": metrics.ece(constant, test.labels, strategy="quantile"),
        "error": metrics.error(constant, test.labels),
        "network_error": metrics.error(test.logits, test.labels),
    }


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    one, constant = done["one network"], done["constant prediction"]
    rows = list(precisions(done).values())
    *_, last_but_one, _ = one["top_n"]
    return {
        "ece_constant": constant["ece"],
        "error_constant": constant["error"],
        "error_network": constant["network_error"],
        "first_line": one["loss"],
        "second_line": one["log_likelihood"],
        "colder": one["confidence"]["0.5"],
        "as_trained": one["confidence"]["1"],
        "hotter": one["confidence"]["2"],
        "accuracy": one["accuracy"],
        "ec_validation": one["ec_validation"],
        "ec_augmented": one["ec_augmented"],
        "ec_paper": printed()["table-real"]["rows"]["cifar10/resnet20"][COLUMNS.index("temperature_ec")],
        "ec_test": one["ec_test"],
        "n_networks": len(rows),
        "n_falling": sum(_falls(row["confidence"]) for row in rows),
        "n_crossing": sum(row["confidence"][-1] < row["accuracy"] < row["confidence"][0] for row in rows),
        "n_without": sum(end is not None for end in done["all right or all wrong"]),
        "coldest": min(row["confidence"][0] for row in rows),
        "off_chance": max(abs(row["confidence"][-1] * row["n_classes"] - 1) for row in rows),
        "hottest": max(row["confidence"][-1] for row in rows),
        "n_classes": len(one["top_n"]),
        "n_solvable": sum(1 / len(one["top_n"]) < share < 1 for share in one["top_n"]),
        "n_literal": sum(T is not None for T in one["literal"]),
        "literal_2": one["literal"][1],
        "none_by_chance": in_words(last_but_one ** one["n_validation"]),
    }


def _falls(values: list[float]) -> bool:
    return all(later < earlier for earlier, later in pairwise(values))


STATEMENTS = (
    Statement(
        "constant prediction",
        "2",
        "the estimator defined as f(x, k) = P(y = k) has 0 ECE but [...] has suboptimal test error",
        "ECE below 1e-9, error above that of a network; the class frequencies of SVHN for P(y = k)",
        "ECE zero up to rounding, error {error_constant:.1%}; ResNet20 has {error_network:.1%}",
        lambda n: n["ece_constant"] < 1e-9 and n["error_constant"] > n["error_network"],
    ),
    Statement(
        "sign of the loss",
        "2",
        "ℓ(f(x), y) = −log f(x, y) = Σ_k δ(y = k) log σ^(k)(Wφ(x))",
        "both sides are equal (authors' ResNet20, mean over validation images)",
        "{first_line:.3f} on the left, {second_line:.3f} on the right: a minus is missing. With the ℓ on the left, the TS "
        "objective arg min(−Σℓ) of Section 3 also has the wrong sign",
        lambda n: n["first_line"] == n["second_line"],
        "a minus before the sum is meant; with it both sides are equal",
        slip_if=lambda n: abs(n["first_line"] + n["second_line"]) < 1e-6,
    ),
    Statement(
        "direction of T",
        "3",
        "make a predictor less overconfident (by lowering the temperature T<1)",
        "mean confidence at T = 0.5 is below that at T = 1 (authors' ResNet20)",
        "{colder:.1%} at T = 0.5, {as_trained:.1%} at T = 1, {hotter:.1%} at T = 2: it is T > 1 that lowers confidence",
        lambda n: n["colder"] < n["as_trained"],
        "T > 1 is meant, as in the limits T ≪ 1 and T ≫ 1 that the same paragraph describes",
        slip_if=lambda n: n["hotter"] < n["as_trained"],
    ),
    Statement(
        "which images EC uses",
        "3",
        "the average confidence is equal to the proportion of correct labels in the test set",
        "the test set gives the T_EC of the equation and of the algorithm, which use the validation set",
        "authors' ResNet20: T = {ec_test:.3f} from the test set, {ec_validation:.3f} from clean and {ec_augmented:.3f} from "
        "augmented validation images; Table 1 prints {ec_paper:.2f}",
        lambda n: n["ec_test"] == n["ec_validation"],
        "the validation set is meant, as in the paper's equation, algorithm and code; its augmented images come closest to "
        "the T of Table 1",
        slip_if=lambda n: abs(n["ec_augmented"] - n["ec_paper"]) < abs(n["ec_test"] - n["ec_paper"]),
        paper_data="the paper's equation and its algorithm say validation set",
    ),
    Statement(
        "existence and uniqueness of T_EC",
        "3",
        "T_EC exists and is unique [...] the average confidence is a decreasing function of the temperature",
        "on every network mean confidence falls with T from above to below the accuracy, and every set of samples has a T",
        "one T on {n_crossing} of {n_networks} networks. Of two sets of samples, one with right answers only and one with "
        "wrong answers only, {n_without} have no T",
        lambda n: n["n_falling"] == n["n_crossing"] == n["n_networks"] and n["n_without"] == 0,
        "if 1/K < accuracy < 1 (with K classes, ties and masked classes aside)",
        lambda n: n["n_falling"] == n["n_crossing"] == n["n_networks"],
    ),
    Statement(
        "limits of the confidence",
        "3",
        "[the average confidence is] converging to one when T → 0+ and to zero when T → ∞",
        "above 0.99 at T = 1e-6 and below 0.005 at T = 1e6",
        "at least {coldest:.4f} at T = 1e-6; at T = 1e6 it is 1/K to four digits, 0.1 or 0.01: the limit is 1/K",
        lambda n: n["coldest"] > 0.99 and n["hottest"] < 0.005,
        "1/K is meant, as where the paper lets the softmax tend to a uniform vector. Where T_EC exists depends on it",
        slip_if=lambda n: n["coldest"] > 0.99 and n["off_chance"] < 0.001,
    ),
    Statement(
        "confidence equal to top-N accuracy",
        "3",
        "we can fix the temperature so that the average confidence is equal to the top N accuracy for any N ∈ [K]",
        "for each N there is a T at which the mean confidence of the largest class is the top-N accuracy (authors' ResNet20, "
        "validation images; nishimori_paper.methods.LiteralTopN finds it)",
        "for {n_literal} of {n_classes} values of N; T is {ec_validation:.2f} for N = 1 and already {literal_2:.2f} for N = 2",
        lambda n: n["n_literal"] == n["n_classes"],
        "if the top-N accuracy is above 1/K and below 1, so not for N = K. If the top-N probability is matched instead "
        "(top_n=N), every T solves the case N = K, and T is undetermined",
        lambda n: n["n_literal"] == n["n_solvable"] == n["n_classes"] - 1,
        chance="no T for N = K − 1 either, because no label happens to be last, with probability {none_by_chance} for samples "
        "as many as these",
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
