"""Statements of Section 4 and Appendix A on the networks, and on Table 1.

Calibration uses clean validation images unless a line says otherwise. All networks count: the authors' three and our eight.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from nishimori import metrics
from nishimori.data import Labelled
from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._measured import SANDWICH, Row, network, scores_by_kind, temperature_errors, validations
from nishimori_paper._names import NetworkName
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._rows import COLUMNS, networks_of_tables
from nishimori_paper.artefacts._statements._chance import (
    ONE_SIDED,
    any_beyond,
    any_wrong_sign,
    beyond,
    either,
    equivalence_fails,
    in_words,
    not_inferior_fails,
)
from nishimori_paper.artefacts._statements._precision import precision_pieces, precisions
from nishimori_paper.artefacts._statements._resamples import (
    column,
    differences,
    error,
    farther_limit,
    pooled,
    resampled_differences,
)
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement
from nishimori_paper.artefacts._statements._subsets import SIZES, excess, subset_pieces

_METHODS = ("ts", "ec")
# Temperatures are similar if they differ by less than this share of T, and scores if by less than this share of what TS takes
# from them.
SIMILAR = 0.1
# EC counts as at least as good as TS if its ECE is higher by less than this, in points: paper/population.toml declares the same
# margin for a method that must not cost calibration.
_MARGIN = 0.2
# DenseNet121 for ImageNet has a first convolution of 7×7 instead of 3×3 and 1,000 classes instead of ten: in millions.
_FOR_IMAGENET = (3 * 64 * (7**2 - 3**2) + (1000 - 10) * (1024 + 1)) / 1e6
_AUTHORS_CIFAR10 = ("cifar10/resnet20", "cifar10/resnet56")


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    return {
        **{f"real {name}": partial(_real, name, scale) for name in networks_of_tables()},
        **precision_pieces(scale),
        **subset_pieces(scale),
        "sizes": partial(_sizes, scale),
    }


def _real(name: str, scale: Scale) -> dict[str, Any]:
    """The row of Table 1 for each kind of validation images, and differences between methods for other images."""
    loaded = network(name, scale)
    result = scores_by_kind(validations(loaded), loaded.test)
    return {
        **result,
        "confidence": metrics.confidence(loaded.test.logits, loaded.test.labels),
        "confidence_error": _confidence_error(loaded.test),
        "temperature_errors": temperature_errors(validations(loaded)),
        "draws": resampled_differences(name, loaded, result["clean"], scale),
    }


def _confidence_error(test: Labelled) -> float:
    """The standard error of mean confidence minus accuracy."""
    p = softmax(np.asarray(test.logits, dtype=np.float64), axis=1)
    return float(np.std(p.max(axis=1) - (p.argmax(axis=1) == test.labels)) / len(test.labels) ** 0.5)


def _sizes(scale: Scale) -> dict[str, Any]:
    models = printed()["table-real"]["setup"]["parameters"]
    svhn = network("svhn/resnet20", scale)
    return {
        "parameters": {model: network(f"cifar10/{model}", scale).provenance["parameters"] / 1e6 for model in models},
        "svhn_train": svhn.provenance["n_train"],
        "svhn_validation": len(svhn.validation.labels),
    }


def lead(row: Mapping[str, Any]) -> float:
    """How much lower the ECE is after EC than after TS."""
    return float(row["ece_ts"] - row["ece_ec"])


def difference(row: Row) -> float:
    """The difference between the two temperatures, relative to T_TS."""
    return abs(row["temperature_ts"] - row["temperature_ec"]) / row["temperature_ts"]


def allowed(row: Mapping[str, Any], metric: str) -> float:
    """The largest difference in a metric between TS and EC that counts as similar."""
    return SIMILAR * float(row[metric] - row[f"{metric}_ts"])


def is_similar(row: Row) -> bool:
    """Whether ECE and Brier score are similar after TS and after EC."""
    return all(abs(row[f"{key}_ts"] - row[f"{key}_ec"]) < allowed(row, key) for key in ("ece", "brier"))


def printed_rows(table: str) -> dict[str, Row]:
    """The rows of a table of the paper; everything except temperatures as fractions, not in percent."""
    return {
        name: {
            column: value if column.startswith("temperature") else value / 100
            for column, value in zip(COLUMNS, values, strict=True)
        }
        for name, values in printed()[table]["rows"].items()
    }


def apart(rows: Sequence[Row]) -> dict[str, float]:
    """The largest differences between the two methods, for ECE and Brier score times 100, as in Table 1."""
    return {
        "temperature": max(difference(row) for row in rows),
        "ece": 100 * max(abs(lead(row)) for row in rows),
        "brier": 100 * max(abs(row["brier_ts"] - row["brier_ec"]) for row in rows),
    }


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    real = {key.removeprefix("real "): value for key, value in done.items() if key.startswith("real ")}
    rows, paper = [row["clean"] for row in real.values()], printed_rows("table-real")
    ours, there = apart(rows), apart(list(paper.values()))
    sizes, setup = done["sizes"], printed()["table-real"]["setup"]
    return {
        "n": len(rows),
        **{f"{key}_apart": value for key, value in ours.items()},
        **{f"{key}_apart_paper": value for key, value in there.items()},
        **_pooled_differences(list(real.values())),
        **{f"{key}_allowed": 100 * float(np.mean([allowed(row, key) for row in rows])) for key in ("ece", "brier")},
        "n_similar": sum(is_similar(row) for row in rows),
        "not_similar": ", ".join(NetworkName.parse(name).label for name in real if not is_similar(real[name]["clean"])),
        "coldest": min(row[f"temperature_{method}"] for row in rows for method in _METHODS),
        "coldest_paper": min(row[f"temperature_{method}"] for row in paper.values() for method in _METHODS),
        "n_overconfident": sum(row["confidence"] > 1 - row["clean"]["error"] for row in real.values()),
        "n_better_ece": sum(improved(row, "ece") for row in rows),
        "n_better_brier": sum(improved(row, "brier") for row in rows),
        "n_better_brier_paper": sum(improved(row, "brier") for row in paper.values()),
        "n_paper": len(paper),
        "n_lower": sum(lead(row) > 0 for row in rows),
        "n_not_higher_rounded": sum(_not_higher_in_print(row) for row in rows),
        **_non_inferiority(done, list(real.values())),
        **_chances(done, real),
        **_augmentation(real, paper),
        **{f"{model}_here": value for model, value in sizes["parameters"].items()},
        **{f"{model}_paper": value for model, value in setup["parameters"].items()},
        "densenet121_imagenet": sizes["parameters"]["densenet121"] + _FOR_IMAGENET,
        "svhn_train": sizes["svhn_train"],
        "svhn_validation": sizes["svhn_validation"],
        "svhn_train_paper": setup["svhn"]["train"],
        "svhn_validation_paper": setup["svhn"]["validation"],
    }


def _pooled_differences(real: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean differences of ECE and Brier score between TS and EC, in points, and the farther limits of their intervals."""
    result: dict[str, Any] = {}
    for name, key in (("lead", "ece"), ("brier_lead", "brier")):
        values = [100 * differences(row["clean"])[name] for row in real]
        estimate = pooled(values, [[100 * x for x in draws] for draws in column(real, name)])
        result |= {
            f"{key}_mean": estimate["mean"],
            f"{key}_error": estimate["error"],
            f"{key}_limit": farther_limit(estimate),
        }
    return result


def _non_inferiority(done: Pieces, real: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How much lower the ECE is after EC than after TS, in points: with all validation images, and with few of them."""
    estimate = pooled([100 * lead(row["clean"]) for row in real], [[100 * x for x in draws] for draws in column(real, "lead")])
    few = excess(done, SIZES[0])
    return {
        "lead": estimate["mean"],
        "lead_error": estimate["error"],
        "lead_limit": estimate["mean"] - ONE_SIDED * estimate["error"],
        "few": -few["mean"],
        "few_error": few["error"],
        "few_limit": -few["mean"] - ONE_SIDED * few["error"],
        "margin": _MARGIN,
        "inferior_by_chance": in_words(not_inferior_fails(_MARGIN, estimate["error"])),
    }


def _chances(done: Pieces, real: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """How probable it is that the criteria on Table 1 fail by chance."""
    rows = list(real.values())
    errors = {name: [error(draws) for draws in column(rows, name)] for name in rows[0]["draws"]}

    def worse(metric: str) -> float:
        names = [f"{metric}_gain_{method}" for method in _METHODS]
        values = [differences(one["clean"])[name] for name in names for one in rows]
        return any_wrong_sign(values, [bar for name in names for bar in errors[name]])

    fits = [one["temperature_errors"][f"clean {SANDWICH}"] for one in rows]
    above = [one["clean"][f"temperature_{method}"] - 1 for one in rows for method in _METHODS]
    surer = [one["confidence"] - (1 - one["clean"]["error"]) for one in rows]
    not_over = any_wrong_sign(
        [*above, *surer],
        [*(fit[f"temperature_{method}"] for fit in fits for method in _METHODS), *(one["confidence_error"] for one in rows)],
    )
    of_temperatures = [row["difference_error"] for name, row in precisions(done).items() if name in real]
    means, limits = _pooled_differences(rows), {key: [allowed(one["clean"], key) for one in rows] for key in ("ece", "brier")}
    of_means = either(
        *(equivalence_fails(100 * float(np.mean(draws_of_key)), means[f"{key}_error"]) for key, draws_of_key in limits.items())
    )
    of_some = either(
        *(
            beyond(limit, bar)
            for key, name in (("ece", "lead"), ("brier", "brier_lead"))
            for limit, bar in zip(limits[key], errors[name], strict=True)
        )
    )
    authors = [
        fit[f"temperature_{method}"]
        for name in _AUTHORS_CIFAR10
        for fit in real[f"{name}-authors"]["temperature_errors"].values()
        for method in _METHODS
    ]
    return {
        "temperatures_fail": in_words(any_beyond(SIMILAR, of_temperatures)),
        "scores_fail": in_words(of_means),
        "some_fails": in_words(of_some),
        "overconfident_fails": in_words(not_over),
        "ece_fails": in_words(worse("ece")),
        "brier_fails": in_words(worse("brier")),
        "augmented_fails": in_words(_nearer_by_chance(real, max(authors))),
    }


def _nearer_by_chance(real: Mapping[str, Mapping[str, Any]], largest: float) -> float:
    """The probability that clean images come closer to Table 1 than augmented ones by chance, at the smallest distance.

    The two temperatures of a network have errors of at most ``largest`` each.
    """
    apart = min(
        abs(row["clean"][f"temperature_{method}"] - row["augmented"][f"temperature_{method}"])
        for row in (real[f"{name}-authors"] for name in _AUTHORS_CIFAR10)
        for method in _METHODS
    )
    # Half way between them clean and augmented images would be equally near.
    return beyond(apart / 2, largest) / 2


def improved(row: Row, metric: str) -> bool:
    """Whether both methods lower the metric."""
    return max(row[f"{metric}_{method}"] for method in _METHODS) < row[metric]


def _not_higher_in_print(row: Row) -> bool:
    """Whether the ECE after EC is at most that after TS in the digits of Table 1, tenths of a percent."""
    ts, ec = (round(100 * row[f"ece_{method}"], 1) for method in _METHODS)
    return ec <= ts


def _augmentation(real: Mapping[str, Any], paper: Mapping[str, Row]) -> dict[str, float]:
    """How far the authors' CIFAR-10 networks are from the temperatures of Table 1, for each kind of validation images."""
    return {
        f"off_{kind}": max(
            abs(real[f"{name}-authors"][kind][f"temperature_{method}"] - paper[name][f"temperature_{method}"])
            for name in _AUTHORS_CIFAR10
            for method in _METHODS
        )
        for kind in ("clean", "augmented")
    } | {
        f"ece_{kind}_{end}": pick(
            real[f"{name}-authors"][kind][f"ece_{method}"] for name in _AUTHORS_CIFAR10 for method in _METHODS
        )
        for kind in ("clean", "augmented")
        for end, pick in (("low", min), ("high", max))
    }


def _is_equivalent(numbers: Numbers) -> bool:
    """Whether scores are similar on average, with 95 % confidence."""
    return all(numbers[f"{key}_limit"] < numbers[f"{key}_allowed"] for key in ("ece", "brier"))


STATEMENTS = (
    Statement(
        "similar temperatures",
        "4",
        "both EC and TS yield very similar temperatures across the different tasks and architectures",
        "|T_TS − T_EC| / T_TS is below 10 % on every network",
        "at most {temperature_apart:.1%} on {n} networks",
        lambda n: n["temperature_apart"] < SIMILAR,
        paper_data="at most {temperature_apart_paper:.1%} in Table 1",
        paper_holds=lambda n: n["temperature_apart_paper"] < SIMILAR,
        chance="fails with probability {temperatures_fail} if T_EC = T_TS for infinitely many images",
    ),
    Statement(
        "similar ECE and Brier score",
        "4",
        "[...] implying a similar ECE and Brier score",
        "on every network the scores after TS and after EC differ by less than a tenth of what TS takes from them, and on "
        "average over networks the 95 % interval of the difference is within that: {ece_allowed:.2f} points of ECE, and "
        "{brier_allowed:.2f} of 100 for the Brier score",
        "ECE by at most {ece_apart:.2f} points and by {ece_mean:+.2f} ± {ece_error:.2f} on average, Brier score by at most "
        "{brier_apart:.2f} of 100 and by {brier_mean:+.2f} ± {brier_error:.2f}",
        lambda n: _is_equivalent(n) and n["n_similar"] == n["n"],
        "on average, and on {n_similar} of {n} networks (not on {not_similar})",
        _is_equivalent,
        "at most {ece_apart_paper:.1f} points and {brier_apart_paper:.1f} of 100 in Table 1",
        chance="if TS and EC have the same scores for infinitely many images, the average fails with probability "
        "{scores_fail}, and some network with {some_fails}",
    ),
    Statement(
        "overconfident networks",
        "4",
        "both methods give T>1, consistent with the fact that the original networks were overconfident",
        "every T is above 1, and mean confidence on test images exceeds accuracy",
        "T of at least {coldest:.2f}; confidence exceeds accuracy on {n_overconfident} of {n} networks",
        lambda n: n["coldest"] > 1 and n["n_overconfident"] == n["n"],
        paper_data="T of at least {coldest_paper:.2f} in Table 1",
        paper_holds=lambda n: n["coldest_paper"] > 1,
        chance="on other images of the same number it would fail with probability {overconfident_fails}",
    ),
    Statement(
        "calibration improves",
        "4",
        "both methods improve the calibration of the classifiers",
        "the test ECE is lower after TS and after EC than before, on every network",
        "on {n_better_ece} of {n} networks",
        lambda n: n["n_better_ece"] == n["n"],
        chance="on other images of the same number it would fail with probability {ece_fails}",
    ),
    Statement(
        "Brier score improves",
        "4",
        "both methods improve the Brier score",
        "the test Brier score is lower after TS and after EC than before, on every network",
        "on {n_better_brier} of {n} networks",
        lambda n: n["n_better_brier"] == n["n"],
        paper_data="in {n_better_brier_paper} of {n_paper} rows of Table 1",
        paper_holds=lambda n: n["n_better_brier_paper"] == n["n_paper"],
        chance="on other images of the same number it would fail with probability {brier_fails}",
    ),
    Statement(
        "EC at least as good as TS",
        "Table 1",
        "Given how well TS works in practice we conjecture at least the same for EC",
        "EC is not inferior: the 95 % lower limit of the mean of ECE_TS − ECE_EC over networks is above −{margin:.2f} points, "
        "with all validation images and with 100 of them",
        "with all of them {lead:+.2f} ± {lead_error:.2f} points (limit {lead_limit:+.2f}), with 100 {few:+.2f} ± "
        "{few_error:.2f} (limit {few_limit:+.2f}; ± over networks, which share images). With all, ECE after EC is lower on "
        "{n_lower} of {n} networks and not higher in the digits of Table 1 on {n_not_higher_rounded}",
        lambda n: min(n["lead_limit"], n["few_limit"]) > -n["margin"],
        "with thousands of validation images, as in the paper; with 100, TS has the lower ECE on average",
        lambda n: n["lead_limit"] > -n["margin"],
        chance="with all images, fails with probability {inferior_by_chance} if the two are equally good, and passes with "
        "probability 0.05 if EC is worse by the margin",
    ),
    Statement(
        "parameters of the ResNets",
        "A",
        "the Resnet20 model of depth 20 and containing 0.27M parameters [...] Resnet56 having 0.85M parameters",
        "equal to the printed digits",
        "{resnet20_here:.2f} and {resnet56_here:.2f} million",
        lambda n: round(n["resnet20_here"], 2) == n["resnet20_paper"] and round(n["resnet56_here"], 2) == n["resnet56_paper"],
    ),
    Statement(
        "parameters of DenseNet121",
        "A",
        "The DenseNet 121 (containing 7.9 parameters)",
        "within 0.1 million of 7.9 million",
        "{densenet121_here:.2f} million with ten classes and a stem for small images, {densenet121_imagenet:.2f} million for "
        "ImageNet",
        lambda n: abs(n["densenet121_here"] - n["densenet121_paper"]) <= 0.1,
        "“million” is missing, and the number is that of the network for ImageNet",
        slip_if=lambda n: abs(n["densenet121_imagenet"] - n["densenet121_paper"]) <= 0.1,
    ),
    Statement(
        "split of SVHN",
        "4",
        "Train/validation/test set sizes are 65931/7325/26032",
        "our training and validation sets, split as in the paper's code, have these sizes",
        "{svhn_train:,} + {svhn_validation:,}, together the 73,257 training digits of SVHN",
        lambda n: (n["svhn_train"], n["svhn_validation"]) == (n["svhn_train_paper"], n["svhn_validation_paper"]),
        "up to one training digit: the printed sizes add up to one fewer",
        lambda n: (n["svhn_train"] - 1, n["svhn_validation"]) == (n["svhn_train_paper"], n["svhn_validation_paper"]),
    ),
    Statement(
        "which images were augmented",
        "A",
        "images in the training set were randomly cropped and flipped horizontally",
        "no other images were, so that clean validation images give the temperatures of Table 1 more closely than augmented "
        "ones (authors' CIFAR-10 ResNets)",
        "off by at most {off_clean:.2f} with clean validation images and {off_augmented:.2f} with augmented ones. Test ECE "
        "after calibration: {ece_clean_low:.1%} to {ece_clean_high:.1%} with clean images, {ece_augmented_low:.1%} to "
        "{ece_augmented_high:.1%} with augmented ones",
        lambda n: n["off_clean"] < n["off_augmented"],
        "the validation images were cropped and flipped, too",
        lambda n: n["off_augmented"] < n["off_clean"],
        "the paper's code splits off the validation images after it attaches the augmentation",
        chance="clean images would be nearer by chance with probability {augmented_fails}, on the network where the two kinds "
        "differ least",
    ),
    Statement(
        "public networks for CIFAR-100",
        "A",
        "we used pre-trained models from the Github repository [chenyaofo/pytorch-cifar-models]",
        "these networks give the CIFAR-100 rows of Table 1",
        "not tested; the four networks of these rows were trained here, with the same architectures",
        None,
        "their weights are needed, and the split of the test images",
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
