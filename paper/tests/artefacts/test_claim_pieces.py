"""The work behind the claims, against second computations and against values worked out independently."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

from nishimori import data, theory
from nishimori.data import Labelled
from nishimori_paper._artefact import Scale
from nishimori_paper.artefacts._claims import _bayes, _maximisation, _method, _networks, _precision, _regression
from nishimori_paper.artefacts._figure_density import solved

AUTHORS = "cifar10/resnet20-authors"


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
    assert found["loss"] == pytest.approx(-np.log(p[np.arange(len(labels)), labels]).mean(), rel=1e-5)
    assert [found["confidence"][T] for T in ("0.5", "1", "2")] == pytest.approx(
        [softmax(logits, float(T)).max(axis=1).mean() for T in ("0.5", "1", "2")], rel=1e-5
    )
    # The rank of the label among the logits of its row.
    rank = (logits > logits[np.arange(len(labels)), labels][:, None]).sum(axis=1)
    assert found["top_n"] == pytest.approx([(rank < n).mean() for n in range(1, 11)], abs=5e-4)


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
    assert 5e-4 < found["lead_error"] < 5e-3  # ten bootstrap samples


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
