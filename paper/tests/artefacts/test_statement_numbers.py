"""The numbers behind the verdicts on the paper's statements: worked out by hand for pieces made by hand."""

from math import log, sqrt

import numpy as np
import pytest
import statement_pieces
from scipy.stats import norm

from nishimori_paper.artefacts._statements import (
    _bayes,
    _figures,
    _maximisation,
    _method,
    _networks,
    _noise,
    _regression,
    _related_work,
    _similarity,
    _validation,
)


def shown(p):
    """A probability as the texts have it."""
    return "under 0.001" if p < 0.001 else f"{p:.2g}"


def outside(limit, error):
    """The probability that a normal number around zero is further away than the limit."""
    return norm.sf(limit / error) + norm.cdf(-limit / error)


def some(*probabilities):
    return 1 - np.prod(1 - np.array(probabilities))


Z1, Z2 = norm.ppf(0.95), norm.ppf(0.975)

METHOD = {
    "ece_constant": 1e-15,
    "error_constant": 0.8,
    "error_network": 0.1,
    "first_line": 0.4,
    "second_line": -0.4,
    "colder": 0.9,
    "as_trained": 0.8,
    "hotter": 0.7,
    "accuracy": 0.75,
    "ec_validation": 1.5,
    "ec_augmented": 1.4,
    "ec_paper": 1.38,
    "ec_test": 1.6,
    "n_networks": 4,
    "n_falling": 3,  # all but b
    "n_crossing": 2,  # a and d
    "n_without": 1,
    "coldest": 0.9,
    "off_chance": 0.1,  # c: 3 × 0.3 is 0.9
    "hottest": 0.51,
    "n_classes": 4,
    "n_solvable": 2,
    "n_literal": 3,
    "literal_2": 0.8,
    "none_by_chance": "0.35",  # 0.9 to the tenth
}
VALIDATION = {
    "n_networks": 4,
    "ratio_low": 0.5,
    "ratio_median": 1.55,  # of 0.5, 1.5, 1.6 and 2
    "ratio_high": 2.0,
    "few_allowed": 0.4,  # TS takes 6 and 2 points
    "many_allowed": 0.55,  # 7 and 4
    "few": 0.3,
    "few_error": 0.1,
    "many": 0.0,
    "many_error": 0.1,
    "few_limit": 0.3 + 0.1 * Z2,
    "many_limit": 0.1 * Z2,
    "ratio_fails": shown(2 * norm.sf(log(1.25) / 0.1)),
    "ece_fails": shown(some(outside(0.4 - 0.1 * Z2, 0.1), outside(0.55 - 0.1 * Z2, 0.1))),
    "passes_ec": 2.0,
    "passes_ts": 1.25,
}
# By networks: leads of -0.04, -1 and 4 points.
LEAD_ERROR = np.std([-0.04, -1.0, 4.0], ddof=1) / sqrt(3)
NETWORKS = {
    "n": 3,
    "temperature_apart": 1 / 3,  # vgg19: 0.3 of 0.9
    "ece_apart": 4.0,  # vgg19: 6 - 2
    "brier_apart": 2.0,  # resnet56: 21 - 19
    "temperature_apart_paper": 0.09 / 1.07,  # RepVGG-A2: 1.07 and 1.16
    "ece_apart_paper": 0.5,  # DenseNet121: 3.0 and 2.5
    "brier_apart_paper": 0.3,  # VGG19: 37.2 and 36.9
    "ece_mean": 2.96 / 3,
    "ece_error": LEAD_ERROR,
    "ece_limit": 2.96 / 3 + Z2 * LEAD_ERROR,
    "brier_mean": 2.2 / 3,
    "brier_error": 2.0,  # of images: the networks share them
    "brier_limit": 2.2 / 3 + Z2 * 2.0,
    "ece_allowed": 0.2,  # TS takes 4, 3 and -1 points
    "brier_allowed": 0.1 / 3,  # 1, -1 and 1 of 100
    "n_similar": 0,  # resnet20: 0.04 of 0.4 points of ECE, but 0.2 of 0.1 of the Brier score
    "not_similar": "CIFAR-10 ResNet20 (authors'), CIFAR-10 ResNet56 (authors'), CIFAR-100 VGG19 (ours)",
    "coldest": 0.9,
    "coldest_paper": 1.07,
    "n_overconfident": 2,  # 0.85 and 0.9 against 0.8
    "n_better_ece": 2,
    "n_better_brier": 2,
    "n_better_brier_paper": 8,
    "n_paper": 8,
    "n_lower": 1,  # vgg19
    "n_not_higher_rounded": 2,  # 1.0 and 1.0; 2.0 and 6.0
    "lead": 2.96 / 3,
    "lead_error": LEAD_ERROR,
    "lead_limit": 2.96 / 3 - Z1 * LEAD_ERROR,
    "few": -0.3,
    "few_error": 0.1,
    "few_limit": -0.3 - Z1 * 0.1,
    "margin": 0.2,
    "inferior_by_chance": shown(norm.cdf(Z1 - 0.2 / LEAD_ERROR)),
    "temperatures_fail": shown(some(*[outside(0.1, 0.05)] * 3)),
    # The mean has such errors that its interval is always wider than the margin.
    "scores_fail": "1",
    "some_fails": shown(
        some(
            *(outside(limit, e) for limit, e in ((0.004, 0.003), (0.003, 0.004), (-0.001, 0.01))),
            *(outside(limit, 0.02) for limit in (0.001, -0.001, 0.001)),
        )
    ),
    "overconfident_fails": shown(
        some(
            *(norm.cdf(-x / 0.2) for x in (1.0, 0.5, -0.1)),
            *(norm.cdf(-x / 0.3) for x in (0.9, 0.5, 0.2)),
            *(norm.cdf(-x / 0.1) for x in (0.05, -0.05, 0.1)),
        )
    ),
    "ece_fails": shown(some(*(norm.cdf(-x / 0.02) for x in (0.04, 0.03, -0.01, 0.0396, 0.02, 0.03)))),
    "brier_fails": shown(some(*(norm.cdf(-x / 0.02) for x in (0.01, -0.01, 0.01, 0.012, 0.01, 0.01)))),
    "augmented_fails": shown(norm.cdf(-0.05 / 0.4)),  # resnet56: 1.5 and 1.4; the largest error is 0.4
    "off_clean": 0.63,  # resnet20, TS: 2.00 against 1.37
    "off_augmented": 0.1,  # resnet20, TS: 1.27 against 1.37
    "ece_clean_low": 0.010,
    "ece_clean_high": 0.030,
    "ece_augmented_low": 0.02,
    "ece_augmented_high": 0.04,
    "resnet20_here": 0.272,
    "resnet56_here": 0.853,
    "densenet121_here": 6.9,
    "resnet20_paper": 0.27,
    "resnet56_paper": 0.85,
    "densenet121_paper": 7.9,
    "densenet121_imagenet": 6.9
    + 0.00768
    + 1.01475,  # 192 more filters of 40 pixels; 990 more classes of 1,024 factors and a bias
    "svhn_train": 100,
    "svhn_validation": 20,
    "svhn_train_paper": 65931,
    "svhn_validation_paper": 7325,
}
SIZE_ERRORS = [0.001, *(0.0025 * k for k in range(1, 9))]
OWN_LIMIT = 1 - 1.77987916864334 / 1.8235535146923
FIGURES = {
    "n_minima": 3,
    "n_close": 1,  # 0.05; the others are 0.2 and 0.1 or a rounding more
    "not_close": "SVHN ResNet20 (ours), CIFAR-100 VGG19 (ours)",
    "off_median": 0.1,
    "n_augmented": 2,
    "n_close_augmented": 0,
    "off_augmented_low": 0.15,
    "off_augmented_high": 0.3,
    "n_missed_by_chance": outside(0.1, 0.1) + outside(0.1, 0.2) + outside(0.1, 0.05),
    "n_missed_augmented": outside(0.1, 0.1) + outside(0.1, 0.05),
    "off_paper": 0.626353,  # 2.086207 - 1.459853
    "excess_paper": 3.708823,  # 4.440573 - 0.731750
    "diagrams_apart": 5.0,
    "diagrams_fail": shown(outside(2 / 5 * 0.04, 0.01)),
    "validation_accuracy": 0.9,
    "test_accuracy": 0.88,
    "validation_accuracy_paper": 0.9343,
    "test_accuracy_paper": 0.885,
    "n_steps": 8,
    "n_grows": 7,
    # Ranks 0, 1, 2, 3, 5, 6, 7, 8, 4 after nine positions: the last moves by 4 and four others by 1.
    "rank_correlation": 1 - 6 * (4**2 + 4) / (9 * 80),
    "rank_correlation_paper": 1 - 6 * (4 + 4 + 1 + 1 + 4) / (9 * 80),
    "rank_by_chance": "0.0054",  # 1,960 of 362,880 orders
    "size_apart": 0.08,
    "size_apart_error": 0.02,
    "size_limit": 0.08 + Z2 * 0.02,
    "size_ece": -0.4,  # minus the mean of 0, 0.1, ..., 0.8
    "size_ece_error": 0.2,
    "size_ece_limit": 0.4 + Z2 * 0.2,
    "size_ece_apart": 0.008,
    "size_ece_allowed": 0.3,  # TS takes 3 points
    "size_fails": shown(some(*(outside(0.1 - Z2 * e, e) for e in SIZE_ERRORS), outside(0.0, 0.2))),  # 0.3 is within 1.96 · 0.2
    "own_limit_fails": some(*(outside(OWN_LIMIT, e) for e in SIZE_ERRORS)),
    "size_apart_paper": OWN_LIMIT,
    "size_ece_apart_paper": 0.0106787579894066 - 0.00962179317474365,
}
# Appendix C: ECE after TS and after EC, and the temperatures; then the temperatures of Table 1.
PRINTED_ECE = ((10.7, 7.5), (4.6, 4.2), (5.4, 4.9), (3.6, 5.0), (9.6, 5.9), (7.6, 7.3), (5.2, 5.1), (11.6, 11.7))
PRINTED_NOISY = ((2.69, 2.23), (2.4, 2.0), (2.58, 2.15), (2.76, 2.54), (2.04, 1.70), (2.27, 2.10), (2.6, 2.1), (1.44, 1.40))
PRINTED_CLEAN = ((1.59, 1.55), (1.37, 1.38), (1.42, 1.43), (1.78, 1.86), (1.44, 1.44), (1.73, 1.79), (2.14, 2.28), (1.07, 1.16))
NOISE = {
    "n": 9,
    "n_paper": 8,
    "share": 1 / 9,  # eight times 0.1 and once 0.2
    "reduction": 1.1 / 8,
    "reduction_augmented": 1.3 / 8,  # 0.3 in place of 0.1
    "n_augmented": 1,
    "reduction_paper": sum(1 - ec / ts for ts, ec in PRINTED_ECE) / 8,
    "reduction_claimed": 0.07,
    "n_lower": 8,
    "n_lower_paper": 6,
    "n_margin": 2,  # 0.5 and 0.2; the next is 0.19
    "n_margin_paper": 2,  # 30 % and 39 %
    "noisy_apart": (8 * 0.2 + 0.1) / 9,
    "noisy_apart_paper": sum(1 - ec / ts for ts, ec in PRINTED_NOISY) / 8,
    "clean_apart": 0.01,
    "clean_apart_paper": sum(abs(ts - ec) / ts for ts, ec in PRINTED_CLEAN) / 8,
    "reduction_error": 0.1,  # of images; of networks it is 0.06
    "reduction_augmented_error": 0.15,  # one error is 0.5, the others are 0.1
    "reduction_paper_error": np.std([1 - ec / ts for ts, ec in PRINTED_ECE], ddof=1) / sqrt(8),
    "margin_by_chance": shown(1 - norm.cdf(2) ** 9 - 9 * norm.sf(2) * norm.cdf(2) ** 8),
    "apart_fails": shown(norm.cdf(-(1.7 / 9 - 3 * 0.01) / 0.05)),
    "n_worse_ts": 9,
    "n_worse_ec": 8,  # all but 0.02
    "before_only": 0.03,
    "ts_only": 1.25 * (0.04 * 7 + 0.05 + 0.1) / 9,
    "ec_only": (0.02 + 5 * 0.036 + 0.04 + 0.044 + 0.081) / 9,
}
MAXIMISATION = {"n": 4, "off": 0.2, "n_data": 2, "ratio": 0.95, "deviation": 3.0, "fails": "under 0.001"}
SIMILARITY = {"n": 3, "left_clean": 0.05, "left_noisy": 0.4, "apart_clean": 0.04, "apart_noisy": 0.25}
SIMILARITY |= {"n_larger": 2, "n_sets": 2, "same_by_chance": "0.25"}
RELATED_WORK = {
    "excess_dropout": -0.2,
    "excess_laplace": 0.25,
    "excess_ensemble": 0.5,
    "ece_dropout": -1.0,
    "ece_laplace": 2.0,
    "ece_ensemble": -0.5,
    "n_few": 2,
    "n_many": 1,
    "vector_higher_few": 0,
    "matrix_higher_few": 1,
    "vector_higher_many": 1,
    "matrix_higher_many": 0,
    "vector_none_few": 0,
    "matrix_none_few": 0,
    "vector_none_many": 0,
    "matrix_none_many": 1,
    "order_fails": shown(some(*(norm.cdf(-x) for x in (2, 1, 1, 3, 2)))),
    "excess_logit": 0.003,
    "excess_others": 0.05,
}
BAYES = {"n": 3, "ece": 0.3, "excess": 0.1, "off": 0.3, "error_nearby": 1e-6}
REGRESSION = {
    "nearest_loss": 0.1,
    "nearest_small": 0.394,
    "ts_low": 1.2,
    "ts_high": 1.3,
    "scale_low": 0.3,
    "scale_high": 0.8,
    "coldest": 0.6,
    "affine_over_logit": 2.0,  # 0.02 over 0.01; 0.05 over 0.01
    "constant_over_affine": 2.0,  # 0.04 over 0.02; 0.2 and 0.3 over 0.05
    "least_step": 0.1,
    "difference_first": 0.04,
    "difference_last": 0.3,
    "difference_claimed": 0.3,
    "n_same_logit": 0,
    "n_same_affine": 40,
    "n_same_constant": 0,
    "n_points": 40,
    "least_lead": 0.01,  # logit
    "logit_lead": 0.19 / 9,  # three times 0.01, twice 0.02, four times 0.03
    "logit_lead_most": 0.03,
    "logit_lead_claimed": 0.01,
    "lead_ratio": 3.0,  # constant at λ_loss: 0.09 over 0.03
    "brier_tied": 4 / 27,  # logit, 1e-4 and λ_error: the last two of each
    "brier_lost": 3 / 27,
    "brier_lost_logit": 1 / 9,
    "brier_lost_affine": 1 / 9,
    "brier_lost_constant": 1 / 9,
    "brier_won_logit": 4 / 9,
    "brier_won_affine": 8 / 9,
    "brier_won_constant": 8 / 9,
    "brier_logit_most": 1.5e-3,
    "brier_worst": 2e-3,
    "error_gain": 2.0,  # affine: 0.30 - 0.28
    "ece_gain": 1.0,  # constant at λ_error: 0.10 - 0.09
    "ratio_logit": 0.0,
    "ratio_others": log(2) / 3,  # affine; constant has 2 log(3) / 3
    "least_delta": -0.01,
    "least_delta_at": 0.99,
    "overconfident_below": 0.95,
    "half": 0.5,
    "claimed": 2.1,
    "claimed_ts": 1.2,
    "claimed_ec": 1.0,
    "ece": 4.0,
    "ece_ts": 3.0,
    "ece_ec": 2.0,
    "temperature_ts": 1.5,
    "temperature_ec": 1.6,
    "temperature_ts_claimed": 1.24,
    "temperature_ec_claimed": 1.35,
}


@pytest.mark.parametrize(
    ("group", "pieces", "expected"),
    [
        (_method, statement_pieces.METHOD, METHOD),
        (_validation, statement_pieces.VALIDATION, VALIDATION),
        (_networks, statement_pieces.NETWORKS, NETWORKS),
        (_figures, statement_pieces.FIGURES, FIGURES),
        (_noise, statement_pieces.NOISE, NOISE),
        (_bayes, statement_pieces.BAYES, BAYES),
        (_maximisation, statement_pieces.MAXIMISATION, MAXIMISATION),
        (_similarity, statement_pieces.SIMILARITY, SIMILARITY),
        (_regression, statement_pieces.REGRESSION, REGRESSION),
        (_related_work, statement_pieces.RELATED_WORK, RELATED_WORK),
    ],
    ids=[
        *("method", "validation", "networks", "figures", "noise", "bayes", "maximisation", "similarity", "regression"),
        "related work",
    ],
)
def test_the_numbers_of_each_group_are_those_worked_out_by_hand(group, pieces, expected):
    found = group.numbers(pieces)
    assert list(found) == list(expected)
    words = {name for name, value in expected.items() if isinstance(value, str)}
    assert {name: found[name] for name in words} == {name: expected[name] for name in words}
    for name in set(expected) - words:
        assert found[name] == pytest.approx(expected[name], rel=1e-5, abs=1e-12), name


def test_a_difference_of_temperatures_has_no_sign():
    assert _networks.difference({"temperature_ts": 2.0, "temperature_ec": 2.5}) == 0.25
    assert _networks.difference({"temperature_ts": 2.0, "temperature_ec": 1.5}) == 0.25


def test_clean_images_are_nearer_by_chance_where_the_two_kinds_differ_least_in_either_direction():
    def found(clean, augmented):
        return {kind: {"temperature_ts": T, "temperature_ec": T} for kind, T in (("clean", clean), ("augmented", augmented))}

    for clean, augmented in ((1.5, 1.3), (1.3, 1.5)):
        real = {"cifar10/resnet20-authors": found(1.5, 1.0), "cifar10/resnet56-authors": found(clean, augmented)}
        assert _networks._nearer_by_chance(real, 0.1) == pytest.approx(norm.sf(1))  # half of 0.2, in errors of 0.1


@pytest.mark.parametrize(
    ("ts", "ec", "expected"), [(1.04, 0.96, True), (0.96, 1.04, True), (1.04, 1.06, False), (1.3, 1.2, True)]
)
def test_eces_are_compared_in_tenths_of_a_percent(ts, ec, expected):
    assert _networks._not_higher_in_print({"ece_ts": ts / 100, "ece_ec": ec / 100}) is expected


def test_the_largest_differences_have_no_sign():
    higher = statement_pieces.row((1.0, 1.5), (0.1, 0.02, 0.03), (0.2, 0.1, 0.12))
    lower = statement_pieces.row((1.0, 0.5), (0.1, 0.03, 0.02), (0.2, 0.12, 0.1))
    for rows in ([higher], [lower], [higher, lower]):
        assert _networks.apart(rows) == pytest.approx({"temperature": 0.5, "ece": 1.0, "brier": 2.0})


@pytest.mark.parametrize(("ec", "expected"), [(0.0109, True), (0.0091, True), (0.0111, False), (0.0089, False)])
def test_scores_are_similar_within_a_tenth_of_what_ts_takes_from_them_in_either_direction(ec, expected):
    for metric in ("ece", "brier"):
        scores = {"ece": (0.02, 0.01, 0.01), "brier": (0.02, 0.01, 0.01)} | {metric: (0.02, 0.01, ec)}
        assert _networks.is_similar(statement_pieces.row((1.0, 1.0), **scores)) is expected
