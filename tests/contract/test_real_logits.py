"""Logits of real networks, where `NISHIMORI_DATA` names a folder that has them."""

import os
from pathlib import Path

import numpy as np
import pytest
import reference

import nishimori
from nishimori import metrics

FOLDER = Path(os.environ["NISHIMORI_DATA"]) / "logits" if "NISHIMORI_DATA" in os.environ else None
FILES = sorted(FOLDER.glob("*.npz")) if FOLDER else []

pytestmark = pytest.mark.skipif(not FILES, reason="NISHIMORI_DATA does not name a folder with logits/*.npz")


def load(path):
    with np.load(path, allow_pickle=False) as file:
        return file["logits"], file["labels"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_both_temperatures_agree_with_scipy_on_the_definition(path):
    logits, labels = load(path)
    found = nishimori.temperatures(logits, labels)
    assert found.ec == pytest.approx(reference.ec_temperature(logits, labels, low=0.1, high=10), rel=1e-8)
    assert found.ts == pytest.approx(reference.ts_temperature(logits, labels, low=0.1, high=10), rel=1e-8)


# Table 1 of arXiv:2303.02644, with one digit more, of the authors' own networks.
@pytest.mark.parametrize(
    ("name", "error", "ece", "brier"),
    [("ecpaper__cifar10__resnet20", 0.1349, 0.0535, 0.1998), ("ecpaper__cifar10__resnet56", 0.1319, 0.0598, 0.2022)],
)
def test_the_authors_networks_give_the_papers_uncalibrated_columns(name, error, ece, brier):
    logits, labels = load(FOLDER / f"{name}.npz")
    assert round(metrics.error(logits, labels), 4) == error
    assert round(metrics.ece(logits, labels, strategy="quantile"), 4) == ece
    assert round(metrics.brier(logits, labels), 4) == brier
