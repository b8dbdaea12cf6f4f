"""The study of classes of other frequencies runs at a small size, and its oracle is the best that numbers per class can do."""

import numpy as np
import pytest


@pytest.fixture
def study():
    import prevalence

    return prevalence


def test_no_numbers_per_class_have_less_loss_than_the_oracle(study):
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(3, size=200), rng.uniform(0.5, 2, 200)
    log_p = np.log(rng.dirichlet(np.ones(3), 200))
    least = study.least_loss(log_p, labels, weights, np.zeros(3))

    def loss(added):
        z = log_p + added
        return np.average(np.log(np.exp(z).sum(axis=1)) - z[np.arange(200), labels], weights=weights)

    assert loss(np.zeros(3)) > least
    assert min(loss(added) for added in rng.normal(scale=0.5, size=(500, 3))) >= least


def test_shares_are_drawn_as_their_name_says(study):
    for kind, draw in study.SHIFTS.items():
        shares = draw(np.random.default_rng(0), 10)
        assert shares.sum() == pytest.approx(1), kind
        assert shares.min() > 0, kind
    assert np.sort(study.SHIFTS["one class 50%"](np.random.default_rng(0), 10))[-2:].tolist() == pytest.approx([0.5 / 9, 0.5])


def test_most_of_what_the_oracle_gains_is_gained(run_study, tmp_path):
    run_study("prevalence", "--splits", "0", "--shifts", "1", "--networks", "cifar10/resnet20", "--out", tmp_path / "found.md")
    lines = (tmp_path / "found.md").read_text(encoding="utf-8").split("Share of the oracle's gain")[1].splitlines()
    shares = {
        cells[1].strip(): cells[3] for cells in (line.split("|") for line in lines if line.startswith("| ")) if "%" in cells[3]
    }
    assert float(shares["one class 90%"].removesuffix(" % ")) > 90
