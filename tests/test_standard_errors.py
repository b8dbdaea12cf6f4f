"""Standard errors of temperatures: the sandwich formula on the sums of a fit, against a second formula and against draws."""

import numpy as np
import pytest

import nishimori
import reference
from nishimori import ExpectationConsistency, InputError, Matched, TemperatureScaling, temperatures

METHODS = {"ec": ExpectationConsistency, "ts": TemperatureScaling}


class Rank(nishimori.Observable):
    """Minus the rank of each class; the top class has rank 0."""

    def values(self, logits):
        return -(logits[:, :, None] < logits[:, None, :]).sum(axis=2).astype(float)


def gaps(method, logits, labels, T, top_n=1):
    """The gap of each row at T, from the definition."""
    p = reference.softmax(logits, T)
    rows = np.arange(len(labels))
    if method == "ec":
        order = np.argsort(-logits, axis=1, kind="stable")[:, :top_n]
        return np.take_along_axis(p, order, axis=1).sum(axis=1) - (order == labels[:, None]).any(axis=1)
    values = logits if method == "ts" else Rank().values(logits)
    return (p * values).sum(axis=1) - values[rows, labels]


def sandwich(method, logits, labels, weights, T, top_n=1):
    """The standard error of T: the gaps at T, and their slope in log T by differences."""
    step = 1e-4
    up, down = (weights @ gaps(method, logits, labels, T * np.exp(sign * step), top_n) for sign in (1, -1))
    spread = np.sqrt((weights**2 * gaps(method, logits, labels, T, top_n) ** 2).sum())
    return T * spread / abs((up - down) / (2 * step))


@pytest.mark.parametrize("kernel", ["numpy", "numba", "array_api"])
@pytest.mark.parametrize(("n", "k"), [(300, 2), (3000, 5), (9000, 10), (3000, 40)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_is_that_of_the_estimating_equation(n, k, weighted, kernel, monkeypatch):
    if kernel == "numba":
        pytest.importorskip("numba")
    monkeypatch.setenv("NISHIMORI_KERNEL", kernel)
    logits, labels = reference.drawn(n, k)
    weights = np.random.default_rng(1).uniform(0.5, 3, n) if weighted else np.ones(n)
    found = temperatures(logits, labels, sample_weight=weights if weighted else None)
    for method, T, se in (("ec", found.ec, found.ec_se), ("ts", found.ts, found.ts_se)):
        # Sums may be those one short step away from T: at most 1 %, and up to 10 % where rows are expanded.
        assert se == pytest.approx(sandwich(method, logits, labels, weights, T), rel=0.01)
        calibrator = METHODS[method]().fit(logits, labels, weights if weighted else None)
        assert calibrator.temperature_se_ == pytest.approx(se, rel=0.01)
        assert calibrator.receipt_.temperature_se == calibrator.temperature_se_


def test_top_n_and_own_observables_have_an_error():
    logits, labels = reference.drawn(2000, 6)
    ones = np.ones(2000)
    top = ExpectationConsistency(top_n=2).fit(logits, labels)
    assert top.temperature_se_ == pytest.approx(sandwich("ec", logits, labels, ones, top.temperature_, 2), rel=0.01)
    own = Matched(Rank()).fit(logits, labels)
    assert own.temperature_se_ == pytest.approx(sandwich("rank", logits, labels, ones, own.temperature_), rel=0.01)


def test_half_of_the_weights_and_two_of_each_row_change_the_error_as_they_should():
    logits, labels = reference.drawn(2000, 6)
    error = temperatures(logits, labels).ec_se
    assert temperatures(logits, labels, sample_weight=np.full(2000, 0.5)).ec_se == pytest.approx(error, rel=1e-6)
    twice = temperatures(np.concatenate([logits] * 2), np.concatenate([labels] * 2)).ec_se
    assert twice == pytest.approx(error / np.sqrt(2), rel=1e-3)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_intervals_cover_the_temperature_that_labels_were_drawn_at(method):
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        logits = 3 * rng.normal(size=(600, 4))
        labels = (logits / 1.7 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        low, high = METHODS[method]().fit(logits, labels).confidence_interval()
        inside += low < 1.7 < high
    assert 0.92 < inside / 400 < 0.98  # 0.95, and three standard errors of 400 draws


def test_an_interval_lies_around_log_T_and_grows_with_its_level():
    calibrator = ExpectationConsistency().fit(*reference.drawn(1000, 5))
    T, se = calibrator.temperature_, calibrator.temperature_se_
    found = calibrator.confidence_interval(0.95)
    assert found.low * found.high == pytest.approx(T**2)
    assert np.log(found.high / T) == pytest.approx(1.959964 * se / T, rel=1e-6)
    assert calibrator.confidence_interval(0.5).high < found.high < calibrator.confidence_interval(0.99).high
    assert calibrator.confidence_interval(0) == pytest.approx((T, T))
    assert calibrator.confidence_interval(1) == (0, np.inf)
    for level in (-0.1, 95, "high", None):
        with pytest.raises(InputError, match="`level` must"):
            calibrator.confidence_interval(level)


def test_what_is_not_known_is_said():
    logits, labels = reference.drawn(1000, 5)
    sketch = nishimori.Sketch().update(logits, labels)
    assert temperatures(sketch).ec_se is None
    calibrator = ExpectationConsistency().fit(sketch)
    assert calibrator.temperature_se_ is None
    with pytest.raises(InputError, match="needs the standard error of T, which is not known from a sketch"):
        calibrator.confidence_interval()


def test_a_file_keeps_the_error(tmp_path):
    calibrator = TemperatureScaling().fit(*reference.drawn(1000, 5))
    calibrator.save(tmp_path / "ts.json")
    loaded = nishimori.load(tmp_path / "ts.json")
    assert loaded.temperature_se_ == calibrator.temperature_se_ > 0
    assert loaded.confidence_interval() == calibrator.confidence_interval()


def test_a_temperature_that_does_not_exist_has_no_error():
    logits, labels = reference.drawn(1000, 5)
    logits[0, labels[0]] = -np.inf  # the loss is infinite at every T
    found = temperatures(logits, labels)
    assert found.ts is None
    assert found.ts_se is None
    assert found.ec_se > 0
