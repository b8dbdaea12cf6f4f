"""The same numbers as uncertainty-calibration, scikit-learn and torchmetrics, and where their conventions differ from ours."""

from importlib import import_module

import calibration
import numpy as np
import pytest
import reference
import torch
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from nishimori import metrics

EXACT = {"rel": 0, "abs": 1e-12}
SINGLE = {"rel": 0, "abs": 1e-4}  # torchmetrics computes in float32
SIZES = [(7, 3), (101, 2), (1003, 4), (997, 12)]  # none divisible by 15; fewer samples than bins
SCHEMES = {"uniform": calibration.utils.get_equal_prob_bins, "quantile": calibration.utils.get_equal_bins}
MODES = {"top": "top-label", "classwise": "marginal"}
NORMS = ["l1", "l2", "max"]


@pytest.fixture(scope="module")
def torchmetrics():
    """Imported here, because it takes seconds and all files are imported by each worker."""
    return import_module("torchmetrics.classification")


@pytest.fixture(params=SIZES, ids=str)
def sample(request):
    logits, labels = reference.drawn(*request.param, seed=1)
    return logits, labels, reference.softmax(logits)


@pytest.fixture
def positive():
    """Flat logits, labels and the probability of class 1 of a binary problem."""
    logits, labels = reference.drawn(1003, 2, seed=2)
    return logits[:, 1] - logits[:, 0], labels, reference.softmax(logits)[:, 1]


@pytest.mark.parametrize("of", MODES)
def test_uniform_ece_is_that_of_uncertainty_calibration(of, sample):
    logits, labels, p = sample
    assert metrics.ece(logits, labels, of=of) == pytest.approx(calibration.get_ece(p, labels, mode=MODES[of]), **EXACT)


@pytest.mark.parametrize("of", MODES)
def test_quantile_ece_is_that_of_uncertainty_calibration(of, sample):
    logits, labels, p = sample
    measured = metrics.ece(logits, labels, strategy="quantile", of=of)
    assert measured == pytest.approx(calibration.get_ece_em(p, labels, mode=MODES[of]), **EXACT)


@pytest.mark.parametrize("n_bins", [2, 15, 40])
@pytest.mark.parametrize("strategy", SCHEMES)
def test_l2_top_error_is_that_of_uncertainty_calibration(strategy, n_bins, sample):
    logits, labels, p = sample
    options = {"p": 2, "debias": False, "num_bins": n_bins, "binning_scheme": SCHEMES[strategy], "mode": "top-label"}
    measured = metrics.ece(logits, labels, strategy=strategy, n_bins=n_bins, norm="l2")
    assert measured == pytest.approx(calibration.lower_bound_scaling_ce(p, labels, **options), **EXACT)


@pytest.mark.parametrize("strategy", SCHEMES)
@pytest.mark.parametrize(("norm", "power"), [("l1", 1), ("l2", 2)])
def test_the_error_of_the_positive_class_is_that_of_uncertainty_calibration(strategy, norm, power, positive):
    z, labels, p = positive
    expected = calibration.lower_bound_scaling_ce(p, labels, power, False, 15, SCHEMES[strategy])
    assert metrics.ece(z, labels, strategy=strategy, norm=norm, of="positive") == pytest.approx(expected, **EXACT)


@pytest.mark.parametrize("decimals", [1, 2, 3])
@pytest.mark.parametrize("strategy", SCHEMES)
def test_rounded_probabilities_give_the_ece_of_uncertainty_calibration(strategy, decimals, positive):
    _, labels, p = positive
    rounded = p.round(decimals)
    expected = calibration.lower_bound_scaling_ce(rounded, labels, 1, False, 10, SCHEMES[strategy])
    options = {"n_bins": 10, "strategy": strategy, "of": "positive", "input": "probabilities"}
    assert metrics.ece(rounded, labels, **options) == pytest.approx(expected, **EXACT)


@pytest.mark.parametrize("of", MODES)
@pytest.mark.parametrize("strategy", SCHEMES)
def test_massive_ties_give_the_ece_of_uncertainty_calibration(strategy, of):
    logits, labels = reference.drawn(1003, 3, scale=100)
    p = reference.softmax(logits)
    assert (p.max(axis=1) == 1).sum() > 1003 / 15
    expected = calibration.lower_bound_scaling_ce(p, labels, 1, False, 15, SCHEMES[strategy], MODES[of])
    assert metrics.ece(logits, labels, strategy=strategy, of=of) == pytest.approx(expected, **EXACT)


def test_uncertainty_calibration_takes_the_root_mean_square_over_classes_where_we_take_the_mean():
    p, labels = np.array([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1]]), np.array([0, 0])
    by_class = [reference.ece(p[:, k], labels == k, np.array([0.0, 1.0]), norm="l2") for k in range(3)]
    np.testing.assert_allclose(by_class, [0.45, 0.35, 0.1])
    ours = metrics.ece(p, labels, n_bins=1, norm="l2", of="classwise", input="probabilities")
    theirs = calibration.lower_bound_scaling_ce(p, labels, 2, False, 1, SCHEMES["uniform"], "marginal")
    assert ours == pytest.approx(np.mean(by_class), **EXACT)
    assert theirs == pytest.approx(np.sqrt(np.mean(np.square(by_class))), **EXACT)


def test_nll_is_the_log_loss_of_scikit_learn(sample):
    logits, labels, p = sample
    weights = 1 + np.arange(len(labels)) % 3
    expected = log_loss(labels, p, sample_weight=weights, labels=np.arange(p.shape[1]))
    assert metrics.nll(logits, labels, sample_weight=weights) == pytest.approx(expected, rel=1e-12)


def test_scikit_learn_clips_the_log_loss_of_a_hopeless_miss_where_ours_is_exact():
    logits, labels = [[0.0, 100.0], [0.0, 100.0]], [0, 1]
    assert metrics.nll(logits, labels) == pytest.approx(50, rel=1e-12)
    assert log_loss(labels, reference.softmax(logits)) < 20


def test_brier_is_the_brier_score_of_scikit_learn(sample):
    logits, labels, p = sample
    weights = 1 + np.arange(len(labels)) % 3
    expected = brier_score_loss(labels, p, sample_weight=weights, labels=np.arange(p.shape[1]), scale_by_half=False)
    assert metrics.brier(logits, labels, sample_weight=weights) == pytest.approx(expected, rel=1e-12)


def test_scikit_learn_halves_the_binary_brier_score(positive):
    z, labels, p = positive
    assert metrics.brier(z, labels) == pytest.approx(2 * brier_score_loss(labels, p), rel=1e-12)


@pytest.mark.parametrize("n_bins", [3, 10, 15])
def test_the_uniform_curve_of_the_positive_class_is_that_of_scikit_learn(n_bins, positive):
    z, labels, p = positive
    true, claimed = calibration_curve(labels, p, n_bins=n_bins, strategy="uniform")
    curve = metrics.reliability(z, labels, n_bins=n_bins, of="positive")
    np.testing.assert_allclose(curve.confidence, claimed, rtol=1e-12)
    np.testing.assert_allclose(curve.accuracy, true, rtol=1e-12)


def test_scikit_learn_interpolates_quantile_edges_where_ours_are_claims_that_bound_equal_counts():
    p, labels = np.array([0.1, 0.2, 0.3, 0.4, 0.9]), np.array([0, 0, 1, 1, 1])
    ours = metrics.reliability(p, labels, n_bins=3, strategy="quantile", of="positive", input="probabilities")
    np.testing.assert_allclose(ours.confidence, [0.15, 0.35, 0.9])  # 2, 2 and 1 of five, as `numpy.array_split` has it
    _, theirs = calibration_curve(labels, p, n_bins=3, strategy="quantile")
    np.testing.assert_allclose(theirs, [0.15, 0.3, 0.65])  # edges at 0.2333 and 0.3667: 2, 1 and 2


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(("n", "k"), SIZES, ids=str)
def test_top_error_is_that_of_torchmetrics(n, k, norm, torchmetrics):
    logits, labels = reference.drawn(n, k, scale=1.0)
    metric = torchmetrics.MulticlassCalibrationError(k, n_bins=15, norm=norm)
    expected = metric(torch.tensor(reference.softmax(logits)), torch.tensor(labels)).item()
    assert metrics.ece(logits, labels, norm=norm) == pytest.approx(expected, **SINGLE)


@pytest.mark.parametrize("norm", NORMS)
def test_the_error_of_the_positive_class_is_that_of_torchmetrics(norm, positive, torchmetrics):
    z, labels, p = positive
    expected = torchmetrics.BinaryCalibrationError(n_bins=15, norm=norm)(torch.tensor(p), torch.tensor(labels)).item()
    assert metrics.ece(z, labels, norm=norm, of="positive") == pytest.approx(expected, **SINGLE)


def test_torchmetrics_counts_a_claim_on_an_edge_in_the_bin_above_it(torchmetrics):
    # Ours: 0.5 shares the lower bin with 0.25, gaps 0.375 - 1 / 2 and 0.75 - 1. Theirs: 0.5 shares the upper one with 0.75.
    p, labels = np.array([0.25, 0.5, 0.75]), np.array([0, 1, 1])
    ours = metrics.ece(p, labels, n_bins=2, of="positive", input="probabilities")
    assert ours == pytest.approx(2 / 3 * 0.125 + 1 / 3 * 0.25, **EXACT)
    theirs = torchmetrics.BinaryCalibrationError(n_bins=2)(torch.tensor(p), torch.tensor(labels)).item()
    assert theirs == pytest.approx(1 / 3 * 0.25 + 2 / 3 * 0.375, **SINGLE)


def test_torchmetrics_gives_a_claim_of_exactly_1_a_bin_of_its_own(torchmetrics):
    # Claims of 0.75 are too low by 0.25 and those of 1 too high by 0.5: in one bin that cancels in part, in two it does not.
    p, labels = np.array([0.75, 0.75, 1.0, 1.0]), np.array([1, 1, 1, 0])
    ours = metrics.ece(p, labels, n_bins=1, of="positive", input="probabilities")
    assert ours == pytest.approx(0.875 - 0.75, **EXACT)
    theirs = torchmetrics.BinaryCalibrationError(n_bins=1)(torch.tensor(p), torch.tensor(labels)).item()
    assert theirs == pytest.approx((0.25 + 0.5) / 2, **SINGLE)


def test_torchmetrics_calibrates_the_positive_class_of_a_binary_problem_where_our_default_is_the_top_class(torchmetrics):
    p, labels = np.array([0.25, 0.75]), np.array([0, 0])
    theirs = torchmetrics.BinaryCalibrationError(n_bins=15)(torch.tensor(p), torch.tensor(labels)).item()
    assert theirs == pytest.approx(metrics.ece(p, labels, of="positive", input="probabilities"), **SINGLE)
    assert theirs == pytest.approx((0.25 + 0.75) / 2, **SINGLE)
    assert metrics.ece(p, labels, input="probabilities") == pytest.approx(0.75 - 0.5, **EXACT)


def test_torchmetrics_guesses_logits_from_values_where_we_are_told(torchmetrics):
    # Logits that happen to lie in [0, 1] are probabilities to torchmetrics.
    z, labels = np.array([[0.75, 0.25], [0.75, 0.25]]), np.array([0, 0])
    theirs = torchmetrics.MulticlassCalibrationError(2, n_bins=1)(torch.tensor(z), torch.tensor(labels)).item()
    assert theirs == pytest.approx(0.25, **SINGLE)
    assert metrics.ece(z, labels, n_bins=1) == pytest.approx(1 - 1 / (1 + np.exp(-0.5)), **EXACT)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scikit_learn_raises_zeros_to_the_rounding_of_the_type(dtype):
    p, labels = np.array([[0.0, 1.0], [0.4, 0.6], [1.0, 0.0]], dtype=dtype), [0, 1, 0]
    theirs = log_loss(labels, p)
    floor = float(np.finfo(dtype).eps)
    assert metrics.nll(p, labels, input="probabilities", floor=floor) == pytest.approx(theirs, rel=1e-6)
    assert theirs == pytest.approx(-(np.log(floor) + np.log(0.6)) / 3, rel=1e-5)
    with pytest.warns(UserWarning, match="has probability 0 in 1 of 3"):
        ours = metrics.nll(p, labels, input="probabilities")
    assert ours == pytest.approx(-(np.log(float(np.finfo(dtype).smallest_normal)) + np.log(0.6)) / 3, rel=1e-6)


def test_errors_of_two_and_of_more_classes_are_those_that_netcal_1_4_printed():
    rng = np.random.default_rng(0)
    p = rng.random(1000)
    labels = (rng.random(1000) < p**1.3).astype(int)
    options = {"n_bins": 10, "of": "positive", "input": "probabilities"}
    assert metrics.ece(p, labels, **options) == pytest.approx(0.05618431563837239, rel=1e-12)
    assert abs(metrics.reliability(p, labels, **options).gap).mean() == pytest.approx(0.05648256541199729, rel=1e-12)
    several = rng.dirichlet(np.ones(4), 1000)
    labels = np.array([rng.choice(4, p=row) for row in several])
    options["of"] = "top"
    assert metrics.ece(several, labels, **options) == pytest.approx(0.012435315592593862, rel=1e-9)
    assert abs(metrics.reliability(several, labels, **options).gap).mean() == pytest.approx(0.04171931118002212, rel=1e-9)
