"""Scores of whole answers and of multiple-choice questions, against plain formulas in many digits."""

from decimal import Decimal, localcontext
from math import prod

import numpy as np
import pytest
import reference
from optional import torch

import nishimori
from nishimori import sequences
from nishimori.errors import InputError

NAN = np.nan


def probabilities(seed=0, lengths=(3, 1, 5, 2)):
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.1, 1, n) for n in lengths]


def log_odds_in_many_digits(log_p):
    """ln p - ln(1 - p) with 400 digits."""
    with localcontext() as context:
        context.prec = 400
        p = Decimal(log_p).exp()
        return float(p.ln() - (1 - p).ln())


def test_the_probability_of_an_answer_is_the_product_over_its_tokens():
    given = probabilities()
    found = sequences.answers([np.log(each) for each in given])
    np.testing.assert_allclose(np.exp(found.log_probabilities), [prod(each) for each in given], rtol=1e-13)
    assert found.n_tokens.tolist() == [3, 1, 5, 2]
    assert found.ids.tolist() == [0, 1, 2, 3]


def test_the_mean_is_the_logarithm_of_the_geometric_mean():
    given = probabilities()
    expected = [prod(each) ** (1 / len(each)) for each in given]
    np.testing.assert_allclose(np.exp(sequences.answers([np.log(each) for each in given]).means), expected, rtol=1e-13)


def table_of(parts, fill):
    """Log-probabilities with padding at the left of each row, and where the tokens are."""
    most = max(map(len, parts))
    table, mask = np.full((len(parts), most), fill), np.zeros((len(parts), most), bool)
    for row, part in enumerate(parts):
        table[row, most - len(part) :] = np.log(part)
        mask[row, most - len(part) :] = True
    return table, mask


@pytest.mark.parametrize("fill", [NAN, np.inf, 7.0])
def test_values_at_padding_do_not_matter(fill):
    given = probabilities()
    table, mask = table_of(given, fill)
    found = sequences.answers(table, mask=mask)
    np.testing.assert_allclose(np.exp(found.log_probabilities), [prod(each) for each in given], rtol=1e-13)
    assert found.n_tokens.tolist() == [3, 1, 5, 2]


def test_flat_tokens_are_added_by_the_answer_that_they_belong_to():
    found = sequences.answers(np.log([0.5, 0.25, 0.5, 0.75]), ["z", "a", "z", "b"])
    assert found.ids.tolist() == ["z", "a", "b"]
    assert found.n_tokens.tolist() == [2, 1, 1]
    np.testing.assert_allclose(np.exp(found.log_probabilities), [0.25, 0.25, 0.75], rtol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_tensors_are_added_in_float64(dtype):
    table, mask = table_of(probabilities(), 0.0)
    stored = torch.tensor(table).to(dtype)
    found = sequences.answers(stored, mask=torch.tensor(mask))
    expected = [sum(float(value) for value in row) for row in stored]
    np.testing.assert_allclose(found.log_probabilities, expected, rtol=1e-14)
    assert found.log_probabilities.dtype == np.float64


@pytest.mark.parametrize("log_p", [-1e-300, -1e-20, -1e-9, -0.1, -0.69314718, -0.6931472, -0.7, -1.0, -30.0, -200.0])
def test_log_odds_keep_all_digits(log_p):
    assert sequences.log_odds([log_p])[0] == pytest.approx(log_odds_in_many_digits(log_p), rel=1e-14, abs=1e-15)


def test_log_odds_of_very_long_answers_are_finite():
    # exp(-5000) is zero in float64, and 1 - p is 1 in any number of digits that matters.
    assert sequences.log_odds([-5000.0])[0] == -5000.0


def test_a_floor_bounds_p_and_one_minus_p():
    found = sequences.log_odds([0.0, -np.inf, np.log(0.3)], floor=0.01)
    np.testing.assert_allclose(found, [np.log(99), -np.log(99), np.log(3 / 7)], rtol=1e-13)


def test_positive_rounding_errors_count_as_zero():
    assert sequences.answers([[1e-5, -2.0]]).log_probabilities.tolist() == [-2.0]


def generated_answers(n=3000, temperature=2.0):
    """Log-odds s and whether each answer is right, with the probability sigmoid(s / temperature)."""
    rng = np.random.default_rng(1)
    tokens = [np.log(rng.beta(8, 1, size)) for size in rng.integers(1, 9, n)]
    scores = sequences.log_odds(sequences.answers(tokens).log_probabilities)
    return scores, rng.random(n) < 1 / (1 + np.exp(-scores / temperature))


def test_ec_makes_the_mean_confidence_of_right_or_wrong_equal_to_its_accuracy():
    scores, right = generated_answers()
    fitted = nishimori.ExpectationConsistency().fit(scores, right)
    p = 1 / (1 + np.exp(-scores / fitted.temperature_))
    decided_well = np.where(p > 0.5, right, ~right)
    assert np.maximum(p, 1 - p).mean() == pytest.approx(decided_well.mean(), abs=1e-8)
    assert fitted.temperature_ == pytest.approx(2.0, abs=4 * fitted.temperature_se_)


def test_each_question_is_a_row_whatever_the_order_of_its_choices():
    found = sequences.choices([-1.0, -5.0, -2.0, -6.0, -7.0], ["q", "a", "q", "a", "a"])
    assert found.ids.tolist() == ["q", "a"]
    assert found.logits.tolist() == [[-1.0, -2.0, -np.inf], [-5.0, -6.0, -7.0]]
    assert found.labels([0, 0, 1, 1, 0]).tolist() == [1, 1]
    assert (found.rows.tolist(), found.columns.tolist()) == ([0, 1, 0, 1, 1], [0, 0, 1, 1, 2])


def test_missing_choices_do_not_count_in_a_fit():
    rng = np.random.default_rng(2)
    number = rng.integers(2, 6, 2000)
    ids = np.repeat(np.arange(2000), number)
    log_p = -4 * rng.exponential(size=len(ids))
    table = sequences.choices(log_p, ids)
    labels = np.array([(row[:n] / 3 + rng.gumbel(size=n)).argmax() for row, n in zip(table.logits, number, strict=True)])
    found = nishimori.temperatures(table.logits, labels)

    def gap(T):  # over the choices that there are
        rows = [reference.softmax(row[None, :n] / T)[0] for row, n in zip(table.logits, number, strict=True)]
        return np.mean([row.max() - (row.argmax() == label) for row, label in zip(rows, labels, strict=True)])

    assert gap(found.ec) == pytest.approx(0, abs=1e-8)
    assert found.ec == pytest.approx(3.0, abs=4 * found.ec_se)


def test_representations_say_how_much_there_is():
    assert repr(sequences.answers([[-1.0, -2.0], [-3.0]])) == "Answers(2 answers, 3 tokens)"
    assert repr(sequences.choices([-1.0, -2.0, -3.0, -4.0, -5.0], [0, 0, 1, 1, 1])) == "Choices(2 questions, up to 3 choices)"


TOKENS, LOGS = "`token_log_probabilities", "`log_probabilities` must be"
REFUSED = {
    "NaN": (
        lambda: sequences.answers(np.array([[-1.0, NAN]])),
        f"{TOKENS}` must be logarithms of probabilities, at most 0, got nan in row 0, column 1. Find where the model produced "
        "it.",
    ),
    "probabilities": (
        lambda: sequences.answers([[-1.0], [-2.0, 0.9]]),
        f"{TOKENS}[1]` must be logarithms of probabilities, at most 0, got 0.9 in row 1. Take the logarithm of probabilities "
        "first.",
    ),
    "positive": (
        lambda: sequences.log_odds([-1.0, 3.5]),
        f"{LOGS} logarithms of probabilities, at most 0, got 3.5 in row 1. Find where the model produced it.",
    ),
    "empty answer": (
        lambda: sequences.answers([[-1.0], []]),
        f"{TOKENS}[1]` must be a flat array with at least one entry, got shape (0,). For a flat list of all tokens pass "
        "`answer_ids`; drop answers without tokens.",
    ),
    "masked answer": (
        lambda: sequences.answers(np.full((2, 2), -1.0), mask=[[1, 0], [0, 0]]),
        "Each answer must have at least one token, got none in answer 1. Drop such answers, or check `mask`.",
    ),
    "no answers": (
        lambda: sequences.answers(np.empty((0, 3))),
        "Each answer must have at least one token, got no answers. Drop such answers, or check `mask`.",
    ),
    "empty list": (lambda: sequences.answers([]), f"{TOKENS}` must hold at least one answer, got none."),
    "flat array": (
        lambda: sequences.answers(np.array([-1.0, -2.0])),
        f"{TOKENS}` must have shape (n_answers, n_tokens), got (2,). For a flat array pass `answer_ids`, for one answer "
        "`[token_log_probabilities]`.",
    ),
    "flat list": (
        lambda: sequences.answers([-1.0, -2.0]),
        f"{TOKENS}[0]` must be a flat array with at least one entry, got shape (). For a flat list of all tokens pass "
        "`answer_ids`; drop answers without tokens.",
    ),
    "ids of another length": (
        lambda: sequences.answers([-1.0, -2.0], [0, 0, 1]),
        "`answer_ids` must have shape (2,), one answer_id per sample, got (3,).",
    ),
    "ids of several types": (
        lambda: sequences.choices([-1.0, -2.0], np.array([0, "a"], dtype=object)),
        "`question_ids` must hold values of one type, such as numbers or text.",
    ),
    "ids of a list of numbers and text": (
        lambda: sequences.choices([-1.0, -2.0, -3.0], [1, "1", 2]),
        "`question_ids` must hold values of one type, such as numbers or text.",
    ),
    "missing number": (
        lambda: sequences.answers([-1.0, -2.0, -3.0], [0, 0, NAN]),
        "`answer_ids` must not be missing, got NaN in row 2. Give that row its answer_id.",
    ),
    "missing text": (
        lambda: sequences.choices([-1.0, -2.0, -3.0], ["a", NAN, "a"]),
        "`question_ids` must not be missing, got NaN in row 1. Give that row its question_id.",
    ),
    "ids of different lengths": (
        lambda: sequences.answers([-1.0, -2.0], [[0], [1, 2]]),
        "`answer_ids` must be a flat list, got rows of different lengths.",
    ),
    "table with ids": (
        lambda: sequences.answers([[-1.0, -2.0]], [0, 0]),
        f"{TOKENS}` must be a flat array, as `answer_ids`, with at least one entry, got shape (1, 2).",
    ),
    "mask with ids": (
        lambda: sequences.answers([-1.0], [0], mask=[True]),
        "`mask` must be left out with `answer_ids`. Drop the tokens that belong to no answer.",
    ),
    "mask of another shape": (
        lambda: sequences.answers(np.full((2, 3), -1.0), mask=np.ones((2, 2), bool)),
        "`mask` must be True or False (1 or 0) for each token, of shape (2, 3), got bool of shape (2, 2). True marks the "
        "tokens of the answer.",
    ),
    "mask of numbers": (
        lambda: sequences.answers(np.full((1, 2), -1.0), mask=[[2.0, 1.0]]),
        "`mask` must be True or False (1 or 0) for each token, of shape (1, 2), got float64 of shape (1, 2), with other "
        "values. True marks the tokens of the answer.",
    ),
    "certain": (
        lambda: sequences.log_odds([-1.0, 0.0]),
        f"{LOGS} finite and below 0, got 0 for answer 1, whose log-odds are infinite. Pass `floor`, the smallest probability "
        "that you consider possible: 6e-8 is the rounding error of float32.",
    ),
    "floor": (lambda: sequences.log_odds([-1.0], floor=0.6), "`floor` must lie between 2.22507e-308 and 0.5, got 0.6."),
    "one choice": (
        lambda: sequences.choices([-1.0, -2.0, -3.0], ["a", "a", "b"]),
        "Each question must have at least two choices, got one for question 'b'. Drop such questions.",
    ),
    "two right choices": (
        lambda: sequences.choices([-1.0, -2.0], [3, 3]).labels([1, 1]),
        "`right` must mark one choice of each question, got 2 for question 3. Drop such questions.",
    ),
    "answers in place of their log-probabilities": (
        lambda: sequences.log_odds(sequences.answers([[-1.0]])),
        "`log_probabilities` must hold numbers, but one could not be read: float() argument must be a string or a real number, "
        "not 'Answers'.",
    ),
    "right is missing": (
        lambda: sequences.choices([-1.0, -2.0], [3, 3]).labels([1, NAN]),
        "`right` must be True or False (1 or 0) for each of the 2 choices, of shape (2,), got float64 of shape (2,), with "
        "other values. If you know the column of the right choice, pass that column as the label.",
    ),
    "right columns": (
        lambda: sequences.choices([-1.0, -2.0], [3, 3]).labels([1]),
        "`right` must be True or False (1 or 0) for each of the 2 choices, of shape (2,), got int64 of shape (1,). If you know "
        "the column of the right choice, pass that column as the label.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_with_what_to_do(call, message):
    with pytest.raises(InputError) as refused:
        call()
    assert str(refused.value) == message
