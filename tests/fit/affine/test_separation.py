"""Without penalties a fit exists if no direction separates a class: compared with a linear programme and with SciPy."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from sklearn.svm import SVC

from nishimori import BiasCorrected, Platt, VectorScaling
from nishimori.calibrators import ClasswiseTemperature, Dirichlet, MatrixScaling
from nishimori.errors import InputWarning, NotConvergedError, NoTemperatureError

KINDS = {
    "vector": VectorScaling(penalty=None),
    "matrix": MatrixScaling(penalty=None),
    "dirichlet": Dirichlet(penalty=None),
    "classwise": ClasswiseTemperature(penalty=None),
    "bias": BiasCorrected(method="ts", shrink=False),
}


def derivatives(logits, kind):
    """The derivative of the mapped logit of each class by each parameter, (n, k, m)."""
    n, k = logits.shape
    x = logits - logits.mean(axis=1, keepdims=True)
    if kind == "dirichlet":
        x = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    scale = x[:, :, None] * (np.ones((k, 1)) if kind == "bias" else np.eye(k))
    if kind in ("matrix", "dirichlet"):
        scale = (np.eye(k)[None, :, :, None] * x[:, None, None, :]).reshape(n, k, k * k)
    return scale if kind == "classwise" else np.concatenate([scale, np.broadcast_to(np.eye(k), (n, k, k))], axis=2)


def is_separated(slopes, labels):
    """Whether some direction lowers the margin of no row and raises that of some row, by a linear programme."""
    n, k, m = slopes.shape
    margins = (slopes[np.arange(n), labels][:, None] - slopes)[np.arange(k) != labels[:, None]]
    found = linprog(-margins.mean(axis=0), -margins, np.zeros(len(margins)), bounds=[(-1, 1)] * m, method="highs")
    return -found.fun > 1e-7


def loss_of(theta, slopes, labels):
    """The cross-entropy and its gradient, from the formulas."""
    u = slopes @ theta
    u -= u.max(axis=1, keepdims=True)
    p = np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    gaps = p.copy()
    gaps[rows, labels] -= 1
    return -np.log(p[rows, labels]).sum(), np.einsum("nk,nkm->m", gaps, slopes)


def parameters(fitted):
    if isinstance(fitted, BiasCorrected):
        return np.r_[fitted.inverse_temperature_, fitted.biases_]
    return np.concatenate([each.ravel() for each in fitted.parameters_.values()])


def with_a_rare_class(seed):
    """Logits, and labels of which one class is rare, in some sets so rare that it is separated."""
    rng = np.random.default_rng(seed)
    k = 2 + seed % 3
    logits = 3 * rng.normal(size=(40, k))
    if seed % 4 == 0:
        logits = logits.round()  # ties, where classes may touch each other
    labels = (logits / 2 + np.r_[np.zeros(k - 1), -rng.uniform(2, 6)] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    # Of the rare class there is a sample somewhere, or where it is most probable.
    labels[logits[:, -1].argmax() if seed % 2 else -1] = k - 1
    return logits, labels


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_is_refused_exactly_where_a_linear_programme_finds_a_separating_direction(kind):
    outcomes = []
    for seed in range(12):
        logits, labels = with_a_rare_class(seed)
        slopes = derivatives(logits, kind)
        outcomes.append(is_separated(slopes, labels))
        if outcomes[-1]:
            with pytest.raises((NotConvergedError, NoTemperatureError), match=r"^No (finite parameters fit best: class|temp)"):
                KINDS[kind].fit(logits, labels)
            continue
        try:
            fitted = KINDS[kind].fit(logits, labels)
        except NoTemperatureError:  # from which departures would be measured
            continue
        loss, gradient = loss_of(parameters(fitted), slopes, labels)
        assert np.abs(gradient).max() < 1e-8
        start = np.zeros(slopes.shape[2])
        assert loss <= minimize(loss_of, start, (slopes, labels), jac=True, method="BFGS").fun + 1e-8
    assert kind in ("classwise", "bias") or any(outcomes)
    assert not all(outcomes)


@pytest.mark.parametrize("kind", ["vector", "matrix", "dirichlet"])
@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_a_separated_class_is_named_by_its_label_and_weight(kind, unit):
    rng = np.random.default_rng(99)
    logits = 3 * rng.normal(size=(150, 4))
    labels = (logits / 2 + [0, 0, 0, -3.5] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    names = np.array(["cat", "dog", "cow", "yak"])
    message = (
        r"^No finite parameters fit best: class 'yak', with a weight of 1 out of 150, can be separated from the other samples "
        r"perfectly, so that parameters grow without limit\. Use `penalty='auto'`, or more samples of this class\.$"
    )
    with pytest.raises(NotConvergedError, match=message):
        type(KINDS[kind])(penalty=None, classes=names).fit(unit * logits, names[labels])
    assert is_separated(derivatives(logits, kind), labels)


def test_errors_are_large_where_a_class_is_nearly_separated():
    # One sample of class 1 among those of class 0: the optimum exists and is far away, and its errors say so.
    s = np.r_[np.linspace(-3, 0, 40), -0.02, np.linspace(0.1, 3, 40)]
    labels = np.r_[np.zeros(40), 1, np.ones(40)].astype(int)
    found = VectorScaling(penalty=None).fit(s, labels)
    scale, error = (each["scale"].sum() / 2 for each in (found.parameters_, found.parameters_se_))
    assert scale > 20
    assert error > 0.2 * scale


def test_inputs_that_do_not_vary_are_not_taken_for_separated():
    rng = np.random.default_rng(4)
    s = rng.normal(size=200)
    logits = np.stack([s, -s, np.zeros(200)], axis=1)  # the third centred logit is always 0: its factor has no effect
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    loss, gradient = loss_of(parameters(VectorScaling(penalty=None).fit(logits, labels)), derivatives(logits, "vector"), labels)
    assert np.abs(gradient).max() < 1e-8
    assert loss == pytest.approx(
        minimize(loss_of, np.zeros(6), (derivatives(logits, "vector"), labels), jac=True).fun, abs=1e-8
    )


# --- two classes


def svc_scores():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(1020, 5))
    y = np.r_[np.zeros(1000), np.ones(20)].astype(int)
    X[1000:] += 0.8
    return SVC(random_state=0).fit(X[::2], y[::2]).decision_function(X[1::2]), y[1::2]


def narrow_scores(seed):
    """Scores far from zero that hardly vary, and labels that do not depend on them."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(2000, dtype=int)
    scores = rng.normal(-1, 0.12, 2000)
    labels[rng.permutation(2000)[:77]] = 1
    return scores, labels


BINARY = {**{f"narrow {seed}": narrow_scores(seed) for seed in range(10)}, "svc": svc_scores()}


@pytest.mark.parametrize("name", BINARY)
def test_one_temperature_and_biases_of_two_classes_are_platt_scaling_and_vector_scaling(name):
    scores, labels = BINARY[name]
    new = np.linspace(scores.min(), scores.max(), 7)

    def log_odds(calibrator):
        log_p = calibrator.fit(scores, labels).predict_log_proba(new)
        return log_p[:, 1] - log_p[:, 0]

    found = [log_odds(each) for each in (KINDS["bias"], VectorScaling(penalty=None), Platt(smooth_labels=False))]
    np.testing.assert_allclose(found[1], found[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(found[2], found[0], rtol=0, atol=1e-8)
    slopes = np.stack([np.zeros((len(scores), 2)), np.stack([scores, np.ones(len(scores))], axis=1)], axis=1)
    best = minimize(loss_of, np.zeros(2), (slopes, labels), jac=True, method="BFGS", options={"gtol": 1e-7}).x
    np.testing.assert_allclose(found[0], best[0] * new + best[1], atol=1e-5)


def test_some_of_these_scores_have_a_negative_slope():
    slopes = [np.polyfit(*data, 1)[0] for data in BINARY.values()]
    assert min(slopes) < 0 < max(slopes)


def test_mean_confidence_is_not_matched_where_the_inverse_temperature_is_not_positive():
    scores, labels = BINARY["narrow 0"]
    with pytest.warns(InputWarning, match="the inverse temperature of least cross-entropy is not positive"):
        found = BiasCorrected(method="ec", shrink=False).fit(scores, labels)
    assert found.condition_ == "ts"
    assert found.inverse_temperature_ == pytest.approx(KINDS["bias"].fit(scores, labels).inverse_temperature_, rel=1e-9)


@pytest.mark.parametrize(
    "calibrator", [KINDS["bias"], KINDS["vector"], Platt(smooth_labels=False)], ids=["bias", "vector", "platt"]
)
def test_two_classes_that_scores_separate_are_refused(calibrator):
    scores = np.r_[np.linspace(-4, -1, 50), np.linspace(-0.9, 4, 50)]  # not at zero, so that one temperature makes errors
    with pytest.raises(NotConvergedError):
        calibrator.fit(scores, np.repeat([0, 1], 50))


@pytest.mark.parametrize("scale", [0.01, 0.05, 0.1, 0.3, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_log_probabilities_that_hardly_differ_do_not_hide_separated_classes(scale, seed):
    logits = scale * np.random.default_rng(seed).normal(size=(30, 2))
    labels = (logits[:, 1] - logits[:, 0] > scale / 2).astype(int)  # separated by a threshold
    with pytest.raises(NotConvergedError, match="can be separated"):
        Dirichlet(penalty=None).fit(logits, labels)


@pytest.mark.parametrize("factor", [1e-12, 1e-10, 1e10])
def test_the_scale_of_weights_does_not_make_a_class_separated(factor):
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(500, 3))
    labels = (logits / 2 + [1, 0, -1] + rng.gumbel(size=logits.shape)).argmax(axis=1)
    one, other = (BiasCorrected(method="ts", shrink=False).fit(logits, labels, w) for w in (None, np.full(500, factor)))
    np.testing.assert_allclose(other.predict_log_proba(logits), one.predict_log_proba(logits), atol=1e-8)
