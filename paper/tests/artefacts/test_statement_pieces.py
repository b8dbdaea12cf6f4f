"""The work behind the statements, against second computations and against values worked out independently."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

from nishimori import data, metrics
from nishimori.data import Labelled
from nishimori_paper import theory
from nishimori_paper._artefact import Scale
from nishimori_paper.artefacts._figure_density import solved
from nishimori_paper.artefacts._statements import (
    _bayes,
    _maximisation,
    _method,
    _minimum,
    _networks,
    _precision,
    _regression,
    _related_work,
    _resamples,
    _subsets,
)

AUTHORS = "cifar10/resnet20-authors"
ROOT = Path(__file__).parents[3]


def softmax(logits, T=1.0):
    z = np.asarray(logits, dtype=float) / T
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def log_temperatures(logits, labels):
    """log T_EC and log T_TS by bisection and by minimising the loss."""
    right = (logits.argmax(axis=1) == labels).mean()
    ec = brentq(lambda x: softmax(logits, np.exp(x)).max(axis=1).mean() - right, -4, 4, xtol=1e-13)
    rows = np.arange(len(labels))

    def slope(x):
        p = softmax(logits, np.exp(x))
        return ((p * logits).sum(axis=1) - logits[rows, labels]).mean()

    return ec, brentq(slope, -4, 4, xtol=1e-13)


def test_the_variances_of_both_temperatures_are_those_of_the_jackknife():
    generator = np.random.default_rng(5)
    n = 250
    logits = 2 * generator.normal(size=(n, 4))
    labels = np.array([generator.choice(4, p=p) for p in softmax(logits, 1.7)])
    ec, ts = np.exp(log_temperatures(logits, labels))
    found = _precision.spreads(Labelled(logits, labels), ec, ts)
    without = np.array([log_temperatures(np.delete(logits, i, axis=0), np.delete(labels, i)) for i in range(n)])
    influence = (n - 1) * (without.mean(axis=0) - without)
    assert found["variance_ec"] == pytest.approx((influence[:, 0] ** 2).mean(), rel=0.05)
    assert found["variance_ts"] == pytest.approx((influence[:, 1] ** 2).mean(), rel=0.05)
    ratio = np.exp(without[:, 0] - without[:, 1])
    assert found["difference_error"] == pytest.approx(ratio.std() * (n - 1) / np.sqrt(n), rel=0.05)
    assert found["difference"] == pytest.approx(abs(1 - ec / ts), rel=1e-9)


def test_a_difference_of_temperatures_is_positive_also_if_ec_is_the_higher():
    sample = Labelled(np.array([[1.0, 0.0], [0.5, 0.0], [0.0, 1.0]]), np.array([0, 1, 1]))
    assert _precision.spreads(sample, 2.5, 2.0)["difference"] == 0.25
    assert _precision.spreads(sample, 1.5, 2.0)["difference"] == 0.25


def test_the_precision_of_a_network_comes_with_its_confidence_from_cold_to_hot():
    validation = data.load(AUTHORS).validation
    found = _precision._piece(AUTHORS, Scale())
    assert found["confidence"] == pytest.approx(
        [softmax(validation.logits, T).max(axis=1).mean() for T in _precision.GRID], abs=1e-3
    )
    assert list(_precision.GRID) == sorted(_precision.GRID)
    assert found["accuracy"] == pytest.approx((validation.logits.argmax(axis=1) == validation.labels).mean())
    assert found["n_classes"] == 10
    assert 1 <= found["n_passes_ec"] <= 4
    assert 1 <= found["n_passes_ts"] <= 4


def test_the_19_bundled_networks_are_measured():
    assert sorted(_precision.measured_networks()) == sorted(data.names())


def test_facts_about_one_network():
    found = _method._one_network(Scale())
    network = data.load(AUTHORS)
    logits, labels = network.validation.logits, network.validation.labels
    for key, part in (("ec_validation", network.validation), ("ec_test", network.test)):
        assert np.log(found[key]) == pytest.approx(log_temperatures(part.logits.astype(float), part.labels)[0], abs=1e-5)
    p = softmax(logits)
    log_likelihood = np.log(p[np.arange(len(labels)), labels]).mean()
    assert (found["loss"], found["log_likelihood"]) == pytest.approx((-log_likelihood, log_likelihood), rel=1e-5)
    augmented = log_temperatures(network.augmented.logits.astype(float), network.augmented.labels)[0]
    assert np.log(found["ec_augmented"]) == pytest.approx(augmented, abs=1e-5)
    assert found["n_validation"] == len(labels)
    assert [found["confidence"][T] for T in ("0.5", "1", "2")] == pytest.approx(
        [softmax(logits, float(T)).max(axis=1).mean() for T in ("0.5", "1", "2")], rel=1e-5
    )
    # The rank of the label among the logits of its row.
    rank = (logits > logits[np.arange(len(labels)), labels][:, None]).sum(axis=1)
    assert found["top_n"] == pytest.approx([(rank < n).mean() for n in range(1, 11)], abs=5e-4)
    # Mean confidence at the T of the literal remark is the top-N accuracy; all labels are among the ten largest.
    for n, T in enumerate(found["literal"][:-1], 1):
        assert softmax(logits, T).max(axis=1).mean() == pytest.approx(found["top_n"][n - 1], abs=1e-6)
    assert found["literal"][-1] is None


def test_resamples_of_two_networks_have_the_same_images_and_differences_their_sign():
    row = {"ece": 0.1, "ece_ts": 0.03, "ece_ec": 0.02, "brier": 0.3, "brier_ts": 0.25, "brier_ec": 0.26}
    assert _resamples.differences(row) == pytest.approx(
        {
            "lead": 0.01,
            "brier_lead": -0.01,
            "ece_gain_ts": 0.07,
            "ece_gain_ec": 0.08,
            "brier_gain_ts": 0.05,
            "brier_gain_ec": 0.04,
        }
    )
    network, scale = data.load(AUTHORS), Scale(quick=True)
    near = {"temperature_ts": 1.52, "temperature_ec": 1.51}
    found = _resamples.resampled_differences(AUTHORS, network, near, scale)
    same = _resamples.resampled_differences("cifar10/resnet20", network, near, scale)
    other = _resamples.resampled_differences("svhn/resnet20", network, near, scale)
    assert found == same != other
    assert {len(draws) for draws in found.values()} == {10}
    # The first draw, once more by hand: how often each image counts, then both temperatures and the ECE of each.
    generator = np.random.default_rng([0, *b"cifar10"])
    counts = [np.bincount(generator.integers(n, size=n), minlength=n) for n in (5000, 10000)]
    rows = np.repeat(np.arange(5000), counts[0])
    ec, ts = np.exp(log_temperatures(network.validation.logits[rows].astype(float), network.validation.labels[rows]))
    ece = [
        metrics.ece(network.test.logits, network.test.labels, temperature=T, sample_weight=counts[1], strategy="quantile")
        for T in (ts, ec)
    ]
    assert found["lead"][0] == pytest.approx(ece[0] - ece[1], abs=1e-6)


def test_curves_of_the_ece_are_those_of_the_metric_for_any_weights():
    test = data.load(AUTHORS).test
    part = Labelled(test.logits[:2000], test.labels[:2000])
    grid = np.array([1.2, 1.5, 1.8])
    curves = _minimum.EceCurves.from_labelled(part, grid)
    weights = np.random.default_rng(0).integers(0, 3, size=2000).astype(float)
    # All copies of a sample that lies on the edge of two bins belong to one of them, which is another one than in the metric.
    for w, tolerance in ((np.ones(2000), 5e-4), (weights, 2e-3)):
        direct = [
            metrics.ece(part.logits, part.labels, temperature=T, sample_weight=w, strategy="quantile") for T in grid.tolist()
        ]
        found = curves.ece(w)
        assert found == pytest.approx(direct, abs=tolerance)
        assert curves.least(w) == grid[np.argmin(found)]


def test_the_minimum_of_the_test_ece_is_that_of_a_grid():
    found = _minimum._piece(AUTHORS, Scale(quick=True))
    test = data.load(AUTHORS).test
    grid = np.arange(1.3, 1.9, 0.02)
    ece = [metrics.ece(test.logits, test.labels, temperature=T, strategy="quantile") for T in grid.tolist()]
    assert found["least"] == pytest.approx(grid[np.argmin(ece)], abs=0.05)
    assert (found["clean"]["ts"], found["clean"]["ec"]) == pytest.approx((1.52, 1.51), abs=0.005)
    assert found["augmented"]["ts"] == pytest.approx(1.35, abs=0.03)
    # The error of T_EC alone is 0.04; that of the minimum comes on top.
    assert 0.04 < found["error"] < 0.3
    assert _minimum.distance(found, "clean") == min(abs(found["least"] - T) for T in found["clean"].values())


def test_subsets_give_the_mean_ece_of_few_samples():
    found = _subsets._piece(AUTHORS, Scale(quick=True))
    network = data.load(AUTHORS)
    generator = np.random.default_rng([0, *AUTHORS.encode()])
    drawn = []
    for _ in range(100):
        rows = generator.choice(5000, 100, replace=False)
        ec, ts = np.exp(log_temperatures(network.validation.logits[rows].astype(float), network.validation.labels[rows]))
        drawn.append(
            [metrics.ece(network.test.logits, network.test.labels, temperature=T, strategy="quantile") for T in (ts, ec)]
        )
    before = metrics.ece(network.test.logits, network.test.labels, strategy="quantile")
    assert found["before"] == pytest.approx(before, rel=0.01)
    assert found["100"] == pytest.approx(np.mean(drawn, axis=0), rel=0.01)
    assert found["1000"][0] < found["100"][0]  # more samples, a lower ECE
    assert found["1000"][1] < found["100"][1]


def test_the_posterior_is_better_than_logistic_regression_after_ts():
    """Loss and Brier score of TS are at least those of the Bayes-optimal predictor, and much higher for a constant teacher."""
    logit, constant = (_related_work._excess(teacher) for teacher in ("logit", "constant"))
    assert len(logit) == len(constant) == 4
    assert all(0 < row[key] < 1e-5 for row in logit for key in ("loss", "brier"))
    best, found = theory.bayes_optimal("constant", 20.0), theory.state_evolution("constant", 20.0, 1e-4)
    T = found.temperature_ts
    assert constant[-1]["brier"] == pytest.approx(found.brier(T) / best.brier - 1, rel=0.01)  # the penalty hardly matters
    assert constant[-1]["loss"] == pytest.approx(found.loss(T) / best.loss - 1, rel=0.01)


def test_losses_of_bayesian_methods_are_those_of_the_population_and_of_the_study_of_laplace():
    found = _related_work._of_networks()
    population = json.loads((ROOT / "paper" / "population_results.json").read_text(encoding="utf-8"))
    single, dropping = (population["kinds"][kind]["values"] for kind in ("c10-cosine", "c10-dropout"))
    lines = (ROOT / "bench" / "results" / "laplace.md").read_text(encoding="utf-8").splitlines()
    page = {cells[1].strip(): cells for cells in (line.split("|") for line in lines) if len(cells) > 4}
    best = min((cells for title, cells in page.items() if title.startswith("Laplace")), key=lambda cells: float(cells[2]))
    for metric, unit, column in (("nll", 1, 2), ("ece", 100, 4)):
        expected = {
            "ensemble": (population["ensemble"][f"{metric} none"]["value"], single[f"{metric} ts"]["mean"]),
            "dropout": (dropping[f"passes {metric} none"]["mean"], dropping[f"{metric} ts"]["mean"]),
            "laplace": (float(best[column]), float(page["TS"][column])),
        }
        for name, pair in expected.items():
            assert [unit * found[name][metric], unit * found[name][f"{metric}_ts"]] == pytest.approx(pair, rel=1e-4)


def test_samples_that_are_all_right_or_all_wrong_have_no_temperature():
    assert _method._one_sided(Scale()) == ["cold", "hot"]


def test_the_class_frequencies_have_no_ece_and_a_large_error():
    labels = data.load("svhn/resnet20-authors").test.labels
    found = _method._constant(Scale())
    assert found["ece"] < 1e-12
    assert found["error"] == pytest.approx(1 - np.bincount(labels).max() / len(labels))
    assert found["network_error"] == pytest.approx(0.07, abs=0.001)


def test_the_authors_resnet20_has_the_temperatures_found_before():
    """Clean images give about 1.52 and 1.51 and an ECE of 0.58 and 0.64 %, augmented ones T of about 1.35."""
    found = _networks._real(AUTHORS, Scale(quick=True))
    clean, augmented = found["clean"], found["augmented"]
    assert (clean["temperature_ts"], clean["temperature_ec"]) == pytest.approx((1.52, 1.51), abs=0.005)
    assert (clean["ece_ts"], clean["ece_ec"]) == pytest.approx((0.0058, 0.0064), abs=5e-5)
    assert (augmented["temperature_ts"], augmented["temperature_ec"]) == pytest.approx((1.35, 1.35), abs=0.03)
    assert found["confidence"] == pytest.approx(softmax(data.load(AUTHORS).test.logits).max(axis=1).mean(), rel=1e-5)
    p = softmax(data.load(AUTHORS).test.logits)
    gap = p.max(axis=1) - (p.argmax(axis=1) == data.load(AUTHORS).test.labels)
    assert found["confidence_error"] == pytest.approx(gap.std() / 100, rel=1e-6)  # 10,000 images
    assert 0.01 < found["temperature_errors"]["clean errors of a fit"]["temperature_ec"] < 0.06


def test_sizes_of_networks_and_of_svhn():
    found = _networks._sizes(Scale())
    # ResNet20 of width 16 with zero-padded shortcuts: convolutions, two numbers per channel and normalisation, last layer.
    convolutions = 9 * (3 * 16 + 6 * 16 * 16 + 16 * 32 + 5 * 32 * 32 + 32 * 64 + 5 * 64 * 64)
    assert found["parameters"]["resnet20"] == pytest.approx((convolutions + 2 * (7 * 16 + 6 * 32 + 6 * 64) + 650) / 1e6)
    assert list(found["parameters"]) == ["resnet20", "resnet56", "densenet121"]
    assert (found["svhn_train"], found["svhn_validation"]) == (65932, 7325)


def affine_delta(level, m, q):
    """Δ for the affine teacher by direct integration."""
    mean, spread = m / q * np.log(level / (1 - level)), np.sqrt(1 - m * m / q)

    def integrand(z):
        return np.clip((1 + z) / 2, 0, 1) * np.exp(-(((z - mean) / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi))

    low, high = mean - 12 * spread, mean + 12 * spread
    return level - quad(integrand, low, high, points=sorted({min(max(x, low), high) for x in (-1.0, 1.0)}), epsabs=1e-12)[0]


def test_the_density_figure_is_overconfident_up_to_a_level_and_its_integral_is_half():
    found, result = _regression._density(), solved()
    assert found["half"] == pytest.approx(0.5, abs=1e-4)
    changes = brentq(lambda level: affine_delta(level, result.m, result.q), 0.9, 0.99)
    assert found["overconfident_below"] == pytest.approx(changes, abs=1e-4)
    least = minimize_scalar(lambda level: affine_delta(level, result.m, result.q), (0.98, 0.99, 0.995))
    assert found["least_delta"] == pytest.approx(least.fun, abs=1e-6)
    assert found["least_delta_at"] == pytest.approx(least.x, abs=1e-3)


def test_at_the_best_loss_t_is_one_and_the_scale_is_not_the_teachers():
    """The scale √q/T grows from 0.33 at α = 1 to 0.94 at α = 50, T_TS is 1.0004 and 1.00002 at α = 1 and 20."""
    found = {row["alpha"]: row for row in _regression._well_specified()}
    assert list(found) == [1, 2, 5, 10, 20, 50]
    assert found[1]["scale_ts"] == pytest.approx(0.33, abs=0.005)
    assert found[50]["scale_ec"] == pytest.approx(0.94, abs=0.005)
    assert (found[1]["ts"], found[20]["ts"]) == pytest.approx((1.0004, 1.00002), abs=1e-5)
    for row in found.values():
        assert row["scale_ts"] * row["ts"] == pytest.approx(row["scale_ec"] * row["ec"], rel=1e-9)


@pytest.mark.parametrize("teacher", ["probit", "constant"])
def test_bayesian_estimation_at_three_sampling_ratios(teacher):
    rows = _bayes._bayes(teacher)
    assert len(rows) == 3
    for alpha, row in zip((1.0, 3.0, 10.0), rows, strict=True):
        best = theory.bayes_optimal(teacher, alpha)
        assert row["confidence"] == pytest.approx(best.accuracy, abs=1e-9)
        assert (row["accuracy"], row["ece"]) == pytest.approx((best.accuracy, best.ece), abs=1e-9)
        assert ("ts" in row) == (teacher == "probit")  # the constant teacher's likelihood is not log-concave
        if teacher == "probit":
            nearby = [theory.bayes_optimal(teacher, alpha, temperature=T).error - best.error for T in (0.95, 1.05)]
            assert row["error_nearby"] == pytest.approx(sorted(nearby)[0], abs=1e-12)
            assert nearby[0] != pytest.approx(nearby[1], rel=1e-3)


def test_the_evidence_is_largest_at_the_teachers_temperature_and_falls_on_both_sides():
    np.testing.assert_allclose(_maximisation._most_evidence("probit"), [1.0, 1.0, 1.0], rtol=1e-8)
    for alpha in (1.0, 3.0, 10.0):
        cold, best, hot = (theory.bayes_optimal("probit", alpha, temperature=T).free_energy for T in (0.9, 1.0, 1.1))
        assert best < min(cold, hot)


def test_the_groups_on_maximisation_and_similarity_do_the_work_of_their_artefacts():
    names = list(_maximisation.GROUP.pieces(Scale(quick=True)))
    assert names == [
        "evidence logit",
        "evidence probit",
        "evidence affine",
        *(f"EM probit T* = {T}" for T in ("0.5", "1", "2")),
    ]
