"""Statements of Section 4 and Appendix C on random labels in some classes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import hypot, sqrt
from typing import Any

import numpy as np

from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._measured import Row
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._rows import networks_of_tables, trained_networks
from nishimori_paper.artefacts._statements._chance import TWO_SIDED, at_least, beyond, in_words
from nishimori_paper.artefacts._statements._networks import difference, lead, printed_rows
from nishimori_paper.artefacts._statements._precision import precision_pieces, precisions
from nishimori_paper.artefacts._statements._resamples import error
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement
from nishimori_paper.artefacts._table_corrupted import noisy_scores

# A lower ECE by this share counts as a significant margin.
_MARGIN = 0.2
# What rounds to the printed percent.
_NEAR = 0.005


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    corrupted = {f"corrupted {name}": partial(noisy_scores, name, scale) for name in networks_of_tables()}
    return {**corrupted, **precision_pieces(scale)}


def reduction(row: Row) -> float:
    """How much lower the ECE is after EC than after TS, relative to TS."""
    return lead(row) / row["ece_ts"]


def reduction_error(row: Mapping[str, Any], kind: str = "clean") -> float:
    """The standard error of `reduction` for other images and other draws of the noise."""
    return float(row[f"{kind} error bars of images"]["ece_difference"] / row[kind]["ece_ts"])


def _as_in_the_paper(row: Mapping[str, Any]) -> str:
    """The kind of validation images that the paper calibrates on: augmented ones for CIFAR-10."""
    return "augmented" if "augmented" in row else "clean"


def difference_error(row: Mapping[str, Any]) -> float:
    """The standard error of `difference`, from the errors of both temperatures."""
    fits = row["clean errors of a fit"]
    return float(np.hypot(fits["temperature_ts"], fits["temperature_ec"]) / row["clean"]["temperature_ts"])


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    corrupted = {key.removeprefix("corrupted "): value for key, value in done.items() if key.startswith("corrupted ")}
    ours = [corrupted[name] for name in trained_networks()]
    rows, paper = [row["clean"] for row in corrupted.values()], list(printed_rows("table-corrupted").values())
    clean_apart = float(np.mean([precisions(done)[name]["difference"] for name in corrupted]))
    return {
        "n": len(rows),
        "n_paper": len(paper),
        "share": float(np.mean([row["noisy"] for row in corrupted.values()])),
        "reduction": float(np.mean([reduction(row["clean"]) for row in ours])),
        "reduction_augmented": float(np.mean([reduction(row[_as_in_the_paper(row)]) for row in ours])),
        "n_augmented": sum("augmented" in row for row in ours),
        "reduction_paper": float(np.mean([reduction(row) for row in paper])),
        "reduction_claimed": printed()["table-corrupted"]["ece_reduction"],
        "n_lower": sum(lead(row) > 0 for row in rows),
        "n_lower_paper": sum(lead(row) > 0 for row in paper),
        "n_margin": sum(reduction(row) >= _MARGIN for row in rows),
        "n_margin_paper": sum(reduction(row) >= _MARGIN for row in paper),
        "noisy_apart": float(np.mean([difference(row) for row in rows])),
        "noisy_apart_paper": float(np.mean([difference(row) for row in paper])),
        "clean_apart": clean_apart,
        "clean_apart_paper": float(np.mean([difference(row) for row in printed_rows("table-real").values()])),
        "reduction_error": _mean_error(ours, ["clean"] * len(ours)),
        "reduction_augmented_error": _mean_error(ours, [_as_in_the_paper(row) for row in ours]),
        "reduction_paper_error": error([reduction(row) for row in paper]) / sqrt(len(paper)),
        "margin_by_chance": in_words(at_least(2, [beyond(_MARGIN, reduction_error(row)) / 2 for row in corrupted.values()])),
        **_apart_by_chance(list(corrupted.values()), clean_apart),
        **_validation_only([row["validation only"] for row in corrupted.values()]),
    }


def _mean_error(rows: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> float:
    """The standard error of the mean of `reduction`: for other images or for other networks, whichever is larger.

    Networks share their images, so that their errors may be the same: the mean of the errors is an upper limit.
    """
    both = list(zip(rows, kinds, strict=True))
    of_images = float(np.mean([reduction_error(row, kind) for row, kind in both]))
    of_networks = error([reduction(row[kind]) for row, kind in both]) / sqrt(len(rows))
    return max(of_images, of_networks)


def _apart_by_chance(rows: Sequence[Mapping[str, Any]], clean: float) -> dict[str, str]:
    """The probability that, on other images, the mean temperature difference is not three times the clean one."""
    apart = float(np.mean([difference(row["clean"]) for row in rows]))
    bar = float(np.mean([difference_error(row) for row in rows]))
    return {"apart_fails": in_words(beyond(apart - 3 * clean, bar) / 2)}


def _validation_only(rows: Sequence[Row]) -> dict[str, Any]:
    """Noise in the validation labels alone: on how many networks the ECE of clean test labels is worse than uncalibrated."""
    return {
        **{f"n_worse_{method}": sum(row[f"ece_{method}"] > row["ece"] for row in rows) for method in ("ts", "ec")},
        "before_only": float(np.mean([row["ece"] for row in rows])),
        **{f"{method}_only": float(np.mean([row[f"ece_{method}"] for row in rows])) for method in ("ts", "ec")},
    }


def _agrees(n: Numbers, ours: str) -> bool:
    """Whether our mean differs from the paper's by no more than chance."""
    return bool(abs(n[ours] - n["reduction_paper"]) <= TWO_SIDED * hypot(n[f"{ours}_error"], n["reduction_paper_error"]))


STATEMENTS = (
    Statement(
        "size of the reduction",
        "4",
        "EC yields an reduction of the test ECE of 7 % on average",
        "the means of (ECE_TS − ECE_EC) / ECE_TS over our eight networks and over the paper's differ by at most 1.96 standard "
        "errors of the difference",
        "{reduction:.0%} ± {reduction_error:.0%} on our eight networks with clean validation images; "
        "{reduction_augmented:.0%} ± {reduction_augmented_error:.0%} with augmented ones on {n_augmented} of the eight",
        lambda n: _agrees(n, "reduction"),
        "with augmented validation images for CIFAR-10, as in the paper; with clean ones it is larger",
        lambda n: _agrees(n, "reduction_augmented"),
        paper_data="{reduction_paper:.1%} ± {reduction_paper_error:.1%}, the mean over the table of Appendix C (± over its "
        "networks)",
        paper_holds=lambda n: abs(n["reduction_paper"] - n["reduction_claimed"]) <= _NEAR,
        chance="fails with probability 0.05 if the two means are equal for infinitely many networks",
    ),
    Statement(
        "different temperatures",
        "4",
        "EC and TS yield different temperatures, contrary to the results described in Table 1",
        "|T_TS − T_EC| / T_TS is on average more than three times as large as with clean labels",
        "{noisy_apart:.0%} on average under noise, {clean_apart:.1%} with clean labels, on {n} networks",
        lambda n: n["noisy_apart"] > 3 * n["clean_apart"],
        paper_data="{noisy_apart_paper:.0%} on average under noise, {clean_apart_paper:.1%} in Table 1",
        paper_holds=lambda n: n["noisy_apart_paper"] > 3 * n["clean_apart_paper"],
        chance="on other images of the same number it would fail with probability {apart_fails}",
    ),
    Statement(
        "share of corrupted labels",
        "C",
        "around 10% of validation/test data is corrupted",
        "between 8 and 12 % on average over networks",
        "{share:.1%} on average; less on SVHN, where class 0 is rarer than the others",
        lambda n: 0.08 <= n["share"] <= 0.12,
    ),
    Statement(
        "EC better than TS under noise",
        "C",
        "EC outperforms TS by a significant margin on several datasets and architectures",
        "on at least two networks the ECE after EC is lower than after TS by a fifth or more",
        "lower on {n_lower} of {n} networks, by a fifth or more on {n_margin}",
        lambda n: n["n_margin"] >= 2,
        paper_data="lower in {n_lower_paper} of {n_paper} rows, by a fifth or more in {n_margin_paper}",
        paper_holds=lambda n: n["n_margin_paper"] >= 2,
        chance="passes with probability {margin_by_chance} if the two have the same ECE on every network",
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
