"""How much the numbers of the tables vary over trainings and over random views of the images, from ``spreads.toml``.

A table holds one training. Another seed gives other numbers, and so does another draw of the augmentation that the paper
calibrated on, so a printed number is compared with the spread over seeds or draws.
"""

import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Labels = Literal["clean", "noisy"]
Row = dict[str, float]


def further_trainings(name: str, labels: Labels, kind: str) -> Sequence[Row]:
    """A row of the tables for each further training of a network; empty for a network that was trained once.

    Parameters
    ----------
    name : str
        The network, such as ``"cifar10/resnet20"``.
    labels : {"clean", "noisy"}
        Without label noise (Table 1), or with it.
    kind : {"clean", "augmented"}
        The validation images that were calibrated on.

    Examples
    --------
    >>> len(further_trainings("cifar10/resnet20", "clean", "augmented"))
    5
    >>> further_trainings("cifar100/vgg19", "clean", "clean")
    []
    """
    return _rows(_spreads()["trainings"].get(name, {}).get(f"{labels}_labels", {}).get(kind, {}))


def augmentation_draws(name: str, labels: Labels) -> Sequence[Row]:
    """The calibrated columns of the tables for each random view of the validation images; empty if there is one view only."""
    return _rows(_spreads()["augmentations"].get(name, {}).get(f"{labels}_labels", {}))


@cache
def _spreads() -> dict[str, Any]:
    return tomllib.loads(files("nishimori_paper").joinpath("spreads.toml").read_text(encoding="utf-8"))


def _rows(columns: Mapping[str, Sequence[float]]) -> list[Row]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
