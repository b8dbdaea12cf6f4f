"""Statements of Section 4 on its figures: ECE against temperature, reliability diagrams, the size of the training set."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._measured import Row, network, scores
from nishimori_paper._names import resnet20_on
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._claims._networks import difference, printed_rows
from nishimori_paper.artefacts._claims._precision import precision_pieces, precisions
from nishimori_paper.artefacts._claims._statement import Group, Numbers, Statement
from nishimori_paper.artefacts._figure_curves import FigureCurves


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    fractions = printed()["figure-train-size"]["fraction"]
    return {
        **{f"curves {name}": work for name, work in FigureCurves().pieces(scale).items()},
        **{f"fraction {each:g}": partial(_fraction, each, scale) for each in fractions},
        **precision_pieces(scale),
    }


def _fraction(fraction: float, scale: Scale) -> Row:
    found = network(str(resnet20_on(fraction)), scale)
    return scores(found.validation, found.test)


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    dense, paper = done["curves cifar10/densenet121"], printed()["figure-curves"]
    rows = [value for key, value in done.items() if key.startswith("fraction ")]
    size = printed()["figure-train-size"]
    theirs = [{key: size[key][i] for key in ("temperature_ts", "temperature_ec")} for i in range(len(size["fraction"]))]
    farthest = max((str(resnet20_on(each)) for each in size["fraction"]), key=lambda name: precisions(done)[name]["difference"])
    return {
        **_distances(dense["clean"], dense["least_ece"], "clean"),
        **_distances(dense["augmented"], dense["least_ece"], "augmented"),
        **_distances(paper, (paper["least_ece_temperature"], paper["least_ece"]), "paper"),
        "diagrams_apart": _diagrams_apart(done["curves cifar10/resnet20-authors"]["reliability"]),
        "validation_accuracy": dense["accuracy"],
        "test_accuracy": 1 - dense["clean"]["error"],
        "validation_accuracy_paper": paper["accuracy"],
        "test_accuracy_paper": 1 - printed()["claims"]["figure_curves_error"],
        "n_steps": len(rows) - 1,
        "n_grows": _n_grows([1 - row["error"] for row in rows]),
        "rank_correlation": _rank_correlation([1 - row["error"] for row in rows]),
        "rank_correlation_paper": _rank_correlation(size["accuracy"]),
        "size_apart": precisions(done)[farthest]["difference"],
        "size_apart_error": precisions(done)[farthest]["difference_error"],
        "size_ece_apart": max(abs(row["ece_ts"] - row["ece_ec"]) for row in rows),
        "size_apart_paper": max(difference(row) for row in theirs),
        "size_ece_apart_paper": max(abs(ts - ec) for ts, ec in zip(size["ece_ts"], size["ece_ec"], strict=True)),
        "table_apart_paper": max(difference(row) for row in printed_rows("table-real").values()),
    }


def _distances(chosen: Mapping[str, float], least: Sequence[float], kind: str) -> dict[str, float]:
    """How far the nearer of the two temperatures is from the smallest ECE, in T and in points of ECE."""
    temperature, ece = least
    return {
        f"off_{kind}": min(abs(chosen[f"temperature_{method}"] - temperature) for method in ("ts", "ec")),
        f"excess_{kind}": 100 * (min(chosen[f"ece_{method}"] for method in ("ts", "ec")) - ece),
    }


def _diagrams_apart(bins: Sequence[Mapping[str, Any]]) -> float:
    """The largest vertical distance of the diagrams after TS and after EC, in points."""
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
        paper_data="{validation_accuracy_paper:.1%} on validation images, but the figure's ECE for T → 0 means about "
        "{test_accuracy_paper:.1%} on test images, so images of the validation set were probably used in training",
    ),
    Statement(
        "TS and EC in the reliability diagram",
        "3, first figure",
        "The reliability diagram after EC is indistinguishable from the one of TS",
        "the two curves differ by less than 2 points everywhere (authors' ResNet20)",
        "by at most {diagrams_apart:.1f} points",
        lambda n: n["diagrams_apart"] < 2,
    ),
    Statement(
        "accuracy grows with the training set",
        "4",
        "the accuracy of the model increases with the amount of training data",
        "Spearman's correlation of accuracy and size is above 0.8; with one training per size, single steps may fall",
        "correlation {rank_correlation:.2f}, rising in {n_grows} of {n_steps} steps",
        lambda n: n["rank_correlation"] > 0.8,
        paper_data="correlation {rank_correlation_paper:.2f}",
        paper_holds=lambda n: n["rank_correlation_paper"] > 0.8,
    ),
    Statement(
        "similarity at every training size",
        "4",
        "the temperatures and ECE obtained from both methods are extremely similar, independently of the accuracy of the model",
        "|T_TS − T_EC| / T_TS is at most as large as in the paper's own figure",
        "at most {size_apart:.1%} ± {size_apart_error:.1%}; ECEs within {size_ece_apart:.2%}",
        lambda n: n["size_apart"] <= n["size_apart_paper"],
        "if differences as large as those of Table 1, {table_apart_paper:.1%}, count as extremely similar",
        lambda n: n["size_apart"] <= n["table_apart_paper"],
        "at most {size_apart_paper:.1%}; ECEs within {size_ece_apart_paper:.2%}",
        lambda _: True,
    ),
    Statement(
        "minimum of the ECE",
        "4",
        "neither T_TS nor T_EC is close to the minimum of ECE",
        "both are more than 0.1 away from the T with the smallest test ECE (our DenseNet121)",
        "the nearer one, with clean validation images: {off_clean:.2f} away in T and {excess_clean:.2f} points in ECE; with "
        "augmented ones: {off_augmented:.2f} and {excess_augmented:.2f}",
        lambda n: n["off_clean"] > 0.1,
        "if the validation images are not like the test images: augmented ones here; in the paper's figure probably images "
        "of the training set. With clean, new images EC finds the minimum",
        lambda n: n["off_augmented"] > 0.1,
        "{off_paper:.2f} away in T and {excess_paper:.2f} points in ECE",
        lambda n: n["off_paper"] > 0.1,
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
