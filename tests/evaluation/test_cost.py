"""Costs against enumeration, their errors, and what is no table of costs."""

import numpy as np
import pytest

import nishimori
from nishimori import claims, metrics
from nishimori.errors import InputError

RNG = np.random.default_rng(0)
LOGITS, LABELS = 2 * RNG.normal(size=(400, 3)), RNG.integers(3, size=400)
COSTS = np.array([[0.0, 5.0, 2.0], [1.0, 0.0, 4.0], [3.0, 1.0, 0.0], [0.8, 0.8, 0.8]])  # the last is "ask a person"


def enumerated(logits, against=False):
    """The cost of each row, action by action."""
    paid = []
    for z, label in zip(logits, LABELS, strict=True):
        p = np.exp(z) / np.exp(z).sum()
        expected = [sum(p[k] * row[k] for k in range(3)) for row in COSTS]
        best = expected.index(min(expected))
        paid.append(COSTS[best][label] - (COSTS[int(p.argmax())][label] if against else 0))
    return np.array(paid)


def test_costs_are_those_of_enumeration():
    card = nishimori.evaluate(LOGITS, LABELS, metrics=[metrics.Cost(COSTS), metrics.Cost(COSTS, against_argmax=True)])
    for name, rows in (("cost", enumerated(LOGITS)), ("cost_against_argmax", enumerated(LOGITS, against=True))):
        assert card[name].value == pytest.approx(rows.mean(), rel=1e-12), name
        assert card[name].se == pytest.approx(rows.std() / 20, rel=1e-9), name
    assert "cost against argmax" in str(card)


def test_differences_from_no_calibration_are_paired():
    found = nishimori.compare(LOGITS, LABELS, methods=[1.0, 3.0], metrics=[metrics.Cost(COSTS)])
    change = found["T=3"].differences["cost"]
    rows = enumerated(LOGITS / 3) - enumerated(LOGITS)
    assert change.value == pytest.approx(rows.mean(), rel=1e-12)
    assert change.se == pytest.approx(rows.std() / 20, rel=1e-9)


def test_a_bound_on_the_cost_is_checked():
    gate = nishimori.gate(LOGITS, LABELS, bounds={metrics.Cost(COSTS): 0.1})
    assert gate.verdict == "fail"
    assert nishimori.gate(LOGITS, LABELS, bounds={metrics.Cost(COSTS): 4.9}).verdict == "pass"


def test_claims_cost_by_wrong_and_right():
    p, right = np.array([0.9, 0.2, 0.95, 0.6]), np.array([1, 0, 0, 1])
    answer, ask = [10.0, 0.0], [0.9, 0.9]
    found = nishimori.evaluate(claims(p, right), metrics=[metrics.Cost([answer, ask])])
    assert found["cost"].value == pytest.approx((0.9 + 0.9 + 10 + 0.9) / 4)  # only 0.95 is answered


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1.0, 2.0, 3.0], r"`costs` must have shape \(n_actions, n_classes\), got shape \(3,\)"),
        ([[1.0, np.nan, 3.0]], "`costs` must be finite"),
        ([["a", "b"]], "`costs`"),
        ([[1.0, 2.0]], "`costs` must have 3 columns, one per class, got 2"),
    ],
)
def test_what_is_no_table_of_costs_is_refused(costs, message):
    with pytest.raises(InputError, match=message):
        nishimori.evaluate(LOGITS, LABELS, metrics=[metrics.Cost(costs)])


def test_answers_of_the_classes_come_first():
    with pytest.raises(InputError, match="begin with 3 rows, one answer per class in order, got 2"):
        nishimori.evaluate(LOGITS, LABELS, metrics=[metrics.Cost(COSTS[:2], against_argmax=True)])
