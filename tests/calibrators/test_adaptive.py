"""The method "adaptive": its formula from the gaps of the rows, its limits, its interval, and missing temperatures."""

import json
import pickle

import numpy as np
import pytest
import reference
from host_kernels import EVERY
from optional import torch
from scipy.special import ndtri

import nishimori
from nishimori import AdaptiveConsistency
from nishimori._fit.adaptive import Adapted, kept_share
from nishimori.errors import FormatError, InputError, InputWarning, NoTemperatureError

LOGITS, LABELS = reference.drawn(700, 5)
RNG = np.random.default_rng(2)
# Random labels in class 0 and a tenth of the others: EC and TS differ by about two standard deviations of their difference.
NOISY = np.where((LABELS == 0) | (RNG.random(700) < 0.1), RNG.integers(5, size=700), LABELS)


def fitted(logits=LOGITS, labels=NOISY, **options):
    return AdaptiveConsistency().fit(logits, labels, **options)


def row_gaps(logits, labels, ec, ts):
    """The gaps of all rows, of EC at T_EC and of TS at T_TS, over the slope of their sum in log T by differences."""
    rows = np.arange(len(labels))

    def of_ec(T):
        return reference.softmax(logits, T).max(axis=1) - reference.right(logits, labels)

    def of_ts(T):
        return (reference.softmax(logits, T) * logits).sum(axis=1) - logits[rows, labels]

    return (
        of_ec(ec),
        of_ts(ts),
        lambda w, h=1e-4: [(w @ f(T * np.exp(h)) - w @ f(T * np.exp(-h))) / (2 * h) for f, T in ((of_ec, ec), (of_ts, ts))],
    )


def by_hand(logits, labels, weights=None, clusters=None, counts=False):
    """The logarithms of both temperatures, EC first, and their covariance, from the definitions."""
    w = np.ones(len(labels)) if weights is None else np.asarray(weights, dtype=float)
    ec, ts = (f(logits, labels, w) for f in (reference.ec_temperature, reference.ts_temperature))
    one, two, slopes = row_gaps(logits, labels, ec, ts)
    gaps = np.stack([one, two])
    if clusters is not None:
        summed = np.stack([(gaps * w)[:, clusters == each].sum(axis=1) for each in np.unique(clusters)], axis=1)
        products = summed @ summed.T
    else:
        products = (gaps * (w if counts else w**2)) @ gaps.T
    slope = np.array(slopes(w))
    return np.log([ec, ts]), products / np.outer(slope, slope)


def shrunk(logs, C):
    """Log T by the formula, in another form: both logarithms, weighted by t² and 1."""
    t = (logs[0] - logs[1]) / np.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1])
    return (t**2 * logs[0] + logs[1]) / (t**2 + 1)


def test_the_temperature_of_ts_does_not_vary_with_the_difference_if_the_labels_are_drawn_at_one():
    """Hausman's lemma, which the share rests on: TS is then efficient. With label noise it is not."""
    logits, labels = reference.drawn(20_000, 5)

    def follow(labels):
        kept = fitted(logits, labels)._estimates_
        variance = kept["ec_variance"] + kept["ts_variance"] - 2 * kept["covariance"]
        return (kept["covariance"] - kept["ts_variance"]) / variance

    assert abs(follow(labels)) < 0.05
    rng = np.random.default_rng(0)
    assert follow(np.where(rng.random(20_000) < 0.3, rng.integers(5, size=20_000), labels)) < -0.1


WEIGHTS = np.random.default_rng(3).uniform(0, 3, 700).round(1)


@pytest.mark.parametrize("kernel", EVERY)
@pytest.mark.parametrize(
    ("weights", "clusters", "counts"),
    [(None, None, False), (WEIGHTS, None, False), (WEIGHTS, None, True), (None, np.arange(700) // 7, False)],
    ids=["rows", "weights", "counts", "clusters"],
)
def test_the_temperature_is_that_of_the_formula(monkeypatch, kernel, weights, clusters, counts):
    monkeypatch.setenv("NISHIMORI_KERNEL", kernel)
    logs, C = by_hand(LOGITS, NOISY, weights, clusters, counts)
    found = fitted(sample_weight=weights, clusters=clusters, counts=counts)
    assert [found.ec_, found.ts_] == pytest.approx(np.exp(logs).tolist(), rel=1e-8)
    assert np.log(found.temperature_) == pytest.approx(shrunk(logs, C), abs=1e-7)
    share = (np.log(found.temperature_) - logs[1]) / (logs[0] - logs[1])
    assert found.weight_ == pytest.approx(share, rel=1e-6)
    assert 0.05 < share < 0.95  # the formula is neither of its limits here


def test_a_difference_within_its_noise_gives_ts_and_many_samples_give_ec():
    close = Adapted(0.51, 0.5, 0.02, 0.01, 0.005)  # one percent apart, with a standard deviation of 0.14
    assert close.weight < 0.006
    assert close.log_temperature == pytest.approx(0.5, abs=1e-4)
    far = Adapted(0.9, 0.5, 2e-4, 1e-4, 0.5e-4)
    assert far.weight > 1 - 2e-3
    assert far.log_temperature == pytest.approx(0.9, abs=1e-3)
    logits, labels = reference.drawn(4000, 5, seed=1)
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(4000) < 0.3, rng.integers(5, size=4000), labels)
    many = fitted(np.tile(logits, (10, 1)), np.tile(noisy, 10))
    assert abs(np.log(many.temperature_ / many.ec_)) < 0.02 * abs(np.log(many.ec_ / many.ts_))


@pytest.mark.parametrize("delta", [0.03, -0.1, 0.4])
def test_the_share_has_the_least_mean_squared_error_if_ts_is_efficient(delta):
    """Errors of log T_TS and δ are then uncorrelated: drawn here, the best share of a grid is that of the formula."""
    variance, shares = 0.01, np.linspace(0, 1, 1001)
    rng = np.random.default_rng(0)
    ts = 0.3 * rng.normal(size=100_000)  # its error, about 0
    error = ts + shares[:, None] * (delta + np.sqrt(variance) * rng.normal(size=100_000)) - delta
    best = shares[np.mean(error**2, axis=1).argmin()]
    assert kept_share(np.asarray(delta), variance) == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize(
    ("variances", "weight"),
    [((0.01, 0.01, 0.01), 1.0), ((0.0, 0.0, 0.0), 1.0), ((1e-300, 1e-300, 0.0), 1.0)],
    ids=["no variance of the difference", "no variance at all", "hardly any"],
)
def test_a_difference_without_variance_is_kept(variances, weight):
    found = Adapted(0.6, 0.5, *variances)
    assert found.weight == weight
    assert found.log_temperature == 0.6
    low, high = found.interval(0.95)
    assert low <= found.temperature <= high
    assert np.log(high / low) == pytest.approx(2 * 1.959964 * variances[0] ** 0.5, rel=1e-3, abs=1e-9)


def test_equal_temperatures_stay_as_they_are():
    assert Adapted(0.5, 0.5, 0.01, 0.01, 0.01).temperature == pytest.approx(np.exp(0.5))
    assert Adapted(0.5, 0.5, 0.02, 0.01, 0.01).temperature == pytest.approx(np.exp(0.5))


# δ in units of its standard deviation, from far below to far above.
@pytest.mark.parametrize("t", [-5.0, -1.5, 0.0, 0.7, 2.0, 6.0])
def test_error_and_interval_are_those_of_draws(t):
    C = np.array([[0.0085, 0.0058], [0.0058, 0.0062]])
    deviation = np.sqrt(C[0, 0] + C[1, 1] - 2 * C[0, 1])
    logs = np.array([0.46 + t * deviation, 0.46])
    found = Adapted(*logs, C[0, 0], C[1, 1], C[0, 1])
    # Quasi-random normal pairs: Weyl's sequence in two dimensions, far more even than random numbers.
    uniform = (np.arange(1, 400_001)[:, None] * np.array([0.7548776662466927, 0.5698402909980532])) % 1
    draws = logs + ndtri(uniform) @ np.linalg.cholesky(C).T
    each = [draws[:, 1] + (draws[:, 0] - draws[:, 1]) ** 3 / ((draws[:, 0] - draws[:, 1]) ** 2 + deviation**2)]
    assert found.temperature_se == pytest.approx(found.temperature * np.std(each), rel=1e-3)
    for level in (0.5, 0.95, 0.99):
        expected = np.quantile(each, [(1 - level) / 2, (1 + level) / 2])
        assert np.log(found.interval(level)) == pytest.approx(expected, abs=1e-3 * np.std(each) * (10 if level > 0.98 else 3))


def test_an_interval_contains_the_temperature_at_every_level():
    found = fitted()
    for level in (0, 0.01, 0.1, 0.5, 0.95, 0.9999):
        low, high = found.confidence_interval(level)
        assert 0 < low <= found.temperature_ <= high
    assert found.confidence_interval(1) == (0, np.inf)
    widths = [np.log(high / low) for low, high in (found.confidence_interval(level) for level in (0.5, 0.9, 0.99))]
    assert widths == sorted(widths)
    for level in (-0.1, 95, "high", None):
        with pytest.raises(InputError, match="`level` must"):
            found.confidence_interval(level)


def test_intervals_cover_the_ec_temperature_of_the_population():
    # Labels come from a teacher whose classes 0 and 1 are noisier: EC and TS differ, by about two standard deviations of δ.
    rng = np.random.default_rng(5)
    pool = 3 * rng.normal(size=(20_000, 4))
    flatness = np.where(pool.argmax(axis=1) < 1, 6.0, 1.6)[:, None]
    p = reference.softmax(pool / flatness)
    right = p[np.arange(len(p)), pool.argmax(axis=1)].mean()
    ec = reference._root(lambda T: reference.softmax(pool, T).max(axis=1).mean() - right, 0.1, 100)
    inside = []
    for _ in range(300):
        chosen = rng.integers(len(pool), size=400)
        labels = (np.log(p[chosen]) + rng.gumbel(size=(400, 4))).argmax(axis=1)
        low, high = fitted(pool[chosen], labels).confidence_interval()
        inside.append(low <= ec <= high)
    assert 0.91 < np.mean(inside) < 0.985  # 0.95, and three standard errors of 300 draws


def test_the_same_data_give_the_same_digits():
    first, again = fitted(), fitted()
    assert first.temperature_ == again.temperature_
    assert first.temperature_se_ == again.temperature_se_
    assert first.confidence_interval(0.9) == again.confidence_interval(0.9)


def test_the_residual_is_what_confidence_exceeds_accuracy_by():
    found = fitted()
    gap = reference.ec_gap(LOGITS, NOISY, found.temperature_)
    assert abs(gap) > 1e-4
    assert found.fit_info_.residual == pytest.approx(gap, rel=1e-3)
    assert not found.fit_info_.is_measured
    assert found.fit_info_.temperature_se == found.temperature_se_
    assert found.fit_info_.n_passes == found.n_passes_


def test_a_file_gives_temperature_error_and_interval_again(tmp_path):
    found = fitted()
    found.save(tmp_path / "adaptive.json")
    loaded = nishimori.load(tmp_path / "adaptive.json")
    assert type(loaded) is AdaptiveConsistency
    assert loaded.confidence_interval(0.8) == found.confidence_interval(0.8)
    for name in ("temperature_", "temperature_se_", "ec_", "ts_", "weight_", "residual_", "n_samples_"):
        assert getattr(loaded, name) == getattr(found, name)
    assert pickle.loads(pickle.dumps(found)).confidence_interval() == found.confidence_interval()


# Written when the share was t⁴/(t⁴ + 4), from the data above.
EARLIER = """{
  "format": "nishimori-calibration",
  "format_version": 2,
  "map": {
    "kind": "temperature",
    "parameters": {
      "temperature": 3.1794967066930195
    }
  },
  "input": "logits",
  "floor": null,
  "provenance": {
    "method": "adaptive",
    "params": {},
    "classes": null,
    "columns": null,
    "label_column": null,
    "score_column": null,
    "group_column": null,
    "n_classes": 5,
    "n_samples": 700,
    "residual": -0.0029762019978458927,
    "temperature_se": 0.2606075505851054,
    "estimates": {
      "log_ec": 1.1442861038769232,
      "log_ts": 1.273464080416061,
      "ec_variance": 0.0058220796721822655,
      "ts_variance": 0.004444109687362254,
      "covariance": 0.0037714634971083424
    },
    "is_flat": false,
    "library_version": "0.1.0"
  }
}
"""


def test_a_file_of_another_share_keeps_its_temperature_and_has_the_share_that_belongs_to_it(tmp_path):
    (tmp_path / "earlier.json").write_text(EARLIER, encoding="utf-8")
    loaded, now = nishimori.load(tmp_path / "earlier.json"), fitted()
    assert loaded.temperature_ == 3.1794967066930195
    assert loaded.temperature_se_ == 0.2606075505851054
    assert (loaded.ec_, loaded.ts_) == pytest.approx((now.ec_, now.ts_), rel=1e-8)
    t2 = np.log(now.ec_ / now.ts_) ** 2 / (0.0058220796721822655 + 0.004444109687362254 - 2 * 0.0037714634971083424)
    assert loaded.weight_ == pytest.approx(t2**2 / (t2**2 + 4), rel=1e-6)
    assert loaded.weight_ - now.weight_ > 0.02
    assert loaded.ts_ * (loaded.ec_ / loaded.ts_) ** loaded.weight_ == pytest.approx(loaded.temperature_, rel=1e-12)
    np.testing.assert_allclose(loaded.predict_proba(LOGITS), reference.softmax(LOGITS, 3.1794967066930195), rtol=1e-10)
    # The interval is about T_EC, which both estimate, and not about T.
    assert loaded.confidence_interval(0.95) == pytest.approx(now.confidence_interval(0.95), rel=1e-6)
    of_one = {"log_ec": 1.14, "ec_variance": 0.006}
    for values, T in ((loaded._estimates_, loaded.temperature_), (loaded._estimates_, 2.0), (of_one, 5.0)):
        kept = Adapted.from_estimates(values, T)  # also with a T that somebody has typed
        assert kept.temperature == pytest.approx(T, rel=1e-12)
        low, high = kept.interval(0.5)
        assert low <= kept.temperature <= high
    loaded.save(tmp_path / "again.json")
    again = nishimori.load(tmp_path / "again.json")
    assert (again.temperature_, again.weight_) == (loaded.temperature_, loaded.weight_)


@pytest.mark.parametrize(
    "estimates", [None, {}, {"log_ec": 0.5, "log_ts": 0.4}, {"log_ec": 1e9}, {"log_ec": 0.5, "ec_variance": -1.0}]
)
def test_a_file_without_estimates_still_has_its_temperature(tmp_path, estimates):
    fitted().save(tmp_path / "adaptive.json")
    content = json.loads((tmp_path / "adaptive.json").read_text())
    content["provenance"]["estimates"] = estimates
    (tmp_path / "adaptive.json").write_text(json.dumps(content))
    loaded = nishimori.load(tmp_path / "adaptive.json")
    assert loaded.temperature_ == content["map"]["parameters"]["temperature"]
    with pytest.raises(InputError, match="needs the standard errors of T_EC and T_TS, which this calibrator does not have"):
        loaded.confidence_interval()
    content["provenance"]["params"] = {"top_n": 2}
    (tmp_path / "adaptive.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"is damaged: provenance\.params must be parameters of 'adaptive', got"):
        nishimori.load(tmp_path / "adaptive.json")


def test_without_ts_the_temperature_is_that_of_ec():
    masked = LOGITS.copy()
    masked[0, NOISY[0]] = -np.inf  # the loss is infinite at every T
    with pytest.warns(InputWarning, match="The temperature of EC is used as it is, because TS has none. .*masked class"):
        found = fitted(masked)
    alone = nishimori.ExpectationConsistency().fit(masked, NOISY)
    assert (found.ts_, found.weight_) == (None, 1.0)
    assert found.temperature_ == found.ec_ == pytest.approx(alone.temperature_, rel=1e-9)
    assert found.temperature_se_ == pytest.approx(alone.temperature_se_, rel=1e-2)
    assert found.confidence_interval() == pytest.approx(alone.confidence_interval(), rel=1e-2)
    assert abs(found.fit_info_.residual) < 1e-8


def test_without_ec_the_temperature_is_that_of_ts(tmp_path):
    # Right and wrong answers at equal numbers, which is chance for two classes; the wrong ones are less sure.
    logits = np.array([-3.0] * 40 + [-1.0] * 40)
    labels = np.array([0] * 40 + [1] * 40)
    with pytest.warns(InputWarning, match="The temperature of TS is used as it is, because EC has none. No temperature"):
        found = fitted(logits, labels)
    alone = nishimori.TemperatureScaling().fit(logits, labels)
    assert (found.ec_, found.weight_) == (None, 0.0)
    assert found.temperature_ == pytest.approx(alone.temperature_, rel=1e-9)
    assert found.confidence_interval() == pytest.approx(alone.confidence_interval(), rel=1e-2)
    found.save(tmp_path / "c.json")
    assert nishimori.load(tmp_path / "c.json").confidence_interval() == found.confidence_interval()


def test_without_both_the_error_is_that_of_ec():
    with pytest.raises(NoTemperatureError, match="all 700 samples are classified correctly") as error:
        fitted(LOGITS, LOGITS.argmax(axis=1))
    assert error.value.end == "cold"


def test_sources_tensors_sketches_and_probabilities_give_the_same():
    wanted = fitted()
    batches = [(LOGITS[start : start + 100], NOISY[start : start + 100]) for start in range(0, 700, 100)]
    for found in (
        AdaptiveConsistency().fit(batches),
        AdaptiveConsistency().fit(torch.tensor(LOGITS), torch.tensor(NOISY)),
        AdaptiveConsistency(input="probabilities", floor=None).fit(reference.softmax(LOGITS), NOISY),
    ):
        assert found.temperature_ == pytest.approx(wanted.temperature_, rel=1e-7)
        assert found.confidence_interval() == pytest.approx(wanted.confidence_interval(), rel=1e-6)
    sketch = AdaptiveConsistency().fit(nishimori.Sketch().update(LOGITS, NOISY))
    assert (sketch.ec_, sketch.ts_) == pytest.approx((wanted.ec_, wanted.ts_), rel=1e-8)
    assert sketch.temperature_ == pytest.approx(wanted.temperature_, rel=1e-6)
    assert sketch.confidence_interval() == pytest.approx(wanted.confidence_interval(), rel=1e-5)
    flat = AdaptiveConsistency().fit(LOGITS[:, 1] - LOGITS[:, 0], NOISY == 1)
    pairs = AdaptiveConsistency().fit(np.stack([np.zeros(700), LOGITS[:, 1] - LOGITS[:, 0]], axis=1), NOISY == 1)
    assert flat.temperature_ == pytest.approx(pairs.temperature_, rel=1e-9)


def test_weights_that_count_copies_give_what_copies_give():
    counts = np.random.default_rng(4).integers(0, 4, 700)
    copied = fitted(np.repeat(LOGITS, counts, axis=0), np.repeat(NOISY, counts))
    counted = fitted(sample_weight=counts, counts=True)
    assert counted.temperature_ == pytest.approx(copied.temperature_, rel=1e-8)
    assert counted.temperature_se_ == pytest.approx(copied.temperature_se_, rel=1e-7)
    assert abs(fitted(sample_weight=counts).weight_ - copied.weight_) > 0.01  # one sample each, however heavy


def test_rows_of_weight_zero_do_not_count():
    broken = np.concatenate([LOGITS, np.full((3, 5), np.nan)])
    found = fitted(broken, np.append(NOISY, [99, 0, 1]), sample_weight=np.append(np.ones(700), np.zeros(3)))
    assert found.temperature_ == pytest.approx(fitted().temperature_, rel=1e-9)


def test_a_sketch_that_has_no_errors_is_refused():
    sketch = nishimori.Sketch().update(LOGITS, NOISY, clusters=np.zeros(700, dtype=int))
    with pytest.raises(
        InputError,
        match=r"The method 'adaptive' needs both standard errors.* for example in a sketch of one cluster\. Fit 'ec' or",
    ):
        AdaptiveConsistency().fit(sketch)


def test_none_checks_the_data_and_changes_nothing(tmp_path):
    found = nishimori.calibrator("none").fit(LOGITS, LABELS)
    assert (found.method, found.temperature_, found.n_samples_) == ("none", 1.0, 700)
    assert found.temperature_se_ is None
    np.testing.assert_allclose(found.predict_proba(LOGITS), reference.softmax(LOGITS), rtol=1e-12)
    found.save(tmp_path / "none.json")
    assert nishimori.load(tmp_path / "none.json").method == "none"
    assert nishimori.calibrator("none").fit(nishimori.Sketch().update(LOGITS, LABELS)).n_samples_ == 700
    with pytest.raises(InputError, match="`y` must be from 0 to 4, got 7"):
        nishimori.calibrator("none").fit(LOGITS, np.where(LABELS == 4, 7, LABELS))


@pytest.mark.parametrize(("method", "T"), [("adaptive", None), ("none", 1.0)])
def test_torch_understands_both(method, T):
    from nishimori.torch import calibrate

    loader = [(torch.tensor(LOGITS[:400]), torch.tensor(NOISY[:400])), (torch.tensor(LOGITS[400:]), torch.tensor(NOISY[400:]))]
    calibrated = calibrate(torch.nn.Identity(), loader, method=method)
    assert calibrated.method == method
    assert calibrated.temperature.item() == pytest.approx(T or np.exp(shrunk(*by_hand(LOGITS, NOISY))), rel=1e-6)
    assert calibrated.temperatures.ec == pytest.approx(reference.ec_temperature(LOGITS, NOISY), rel=1e-8)
    if method == "adaptive":
        assert calibrate(torch.nn.Identity(), loader).method == "adaptive"


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("k", [2, 3, 10, 50])
def test_a_sketch_gives_the_temperature_of_the_rows_to_1e_6(k, clustered):
    """It depends on how the gaps of EC and TS vary together, each at its own temperature."""
    for seed in range(5):
        rng = np.random.default_rng([seed, k])
        n = int(rng.integers(200, 1500))
        logits = 3 * rng.normal(size=(n, k))
        labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
        labels = np.where(rng.random(n) < 0.1, rng.integers(0, k, n), labels)
        clusters = rng.integers(0, n // 4, n) if clustered else None
        weights = rng.exponential(size=n) if seed % 2 else None
        sketch = nishimori.Sketch().update(logits, labels, weights, clusters)
        exact = AdaptiveConsistency().fit(logits, labels, weights, clusters=clusters)
        assert AdaptiveConsistency().fit(sketch).temperature_ == pytest.approx(exact.temperature_, rel=1e-6)
