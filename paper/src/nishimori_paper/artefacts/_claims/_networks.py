"""Statements of Section 4 and Appendix A on the networks, and on Table 1.

Calibration uses clean validation images unless a line says otherwise. All networks count: the authors' three and our eight.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nishimori import metrics
from nishimori.data import Network
from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._measured import Row, network, scores_by_kind, validations
from nishimori_paper._names import NetworkName
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._claims._statement import Group, Numbers, Statement
from nishimori_paper.artefacts._rows import COLUMNS, networks_of_tables

_METHODS = ("ts", "ec")
_AUTHORS_CIFAR10 = ("cifar10/resnet20", "cifar10/resnet56")


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    return {
        **{f"real {name}": partial(_real, name, scale) for name in networks_of_tables()},
        "sizes": partial(_sizes, scale),
    }


def _real(name: str, scale: Scale) -> dict[str, Any]:
    """The row of Table 1 for each kind of validation images, and the standard error of ECE_TS − ECE_EC."""
    found = network(name, scale)
    result = scores_by_kind(validations(found), found.test)
    return {
        **result,
        "confidence": metrics.confidence(found.test.logits, found.test.labels),
        "lead_error": _lead_error(found, result["clean"], scale),
    }


def _lead_error(found: Network, row: Row, scale: Scale) -> float:
    """The standard error of `lead`: its spread over bootstrap samples of the validation and the test images."""
    generator, leads = np.random.default_rng(scale.seed), []
    for _ in range(10 if scale.quick else 40):
        on_validation, on_test = (
            np.bincount(generator.integers(n, size=n), minlength=n)
            for n in (len(part.labels) for part in (found.validation, found.test))
        )
        weights = {"validation_weight": on_validation, "test_weight": on_test}
        leads.append(lead(scores_by_kind({"": found.validation}, found.test, **weights, near={"": row})[""]))
    return float(np.std(leads, ddof=1))


def _sizes(scale: Scale) -> dict[str, Any]:
    models = printed()["table-real"]["setup"]["parameters"]
    svhn = network("svhn/resnet20", scale)
    return {
        "parameters": {model: network(f"cifar10/{model}", scale).provenance["parameters"] / 1e6 for model in models},
        "svhn_train": svhn.provenance["n_train"],
        "svhn_validation": len(svhn.validation.labels),
    }


def lead(row: Row) -> float:
    """By how much the ECE is lower after EC than after TS."""
    return row["ece_ts"] - row["ece_ec"]


def difference(row: Row) -> float:
    """The difference of the two temperatures, relative to that of TS."""
    return abs(row["temperature_ts"] - row["temperature_ec"]) / row["temperature_ts"]


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
    """The largest differences between the two methods; those of ECE and Brier score times 100, as Table 1 prints them."""
    return {
        "temperature": max(difference(row) for row in rows),
        "ece": 100 * max(abs(lead(row)) for row in rows),
        "brier": 100 * max(abs(row["brier_ts"] - row["brier_ec"]) for row in rows),
    }


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    real = {key.removeprefix("real "): value for key, value in done.items() if key.startswith("real ")}
    rows, paper = [each["clean"] for each in real.values()], printed_rows("table-real")
    here, there = apart(rows), apart(list(paper.values()))
    worst = min(real.values(), key=lambda each: lead(each["clean"]))
    sizes, setup = done["sizes"], printed()["table-real"]["setup"]
    return {
        "n": len(rows),
        **{f"{key}_apart": value for key, value in here.items()},
        **{f"{key}_apart_paper": value for key, value in there.items()},
        "n_ece_similar": sum(apart([row])["ece"] <= there["ece"] for row in rows),
        "ece_farthest": NetworkName.parse(max(real, key=lambda name: apart([real[name]["clean"]])["ece"])).title,
        "coldest": min(row[f"temperature_{method}"] for row in rows for method in _METHODS),
        "coldest_paper": min(row[f"temperature_{method}"] for row in paper.values() for method in _METHODS),
        "n_overconfident": sum(each["confidence"] > 1 - each["clean"]["error"] for each in real.values()),
        "n_better_ece": sum(improved(row, "ece") for row in rows),
        "n_better_brier": sum(improved(row, "brier") for row in rows),
        "n_better_brier_paper": sum(improved(row, "brier") for row in paper.values()),
        "n_paper": len(paper),
        "n_lower": sum(lead(row) > 0 for row in rows),
        "n_not_higher_rounded": sum(_not_higher_in_print(row) for row in rows),
        "n_significantly_worse": sum(lead(each["clean"]) < -2 * each["lead_error"] for each in real.values()),
        "worst_lead": 100 * lead(worst["clean"]),
        "worst_lead_error": 100 * worst["lead_error"],
        **_augmentation(real, paper),
        **{f"{model}_here": value for model, value in sizes["parameters"].items()},
        **{f"{model}_paper": value for model, value in setup["parameters"].items()},
        "svhn_train": sizes["svhn_train"],
        "svhn_validation": sizes["svhn_validation"],
        "svhn_train_paper": setup["svhn"]["train"],
        "svhn_validation_paper": setup["svhn"]["validation"],
    }


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


STATEMENTS = (
    Statement(
        "similar temperatures",
        "4",
        "both EC and TS yield very similar temperatures across the different tasks and architectures",
        "|T_TS − T_EC| / T_TS is at most as large as in the paper's own Table 1",
        "at most {temperature_apart:.1%} on {n} networks",
        lambda n: n["temperature_apart"] <= n["temperature_apart_paper"],
        paper_data="at most {temperature_apart_paper:.1%} in Table 1",
    ),
    Statement(
        "similar ECE and Brier score",
        "4",
        "[...] implying a similar ECE and Brier score",
        "the scores after TS and after EC differ by at most as much as in the paper's own Table 1",
        "ECE by at most {ece_apart:.2f} points, Brier score by at most {brier_apart:.2f} of 100",
        lambda n: n["ece_apart"] <= n["ece_apart_paper"] and n["brier_apart"] <= n["brier_apart_paper"],
        "on {n_ece_similar} of {n} networks; the exception is {ece_farthest}",
        lambda n: n["n_ece_similar"] >= n["n"] - 1 and n["brier_apart"] <= n["brier_apart_paper"],
        "at most {ece_apart_paper:.1f} points and {brier_apart_paper:.1f} of 100 in Table 1",
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
    ),
    Statement(
        "calibration improves",
        "4",
        "both methods improve the calibration of the classifiers",
        "the test ECE is lower after TS and after EC than before, on every network",
        "on {n_better_ece} of {n} networks",
        lambda n: n["n_better_ece"] == n["n"],
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
    ),
    Statement(
        "EC at least as good as TS",
        "Table 1",
        "Given how well TS works in practice we conjecture at least the same for EC",
        "on no network is the ECE after EC higher than after TS by more than two standard errors (paired bootstrap)",
        "ECE after EC is lower on {n_lower} of {n} networks and not higher in the digits of Table 1 on {n_not_higher_rounded}; "
        "in the least favourable row ECE_TS − ECE_EC is {worst_lead:.2f} ± {worst_lead_error:.2f} points",
        lambda n: n["n_significantly_worse"] == 0,
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
        "{densenet121_here:.2f} million with ten classes and a stem for small images; 7.98 million is the network for ImageNet",
        lambda n: abs(n["densenet121_here"] - n["densenet121_paper"]) <= 0.1,
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
