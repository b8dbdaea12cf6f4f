"""The verdict on each of the paper's statements, on either side of each limit that its criterion names."""

import pytest
import statement_pieces

from nishimori_paper import JudgedStatement
from nishimori_paper.artefacts._statements import (
    GROUPS,
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
from nishimori_paper.artefacts._statements._statement import Statement

HOLDS, CONDITION, NO, OPEN = "holds", "holds with a condition", "contradicted", "cannot be judged here"
SLIP = "slip of the pen"
PAPER, OURS = "the paper's data", "our data"
PIECES = {
    _method: statement_pieces.METHOD,
    _validation: statement_pieces.VALIDATION,
    _related_work: statement_pieces.RELATED_WORK,
    _networks: statement_pieces.NETWORKS,
    _figures: statement_pieces.FIGURES,
    _noise: statement_pieces.NOISE,
    _bayes: statement_pieces.BAYES,
    _maximisation: statement_pieces.MAXIMISATION,
    _similarity: statement_pieces.SIMILARITY,
    _regression: statement_pieces.REGRESSION,
}


def bayesian(**larger):
    """By what share the loss after TS is larger; by 0.95 % unless it is given."""
    names = ("logit", "others", "dropout", "laplace", "ensemble")
    return {f"excess_{name}": larger.get(name, 0.0095) for name in names}


def affine_maps(few, many):
    """On how many of 2 and 3 networks both maps have a higher loss; on 1 of the latter, matrix scaling has no optimum."""
    return {
        "n_few": 2,
        "n_many": 3,
        **dict(zip(("vector_higher_few", "matrix_higher_few"), few, strict=True)),
        **dict(zip(("vector_higher_many", "matrix_higher_many"), many, strict=True)),
        "vector_none_few": 0,
        "matrix_none_few": 0,
        "vector_none_many": 0,
        "matrix_none_many": 1,
    }


# Intervals of mean differences within what is allowed.
EQUIVALENT = {"ece_limit": 0.49, "ece_allowed": 0.5, "brier_limit": 0.29, "brier_allowed": 0.3, "n": 11}
FEW_AND_MANY = {"few_allowed": 0.5, "many_allowed": 0.6}
SIZES = {"size_ece_allowed": 0.5, "size_apart_paper": 0.099}
# 1.96 errors of the difference are 0.0245 with clean images and 0.0490 with augmented ones.
SEVEN = {"reduction_claimed": 0.07, "reduction_paper_error": 0.01}
SEVEN |= {"reduction_error": 0.0075, "reduction_augmented_error": 0.0229}
# By group and statement: the numbers that decide, the verdict, and of whose data alone the statement is true.
CASES = {
    _maximisation: {
        "expectation maximisation": [
            ({"off": 0.95e-8, "deviation": 3.9}, HOLDS),
            ({"off": 1.05e-8, "deviation": 3.9}, NO),
            ({"off": 0.95e-8, "deviation": 4.1}, NO),
        ],
    },
    _similarity: {
        "origin of the similarity": [
            ({"left_clean": 0.099, "left_noisy": 0.101, "apart_clean": 0.1, "apart_noisy": 0.11}, CONDITION),
            ({"left_clean": 0.101, "left_noisy": 0.5, "apart_clean": 0.1, "apart_noisy": 0.11}, NO),
            ({"left_clean": 0.05, "left_noisy": 0.099, "apart_clean": 0.1, "apart_noisy": 0.11}, NO),
            ({"left_clean": 0.05, "left_noisy": 0.5, "apart_clean": 0.11, "apart_noisy": 0.1}, NO),
        ],
    },
    _related_work: {
        "TS and Bayesian approaches": [
            (bayesian(), HOLDS),
            (bayesian(others=0.0105), CONDITION),
            (bayesian(ensemble=0.0105), CONDITION),
            (bayesian(logit=0.0105), NO),
            (bayesian(dropout=0.0105), NO),
            (bayesian(laplace=0.0105), NO),
        ],
        "vector and matrix scaling": [
            (affine_maps(few=(2, 2), many=(3, 2)), HOLDS),
            (affine_maps(few=(2, 1), many=(3, 2)), CONDITION),
            (affine_maps(few=(1, 2), many=(3, 2)), CONDITION),
            (affine_maps(few=(2, 2), many=(3, 1)), NO),
            (affine_maps(few=(2, 2), many=(2, 2)), NO),
        ],
    },
    _validation: {
        "validation samples": [
            ({"ratio_median": 1.24, "few_limit": 0.49, "many_limit": 0.59, **FEW_AND_MANY}, HOLDS),
            ({"ratio_median": 1.26, "few_limit": 0.49, "many_limit": 0.59, **FEW_AND_MANY}, CONDITION),
            ({"ratio_median": 1.24, "few_limit": 0.51, "many_limit": 0.59, **FEW_AND_MANY}, CONDITION),
            ({"ratio_median": 1.24, "few_limit": 0.49, "many_limit": 0.61, **FEW_AND_MANY}, NO),
            ({"ratio_median": 1.26, "few_limit": 0.49, "many_limit": 0.61, **FEW_AND_MANY}, NO),
        ],
        "computational cost": [
            ({"passes_ec": 2.19, "passes_ts": 2.0}, HOLDS),
            ({"passes_ec": 2.21, "passes_ts": 2.0}, NO),
        ],
    },
    _method: {
        "constant prediction": [
            ({"ece_constant": 0.95e-9, "error_constant": 0.2, "error_network": 0.1}, HOLDS),
            ({"ece_constant": 1.05e-9, "error_constant": 0.2, "error_network": 0.1}, NO),
            ({"ece_constant": 0.95e-9, "error_constant": 0.1, "error_network": 0.2}, NO),
        ],
        "sign of the loss": [
            ({"first_line": 0.4, "second_line": 0.4}, HOLDS),
            ({"first_line": 0.4, "second_line": -0.4 + 0.95e-6}, SLIP),
            ({"first_line": 0.4, "second_line": -0.4 - 0.95e-6}, SLIP),
            ({"first_line": 0.4, "second_line": -0.4 + 1.05e-6}, NO),
            ({"first_line": 0.4, "second_line": -0.4 - 1.05e-6}, NO),
        ],
        "direction of T": [
            ({"colder": 0.79, "as_trained": 0.8, "hotter": 0.81}, HOLDS),
            ({"colder": 0.81, "as_trained": 0.8, "hotter": 0.79}, SLIP),
            ({"colder": 0.81, "as_trained": 0.8, "hotter": 0.81}, NO),
        ],
        "which images EC uses": [
            ({"ec_test": 1.5, "ec_validation": 1.5}, HOLDS),
            ({"ec_test": 1.6, "ec_validation": 1.5, "ec_augmented": 1.45, "ec_paper": 1.5}, SLIP),
            ({"ec_test": 1.4, "ec_validation": 1.5, "ec_augmented": 1.55, "ec_paper": 1.5}, SLIP),
            ({"ec_test": 1.6, "ec_validation": 1.5, "ec_augmented": 1.3, "ec_paper": 1.5}, NO),
            ({"ec_test": 1.4, "ec_validation": 1.5, "ec_augmented": 1.7, "ec_paper": 1.5}, NO),
        ],
        "existence and uniqueness of T_EC": [
            ({"n_falling": 3, "n_crossing": 3, "n_networks": 3, "n_without": 0}, HOLDS),
            ({"n_falling": 3, "n_crossing": 3, "n_networks": 3, "n_without": 1}, CONDITION),
            ({"n_falling": 2, "n_crossing": 3, "n_networks": 3, "n_without": 0}, NO),
            ({"n_falling": 3, "n_crossing": 2, "n_networks": 3, "n_without": 0}, NO),
            ({"n_falling": 2, "n_crossing": 2, "n_networks": 3, "n_without": 1}, NO),
        ],
        "limits of the confidence": [
            ({"coldest": 0.991, "hottest": 0.0048}, HOLDS),
            ({"coldest": 0.991, "hottest": 0.0052, "off_chance": 0.00095}, SLIP),
            ({"coldest": 0.991, "hottest": 0.0052, "off_chance": 0.00105}, NO),
            ({"coldest": 0.989, "hottest": 0.0048, "off_chance": 0.00095}, NO),
        ],
        "confidence equal to top-N accuracy": [
            ({"n_literal": 4, "n_solvable": 4, "n_classes": 4}, HOLDS),
            ({"n_literal": 3, "n_solvable": 3, "n_classes": 4}, CONDITION),
            ({"n_literal": 3, "n_solvable": 2, "n_classes": 4}, NO),
            ({"n_literal": 2, "n_solvable": 2, "n_classes": 4}, NO),
        ],
    },
    _networks: {
        "similar temperatures": [
            ({"temperature_apart": 0.099, "temperature_apart_paper": 0.099}, HOLDS),
            ({"temperature_apart": 0.099, "temperature_apart_paper": 0.101}, HOLDS, OURS),
            ({"temperature_apart": 0.101, "temperature_apart_paper": 0.099}, NO, PAPER),
        ],
        "similar ECE and Brier score": [
            ({**EQUIVALENT, "n_similar": 11}, HOLDS),
            ({**EQUIVALENT, "n_similar": 10}, CONDITION),
            ({**EQUIVALENT, "n_similar": 11, "ece_limit": 0.51}, NO),
            ({**EQUIVALENT, "n_similar": 11, "brier_limit": 0.31}, NO),
        ],
        "overconfident networks": [
            ({"coldest": 1.01, "n_overconfident": 11, "n": 11, "coldest_paper": 1.01}, HOLDS),
            ({"coldest": 0.99, "n_overconfident": 11, "n": 11, "coldest_paper": 1.01}, NO, PAPER),
            ({"coldest": 1.01, "n_overconfident": 10, "n": 11, "coldest_paper": 0.99}, NO),
            ({"coldest": 1.01, "n_overconfident": 11, "n": 11, "coldest_paper": 0.99}, HOLDS, OURS),
        ],
        "calibration improves": [({"n_better_ece": 11, "n": 11}, HOLDS), ({"n_better_ece": 10, "n": 11}, NO)],
        "Brier score improves": [
            ({"n_better_brier": 11, "n": 11, "n_better_brier_paper": 8, "n_paper": 8}, HOLDS),
            ({"n_better_brier": 10, "n": 11, "n_better_brier_paper": 8, "n_paper": 8}, NO, PAPER),
            ({"n_better_brier": 11, "n": 11, "n_better_brier_paper": 7, "n_paper": 8}, HOLDS, OURS),
        ],
        "EC at least as good as TS": [
            ({"lead_limit": -0.19, "few_limit": -0.19, "margin": 0.2}, HOLDS),
            ({"lead_limit": -0.19, "few_limit": -0.21, "margin": 0.2}, CONDITION),
            ({"lead_limit": -0.21, "few_limit": -0.19, "margin": 0.2}, NO),
        ],
        "parameters of the ResNets": [
            ({"resnet20_here": 0.2749, "resnet56_here": 0.8451}, HOLDS),
            ({"resnet20_here": 0.2751, "resnet56_here": 0.8451}, NO),
            ({"resnet20_here": 0.2749, "resnet56_here": 0.8449}, NO),
        ],
        "parameters of DenseNet121": [
            ({"densenet121_here": 7.995, "densenet121_imagenet": 9.0}, HOLDS),
            ({"densenet121_here": 7.805, "densenet121_imagenet": 9.0}, HOLDS),
            ({"densenet121_here": 8.005, "densenet121_imagenet": 8.005}, NO),
            ({"densenet121_here": 7.795, "densenet121_imagenet": 7.795}, NO),
            ({"densenet121_here": 6.956, "densenet121_imagenet": 7.995}, SLIP),
            ({"densenet121_here": 6.956, "densenet121_imagenet": 7.805}, SLIP),
        ],
        "split of SVHN": [
            ({"svhn_train": 65931, "svhn_validation": 7325}, HOLDS),
            ({"svhn_train": 65932, "svhn_validation": 7325}, CONDITION),
            ({"svhn_train": 65930, "svhn_validation": 7325}, NO),
            ({"svhn_train": 65932, "svhn_validation": 7326}, NO),
        ],
        "which images were augmented": [
            ({"off_clean": 0.1, "off_augmented": 0.2}, HOLDS),
            ({"off_clean": 0.2, "off_augmented": 0.1}, CONDITION),
            ({"off_clean": 0.2, "off_augmented": 0.2}, NO),
        ],
        "public networks for CIFAR-100": [({}, OPEN)],
    },
    _figures: {
        "accuracy of the first figure": [({}, OPEN)],
        "TS and EC in the reliability diagram": [({"diagrams_apart": 1.9}, HOLDS), ({"diagrams_apart": 2.1}, NO)],
        "accuracy grows with the training set": [
            ({"rank_correlation": 0.81, "rank_correlation_paper": 0.81}, HOLDS),
            ({"rank_correlation": 0.79, "rank_correlation_paper": 0.81}, NO, PAPER),
            ({"rank_correlation": 0.81, "rank_correlation_paper": 0.79}, HOLDS, OURS),
        ],
        "similarity at every training size": [
            ({**SIZES, "size_limit": 0.099, "size_ece_limit": 0.49}, HOLDS),
            ({**SIZES, "size_limit": 0.101, "size_ece_limit": 0.49}, NO, PAPER),
            ({**SIZES, "size_limit": 0.099, "size_ece_limit": 0.51}, NO, PAPER),
            ({**SIZES, "size_limit": 0.099, "size_ece_limit": 0.49, "size_apart_paper": 0.101}, HOLDS, OURS),
        ],
        "minimum of the ECE": [
            ({"n_close": 4, "n_minima": 9, "off_paper": 0.105}, HOLDS),
            ({"n_close": 4, "n_minima": 9, "off_paper": 0.095}, HOLDS, OURS),
            ({"n_close": 5, "n_minima": 9, "n_close_augmented": 2, "n_augmented": 5, "off_paper": 0.105}, CONDITION),
            ({"n_close": 5, "n_minima": 9, "n_close_augmented": 2, "n_augmented": 5, "off_paper": 0.095}, CONDITION, OURS),
            ({"n_close": 5, "n_minima": 9, "n_close_augmented": 3, "n_augmented": 5, "off_paper": 0.105}, NO, PAPER),
            ({"n_close": 5, "n_minima": 9, "n_close_augmented": 3, "n_augmented": 5, "off_paper": 0.095}, NO),
        ],
    },
    _noise: {
        "size of the reduction": [
            ({**SEVEN, "reduction": 0.042, "reduction_paper": 0.066}, HOLDS),
            ({**SEVEN, "reduction": 0.090, "reduction_paper": 0.066}, HOLDS),
            ({**SEVEN, "reduction": 0.090, "reduction_paper": 0.0755}, HOLDS, OURS),
            ({**SEVEN, "reduction": 0.041, "reduction_augmented": 0.018, "reduction_paper": 0.066}, CONDITION),
            ({**SEVEN, "reduction": 0.091, "reduction_augmented": 0.018, "reduction_paper": 0.066}, CONDITION),
            ({**SEVEN, "reduction": 0.091, "reduction_augmented": 0.114, "reduction_paper": 0.066}, CONDITION),
            ({**SEVEN, "reduction": 0.020, "reduction_augmented": 0.018, "reduction_paper": 0.0645}, CONDITION, OURS),
            ({**SEVEN, "reduction": 0.091, "reduction_augmented": 0.116, "reduction_paper": 0.0655}, NO, PAPER),
            ({**SEVEN, "reduction": 0.200, "reduction_augmented": 0.200, "reduction_paper": 0.0745}, NO, PAPER),
            ({**SEVEN, "reduction": 0.200, "reduction_augmented": 0.200, "reduction_paper": 0.0755}, NO),
            ({**SEVEN, "reduction": 0.041, "reduction_augmented": 0.016, "reduction_paper": 0.0660}, NO, PAPER),
            ({**SEVEN, "reduction": 0.000, "reduction_augmented": 0.000, "reduction_paper": 0.0645}, NO),
        ],
        "different temperatures": [
            ({"noisy_apart": 0.31, "clean_apart": 0.1, "clean_apart_paper": 0.2, "noisy_apart_paper": 0.61}, HOLDS),
            ({"noisy_apart": 0.29, "clean_apart": 0.1, "clean_apart_paper": 0.2, "noisy_apart_paper": 0.61}, NO, PAPER),
            ({"noisy_apart": 0.31, "clean_apart": 0.1, "clean_apart_paper": 0.2, "noisy_apart_paper": 0.59}, HOLDS, OURS),
        ],
        "share of corrupted labels": [
            ({"share": 0.079}, NO),
            ({"share": 0.081}, HOLDS),
            ({"share": 0.119}, HOLDS),
            ({"share": 0.121}, NO),
        ],
        "EC better than TS under noise": [
            ({"n_margin": 2, "n_margin_paper": 2}, HOLDS),
            ({"n_margin": 1, "n_margin_paper": 2}, NO, PAPER),
            ({"n_margin": 2, "n_margin_paper": 1}, HOLDS, OURS),
        ],
    },
    _bayes: {
        "no validation set needed": [({"excess": 0.95e-9}, HOLDS), ({"excess": 1.05e-9}, NO)],
        "Bayes-optimal calibration": [({"ece": 0.95e-9}, HOLDS), ({"ece": 1.05e-9}, NO)],
        "T* from the data": [
            ({"off": 0.95e-8, "error_nearby": 1e-12}, HOLDS),
            ({"off": 1.05e-8, "error_nearby": 1e-12}, NO),
            ({"off": 0.95e-8, "error_nearby": -1e-12}, NO),
        ],
    },
    _regression: {
        "EC against TS in several metrics": [
            ({"least_lead": 1e-9, "brier_lost": 0.0}, HOLDS),
            ({"least_lead": 1e-9, "brier_lost": 0.01}, NO),
            ({"least_lead": -1e-9, "brier_lost": 0.0}, NO),
        ],
        "ERM and T*": [
            ({"nearest_small": 0.0105, "nearest_loss": 0.0105, "scale_high": 1.0}, HOLDS),
            ({"nearest_small": 0.0095, "nearest_loss": 0.0105, "scale_high": 0.989}, CONDITION),
            ({"nearest_small": 0.0105, "nearest_loss": 0.0095, "scale_high": 0.989}, CONDITION),
            ({"nearest_small": 0.0105, "nearest_loss": 0.0095, "scale_high": 0.991}, NO),
        ],
        "overconfidence if well specified": [({"coldest": 1.01}, HOLDS), ({"coldest": 0.99}, NO)],
        "regularisation helps": [
            ({"error_gain": 1e-9, "ece_gain": 1e-9}, HOLDS),
            ({"error_gain": -1e-9, "ece_gain": 1e-9}, NO),
            ({"error_gain": 1e-9, "ece_gain": -1e-9}, NO),
        ],
        "two ways to choose the penalty": [
            ({"ratio_others": 0.02, "ratio_logit": 0.01}, HOLDS),
            ({"ratio_others": 0.01, "ratio_logit": 0.02}, NO),
        ],
        "integral of the ECE": [
            ({"half": 0.9905}, HOLDS),
            ({"half": 1.0095}, HOLDS),
            ({"half": 0.9895}, NO),
            ({"half": 1.0105}, NO),
        ],
        "difference grows with misspecification": [
            ({"affine_over_logit": 1.01, "constant_over_affine": 1.01}, HOLDS),
            ({"affine_over_logit": 0.99, "constant_over_affine": 1.01}, NO),
            ({"affine_over_logit": 1.01, "constant_over_affine": 0.99}, NO),
        ],
        "points of that figure": [
            ({"n_same_logit": 0, "n_same_affine": 0, "n_same_constant": 0}, HOLDS),
            ({"n_same_logit": 0, "n_same_affine": 1, "n_same_constant": 0}, CONDITION),
            ({"n_same_logit": 1, "n_same_affine": 0, "n_same_constant": 0}, NO),
            ({"n_same_logit": 0, "n_same_affine": 0, "n_same_constant": 1}, NO),
            ({"n_same_logit": 1, "n_same_affine": 1, "n_same_constant": 1}, NO),
        ],
        "temperature difference of the constant teacher": [
            ({"least_step": 0.0, "difference_last": 0.251, "difference_claimed": 0.3}, HOLDS),
            ({"least_step": 0.0, "difference_last": 0.349, "difference_claimed": 0.3}, HOLDS),
            ({"least_step": 0.0, "difference_last": 0.249, "difference_claimed": 0.3}, NO),
            ({"least_step": 0.0, "difference_last": 0.351, "difference_claimed": 0.3}, NO),
            ({"least_step": -1e-9, "difference_last": 0.3, "difference_claimed": 0.3}, NO),
        ],
        "EC has the lower ECE": [({"least_lead": 1e-9}, HOLDS), ({"least_lead": -1e-9}, NO)],
        "EC and TS if well specified": [
            ({"logit_lead": 0.0051, "logit_lead_claimed": 0.01}, HOLDS),
            ({"logit_lead": 0.0149, "logit_lead_claimed": 0.01}, HOLDS),
            ({"logit_lead": 0.0049, "logit_lead_claimed": 0.01}, NO),
            ({"logit_lead": 0.0151, "logit_lead_claimed": 0.01}, NO),
        ],
        "EC against TS if misspecified": [({"lead_ratio": 1.01}, HOLDS), ({"lead_ratio": 0.99}, NO)],
        "overconfident at every level": [
            ({"least_delta": 0.0, "overconfident_below": 0.5}, HOLDS),
            ({"least_delta": -1.05e-9, "overconfident_below": 0.91}, CONDITION),
            ({"least_delta": -0.95e-9, "overconfident_below": 0.5}, HOLDS),
            ({"least_delta": -1.05e-9, "overconfident_below": 0.89}, NO),
        ],
        "closer to the diagonal": [
            ({"ece": 3.0, "ece_ts": 2.0, "ece_ec": 1.0}, HOLDS),
            ({"ece": 2.0, "ece_ts": 3.0, "ece_ec": 1.0}, NO),
            ({"ece": 3.0, "ece_ts": 1.0, "ece_ec": 2.0}, NO),
        ],
        "temperatures of the density figure": [
            ({"temperature_ts": 1.2449, "temperature_ec": 1.3451}, HOLDS),
            ({"temperature_ts": 1.2451, "temperature_ec": 1.3451}, NO),
            ({"temperature_ts": 1.2449, "temperature_ec": 1.3449}, NO),
        ],
    },
}
FLAT = [
    (module, name, numbers, verdict, only[0] if only else None)
    for module, statements in CASES.items()
    for name, cases in statements.items()
    for numbers, verdict, *only in cases
]


def judged(module, name, numbers):
    """The statement with that name, with some of the numbers replaced."""
    found = {each.name: each for each in module.STATEMENTS}[name]
    return found.judged({**module.numbers(PIECES[module]), **numbers})


@pytest.mark.parametrize(("module", "name", "numbers", "verdict", "only"), FLAT)
def test_a_verdict_changes_where_the_criterion_says(module, name, numbers, verdict, only):
    statement = judged(module, name, numbers)
    assert statement.verdict == verdict
    assert statement.true_only_of == only
    assert bool(statement.condition) == (verdict in (CONDITION, OPEN, SLIP))
    assert statement.stands == (verdict in (HOLDS, CONDITION))


@pytest.mark.parametrize("module", list(CASES))
def test_every_statement_of_a_group_has_cases(module):
    assert module.GROUP in GROUPS
    assert {each.name for each in module.STATEMENTS} == set(CASES[module])


def test_no_two_statements_have_the_same_name_or_the_same_words():
    listed = [each for group in GROUPS for each in group.statements]
    assert len({each.name for each in listed}) == len({each.quotation for each in listed}) == len(listed)


def test_a_statement_without_a_condition_is_true_or_false():
    statement = Statement("n", "s", "q", "c", "{x}", lambda n: n["x"] > 0)
    assert statement.judged({"x": 1}) == JudgedStatement("n", "s", "q", "c", "1", "holds")
    assert statement.judged({"x": -1}) == JudgedStatement("n", "s", "q", "c", "-1", "contradicted")


def test_a_slip_of_the_pen_is_wrong_as_printed_and_right_as_meant():
    tests = {"holds": lambda n: n["x"] > 2, "slip_if": lambda n: n["x"] > 0}
    statement = Statement("n", "s", "q", "c", "", condition="meant: {x}", **tests)
    found = [statement.judged({"x": x}) for x in (3, 1, -1)]
    assert [(each.verdict, each.condition, each.stands) for each in found] == [
        ("holds", "", True),
        ("slip of the pen", "meant: 1", False),
        ("contradicted", "", False),
    ]


def test_a_judgement_stands_in_for_the_numbers_and_is_said():
    statement = Statement("n", "s", "q", "c", "", None, "if", lambda n: n["x"] > 0, judgement="by reading")
    assert [(each.verdict, each.judgement) for each in (statement.judged({"x": 1}), statement.judged({"x": -1}))] == [
        ("holds with a condition", "by reading"),
        ("contradicted", "by reading"),
    ]
    assert Statement("n", "s", "q", "c", "", None, "data").judged({}).verdict == OPEN


def test_every_statement_about_images_says_how_probable_it_is_to_fail_by_chance():
    """Theory, equations, printed numbers and counts have no chance; what is measured on samples has."""
    random = {
        *("validation samples", "origin of the similarity", "vector and matrix scaling", "confidence equal to top-N accuracy"),
        *(
            "TS and EC in the reliability diagram",
            "similar temperatures",
            "similar ECE and Brier score",
            "overconfident networks",
        ),
        *("calibration improves", "Brier score improves", "accuracy grows with the training set"),
        *("similarity at every training size", "minimum of the ECE", "size of the reduction", "different temperatures"),
        *("EC at least as good as TS", "expectation maximisation", "which images were augmented"),
        "EC better than TS under noise",
    }
    statements = [statement for module, pieces in PIECES.items() for statement in module.GROUP.judged_statements(pieces)]
    assert {statement.name for statement in statements if statement.chance} == random
    assert all(
        "probability" in statement.chance or "expected" in statement.chance for statement in statements if statement.chance
    )
    assert {statement.name for statement in statements if statement.judgement} == {"origin of the similarity"}


def test_texts_are_filled_in_with_numbers():
    tests = {"holds": lambda n: n["x"] > 2, "holds_if": lambda n: n["x"] > 0, "paper_holds": lambda n: n["x"] > 4}
    texts = {"condition": "if {x}", "paper_data": "paper {x}", "chance": "chance {x}"}
    statement = Statement("n", "s", "q", "c {x}", "{x:.1f}, {x:.0%}", **texts, **tests).judged({"x": 1})
    assert (statement.ours, statement.condition, statement.paper_data) == ("1.0, 100 %", "if 1", "paper 1")
    assert (statement.criterion, statement.chance) == ("c 1", "chance 1")
    assert statement.true_only_of == OURS
