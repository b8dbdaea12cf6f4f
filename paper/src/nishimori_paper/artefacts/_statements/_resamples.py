"""Standard errors of differences between methods: other images of the same number, and other networks.

Networks of one data set share their images, so that their errors are not independent. The same images are drawn for all of
them, and the error of a mean over networks is the spread of that mean over the draws.
"""

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from nishimori.data import Network
from nishimori_paper._artefact import Scale
from nishimori_paper._measured import Row, resampled, scores_by_kind
from nishimori_paper._names import NetworkName
from nishimori_paper.artefacts._statements._chance import TWO_SIDED

COLUMNS = ("lead", "brier_lead", "ece_gain_ts", "ece_gain_ec", "brier_gain_ts", "brier_gain_ec")


def differences(row: Row) -> dict[str, float]:
    """How much lower scores are after EC than after TS, and after each than before."""
    gains = {
        f"{metric}_gain_{method}": row[metric] - row[f"{metric}_{method}"]
        for metric in ("ece", "brier")
        for method in ("ts", "ec")
    }
    return {"lead": row["ece_ts"] - row["ece_ec"], "brier_lead": row["brier_ts"] - row["brier_ec"], **gains}


def resampled_differences(name: str, loaded: Network, row: Row, scale: Scale) -> dict[str, list[float]]:
    """`differences` for bootstrap samples of validation and test images, the same images for all networks of a data set."""
    generator = np.random.default_rng([scale.seed, *NetworkName.parse(name).dataset.encode()])
    drawn = []
    for _ in range(10 if scale.quick else 40):
        weights = resampled(loaded, generator)
        drawn.append(differences(scores_by_kind({"": loaded.validation}, loaded.test, **weights, near={"": row})[""]))
    return {column: [row[column] for row in drawn] for column in COLUMNS}


def error(draws: Sequence[float]) -> float:
    """The standard error of one difference."""
    return float(np.std(draws, ddof=1))


def pooled(values: Sequence[float], draws: Sequence[Sequence[float]]) -> dict[str, float]:
    """The mean over networks and its standard error: for other images or for other networks, whichever is larger."""
    of_images = error(np.mean(draws, axis=0).tolist())
    of_networks = error(values) / sqrt(len(values))
    return {"mean": float(np.mean(values)), "error": max(of_images, of_networks)}


def farther_limit(numbers: Mapping[str, float]) -> float:
    """The end of a mean's 95 % interval that is farther from zero, as a distance."""
    return abs(numbers["mean"]) + TWO_SIDED * numbers["error"]


def column(pieces: Sequence[Mapping[str, Any]], name: str) -> list[list[float]]:
    """The draws of one difference, by network."""
    return [piece["draws"][name] for piece in pieces]
