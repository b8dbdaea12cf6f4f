"""Probabilities for classes of other frequencies: what Bayes' rule gives, and a refusal where they cannot be right."""

import re

import numpy as np
import pytest
import reference
from method_cases import drawn_for, n_classes_of
from optional import torch
from scipy.stats import multivariate_normal
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import nishimori
from nishimori import CalibratedClassifier, with_prevalence
from nishimori.errors import InputError

LOGITS, LABELS = reference.drawn(900, 3)
NEW = np.array([0.7, 0.25, 0.05])
NAMES = np.array(["ant", "bee", "cat"])
METHODS = [name for name in nishimori.methods() if name not in ("group", "fixed")]


def by_hand(p, new, old):
    """Bayes' rule, row by row."""
    rows = [[share * after / before for share, after, before in zip(row, new, old, strict=True)] for row in np.asarray(p)]
    return np.array([np.array(row) / sum(row) for row in rows])


def test_posteriors_of_known_densities_follow_the_frequencies():
    rng = np.random.default_rng(0)
    densities = [multivariate_normal(mean, cov) for mean, cov in (([0, 0], 1.0), ([2, 0], 2.0), ([0, 1], [[1, 0.5], [0.5, 3]]))]
    points = 3 * rng.normal(size=(500, 2))
    likelihoods = np.stack([density.pdf(points) for density in densities], axis=1)
    posterior = {name: by_hand(likelihoods, shares, np.ones(3)) for name, shares in (("old", [0.2, 0.5, 0.3]), ("new", NEW))}
    found = with_prevalence(posterior["old"], NEW, [0.2, 0.5, 0.3])
    np.testing.assert_allclose(found, posterior["new"], rtol=1e-12)


def test_one_probability_per_sample_is_that_of_the_second_class():
    p = np.linspace(0, 1, 21)
    expected = by_hand(np.stack([1 - p, p], axis=1), [0.99, 0.01], [0.6, 0.4])[:, 1]
    np.testing.assert_allclose(with_prevalence(p, 0.01, 0.4), expected, rtol=1e-12)
    assert with_prevalence(p, 0.01, 0.4)[[0, -1]].tolist() == [0, 1]


def test_shapes_libraries_and_dtypes_stay():
    p = reference.softmax(LOGITS[:24])
    cube = with_prevalence(p.reshape(2, 12, 3), NEW, [0.2, 0.5, 0.3])
    np.testing.assert_allclose(cube.reshape(24, 3), by_hand(p, NEW, [0.2, 0.5, 0.3]), rtol=1e-12)
    single = with_prevalence(torch.tensor(p, dtype=torch.float32), torch.tensor(NEW), [0.2, 0.5, 0.3])
    assert isinstance(single, torch.Tensor)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, cube.reshape(24, 3), rtol=1e-5)


def test_labels_name_the_shares_and_tiny_ones_do_not_overflow():
    p = reference.softmax(LOGITS[:5])
    named = with_prevalence(
        p, {"cat": 0.05, "ant": 0.7, "bee": 0.25}, dict(zip(NAMES, (0.2, 0.5, 0.3), strict=True)), classes=NAMES
    )
    np.testing.assert_array_equal(named, with_prevalence(p, NEW, [0.2, 0.5, 0.3]))
    numbers = with_prevalence(p, {0: 0.7, 1: 0.25, 2: 0.05}, {"2": 0.3, "1": 0.5, "0": 0.2})
    np.testing.assert_array_equal(numbers, named)
    extreme = with_prevalence([[1e-300, 1 - 1e-16], [1.0, 0.0]], [1 - 1e-300, 1e-300], [1e-300, 1 - 1e-16])
    np.testing.assert_allclose(extreme, [[1.0, 1e-300], [1.0, 0.0]], rtol=1e-9, atol=1e-290)


@pytest.mark.parametrize("method", METHODS)
def test_every_calibrator_shifts_from_the_frequencies_of_its_own_data(method):
    logits, labels = drawn_for(method)
    n_classes = n_classes_of(method)
    weights = np.random.default_rng(3).integers(1, 4, len(labels)).astype(float)
    fitted = nishimori.calibrator(method).fit(logits, labels, sample_weight=weights)
    old = np.bincount(labels, weights, n_classes) / weights.sum()
    new = np.arange(1.0, n_classes + 1) / np.arange(1.0, n_classes + 1).sum()
    if fitted.is_fixed:  # the model as it is may be off, as these logits are
        old = fitted.class_prior_
    np.testing.assert_allclose(fitted.class_prior_, old, rtol=1e-12)
    if method == "none":
        with pytest.raises(InputError, match="the mean probability of class"):
            nishimori.calibrator("none").fit(logits + np.eye(n_classes)[0], labels).with_prevalence(new)
    shifted = fitted.with_prevalence(new)
    expected = by_hand(fitted.predict_proba(logits), new, old)
    np.testing.assert_allclose(shifted.predict_proba(logits), expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(np.exp(shifted.predict_log_proba(logits)), expected, rtol=1e-9, atol=1e-14)
    np.testing.assert_array_equal(shifted.predict(logits), expected.argmax(axis=1))
    np.testing.assert_allclose(shifted.class_prior_, new)


def test_what_is_shifted_back_is_what_it_was():
    fitted = nishimori.calibrator("bias").fit(LOGITS, LABELS)
    again = fitted.with_prevalence(NEW).with_prevalence(fitted.class_prior_)
    np.testing.assert_allclose(again.predict_proba(LOGITS), fitted.predict_proba(LOGITS), rtol=1e-12)


def test_groups_keep_their_temperatures():
    sites = np.array(["a", "b"])[np.arange(900) % 2]
    fitted = nishimori.calibrator("group", by="groups").fit(LOGITS, LABELS, groups=sites)
    old = np.bincount(LABELS) / 900
    found = fitted.with_prevalence(NEW).predict_proba(LOGITS, groups=sites)
    np.testing.assert_allclose(found, by_hand(fitted.predict_proba(LOGITS, groups=sites), NEW, old), rtol=1e-9)


@pytest.mark.parametrize("method", ["ec", "bias", "mixture", "adaptive"])
def test_a_saved_one_loads_as_it_was(method, tmp_path):
    fitted = nishimori.calibrator(method, classes=NAMES).fit(LOGITS, NAMES[LABELS])
    shifted = fitted.with_prevalence({"ant": 0.7, "bee": 0.25, "cat": 0.05})
    shifted.save(tmp_path / "shifted.json")
    loaded = nishimori.load(tmp_path / "shifted.json")
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), shifted.predict_proba(LOGITS))
    np.testing.assert_array_equal(loaded.class_prior_, NEW)
    assert list(loaded.classes_) == list(NAMES)
    assert loaded.data_digest_ == fitted.data_digest_  # a gate refuses the rows that it was fitted to
    assert loaded.params == {"calibrated_by": method}
    fitted.save(tmp_path / "fitted.json")
    before = nishimori.load(tmp_path / "fitted.json").with_prevalence(NEW)
    np.testing.assert_allclose(before.predict_proba(LOGITS), shifted.predict_proba(LOGITS), rtol=1e-12)


def test_it_is_folded_into_a_network():
    rng = np.random.default_rng(0)
    layer = torch.nn.Linear(4, 3, bias=True)
    x = torch.tensor(rng.normal(size=(900, 4)), dtype=torch.float32)
    logits = layer(x).detach().numpy().astype(np.float64)
    labels = (logits / 0.7 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    fitted = nishimori.calibrator("ts").fit(logits, labels)
    shifted = fitted.with_prevalence(NEW)
    from nishimori.torch import Calibrated

    folded = Calibrated(layer, shifted).fold(probe=x[:5])
    expected = by_hand(reference.softmax(logits, fitted.temperature_), NEW, np.bincount(labels) / 900)
    np.testing.assert_allclose(torch.softmax(folded(x), dim=1).detach(), expected, atol=1e-5)


SOURCES = {
    "stream": lambda: nishimori.rows(lambda: [(LOGITS[i : i + 100], LABELS[i : i + 100]) for i in range(0, 900, 100)]),
    "tensors": lambda: nishimori.rows(torch.tensor(LOGITS), torch.tensor(LABELS)),
    "weights": lambda: nishimori.rows(LOGITS, LABELS, sample_weight=1.0 + LABELS),
    "weighted stream": lambda: nishimori.rows(lambda: [(LOGITS[i::3], LABELS[i::3], 1.0 + LABELS[i::3]) for i in range(3)]),
    "ignored": lambda: nishimori.rows(LOGITS, np.where(np.arange(900) % 2, LABELS, -100), ignore_index=-100),
}


@pytest.mark.parametrize("source", SOURCES)
def test_frequencies_are_known_of_all_rows_that_count(source):
    weights = 1.0 + LABELS if "weight" in source else np.arange(900) % 2 * 1.0 if source == "ignored" else np.ones(900)
    fitted = nishimori.calibrator("ts").fit(SOURCES[source]())
    np.testing.assert_allclose(fitted.class_prior_, np.bincount(LABELS, weights) / weights.sum(), rtol=1e-12)


def test_frequencies_are_known_of_files(tmp_path):
    np.savez(tmp_path / "val.npz", logits=LOGITS, labels=LABELS)
    fitted = nishimori.calibrator("ts").fit(nishimori.rows(tmp_path / "val.npz"))
    np.testing.assert_allclose(fitted.class_prior_, np.bincount(LABELS) / 900)


def test_a_calibrator_that_does_not_know_them_says_what_to_do():
    for fitted in (
        nishimori.calibrator("ts").fit(nishimori.Sketch().update(LOGITS, LABELS)),
        nishimori.from_temperature(1.5, classes=NAMES),
    ):
        assert fitted.class_prior_ is None
        with pytest.raises(InputError, match=r"nishimori\.with_prevalence\(probabilities, new, old\)"):
            fitted.with_prevalence(NEW)


FITTED = nishimori.calibrator("ts", classes=NAMES).fit(LOGITS, NAMES[LABELS])
TWO = nishimori.calibrator("platt").fit(LOGITS[:, 1] - LOGITS[:, 0], reference.drawn(900, 2)[1])
REFUSED = {
    "sum": ([0.5, 0.3, 0.3], "`new` must sum to 1 over the classes, got 1.1. Divide by the sum."),
    "zero": ([0.5, 0.5, 0.0], "`new` must be above 0 for each class, got 0 for class cat."),
    "negative": ([0.7, 0.5, -0.2], "`new` must be above 0 for each class, got -0.2 for class cat."),
    "length": ([0.5, 0.5], "`new` must have one number for each of 3 classes, got shape (2,)"),
    "unknown": (
        {"ant": 0.5, "bee": 0.3, "dog": 0.2},
        "`new` must name classes of the calibrator, got 'dog'. They are 'ant', 'bee', 'cat'.",
    ),
    "missing": ({"ant": 0.5, "bee": 0.5}, "`new` must have a share for each class, got none for class cat"),
    "one number": (0.3, "`new` must have one number for each of 3 classes, got 0.3."),
    "text": (["a", "b", "c"], "`new` must hold numbers"),
    "nan": ([0.5, np.nan, 0.5], "`new` must hold numbers"),
    "none": (None, "`new` must"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_frequencies_that_are_none_are_refused(case):
    new, message = REFUSED[case]
    with pytest.raises(InputError, match=re.escape(message)):
        FITTED.with_prevalence(new)
    with pytest.raises(InputError, match=re.escape(message)):
        with_prevalence(reference.softmax(LOGITS), new, [0.2, 0.5, 0.3], classes=NAMES)


@pytest.mark.parametrize("new", [0.0, 1.0, 1.5, -0.1, np.nan])
def test_a_single_number_must_be_a_share(new):
    with pytest.raises(InputError, match="`new` must"):
        TWO.with_prevalence(new)


def test_logits_are_no_probabilities_and_old_frequencies_are_checked_too():
    with pytest.raises(InputError, match="take their softmax"):
        with_prevalence(LOGITS, NEW, NEW)
    with pytest.raises(InputError, match="`old` must sum to 1"):
        with_prevalence(reference.softmax(LOGITS), NEW, 2 * NEW)


def test_a_class_without_a_sample_cannot_be_shifted():
    fitted = nishimori.calibrator("ts").fit(LOGITS[LABELS != 1], LABELS[LABELS != 1])
    with pytest.raises(InputError, match="no sample of class 1"):
        fitted.with_prevalence(NEW)


def balanced():
    """Scores of a logistic regression that was told that both of two unequal classes count the same."""
    X, y = make_classification(4000, weights=[0.945], flip_y=0.01, random_state=0)
    model = LogisticRegression(class_weight="balanced").fit(X[:2000], y[:2000])
    return model.decision_function(X[2000:]), y[2000:]


def test_one_temperature_of_a_balanced_model_is_refused_and_what_shifts_classes_is_not(tmp_path):
    scores, labels = balanced()
    message = r"the mean probability of class \d is .* %, but its share of the samples is .*'bias', 'platt' or 'best'"
    for method in ("ec", "ts", "adaptive"):
        fitted = nishimori.calibrator(method).fit(scores, labels)
        mean = reference.softmax(np.stack([0 * scores, scores], axis=1), fitted.temperature_)[:, 1].mean()
        assert abs(mean - labels.mean()) > 0.05
        with pytest.raises(InputError, match=message):
            fitted.with_prevalence(0.2)
        fitted.save(tmp_path / f"{method}.json")
        with pytest.raises(InputError, match=message):
            nishimori.load(tmp_path / f"{method}.json").with_prevalence(0.2)
    for method in ("bias", "platt", "best", "isotonic"):
        nishimori.calibrator(method).fit(scores, labels).with_prevalence(0.2)


def test_a_single_class_of_many_that_is_off_is_refused():
    logits, labels = reference.drawn(20_000, 20)
    moved = logits.copy()
    moved[:, 7] += 1.5
    nishimori.calibrator("ts").fit(logits, labels).with_prevalence(np.full(20, 0.05))
    for rows in (
        nishimori.rows(moved, labels),
        nishimori.rows(lambda: [(moved[:9000], labels[:9000]), (moved[9000:], labels[9000:])]),
    ):
        with pytest.raises(InputError, match="the mean probability of class 7"):
            nishimori.calibrator("ts").fit(rows).with_prevalence(np.full(20, 0.05))
    with pytest.raises(InputError, match="Calibrate with 'bias' or 'best'"):
        nishimori.calibrator("ts").fit(moved, labels).with_prevalence(np.full(20, 0.05))
    nishimori.calibrator("bias").fit(moved, labels).with_prevalence(np.full(20, 0.05))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_calibrated_models_are_hardly_ever_refused(n_classes):
    refused = 0
    for seed in range(500):
        fitted = nishimori.calibrator("ts").fit(*reference.drawn(300, n_classes, scale=1.5, seed=seed))
        try:
            fitted.with_prevalence(np.full(n_classes, 1 / n_classes))
        except InputError:
            refused += 1
    assert refused <= 5  # of 500, at a level of 0.1 %: more than 5 has a probability below 1e-5


@pytest.mark.parametrize("ensemble", [False, True, "pooled"])
@pytest.mark.parametrize("estimator", [GaussianNB(), RandomForestClassifier(20, random_state=0), LogisticRegression()])
def test_a_classifier_gives_one_for_other_frequencies(estimator, ensemble):
    X, y = make_classification(800, n_informative=6, n_classes=3, flip_y=0.1, random_state=0)
    fitted = CalibratedClassifier(estimator, "vector", cv=4, ensemble=ensemble).fit(X, NAMES[y])
    other = fitted.with_prevalence({"ant": 0.7, "bee": 0.25, "cat": 0.05})
    pairs = fitted.calibrated_classifiers_
    expected = np.mean([by_hand(pair.predict_proba(X), NEW, pair.calibrator.class_prior_) for pair in pairs], axis=0)
    np.testing.assert_allclose(other.predict_proba(X), expected, rtol=1e-9)
    np.testing.assert_allclose(np.exp(other.predict_log_proba(X)), expected, rtol=1e-9)
    np.testing.assert_allclose(other.class_prior_, NEW)
    np.testing.assert_allclose(fitted.class_prior_, np.bincount(y) / 800, atol=1e-9)
    np.testing.assert_array_equal(other.predict(X), NAMES[expected.argmax(axis=1)])
    assert other.get_params()["ensemble"] == ensemble
    if ensemble is not True:
        assert other.calibrator_ is other.calibrated_classifiers_[0].calibrator
    with pytest.raises(InputError, match="sum to 1"):
        fitted.with_prevalence([0.5, 0.5, 0.5])


def test_samples_of_other_frequencies_are_predicted_as_well_as_by_a_model_of_their_own():
    """Classes are resampled: the shift must gain what a fit to the resampled data gains, up to noise."""
    rng = np.random.default_rng(1)
    X, y = make_classification(60_000, n_informative=8, n_classes=3, flip_y=0.05, class_sep=0.7, random_state=1)
    model = LogisticRegression(max_iter=500).fit(X[:10_000], y[:10_000])
    scores = model.decision_function(X)
    fitted = nishimori.calibrator("vector").fit(scores[10_000:20_000], y[10_000:20_000])
    rows = np.concatenate([rng.choice(20_000 + np.flatnonzero(y[20_000:] == k), int(20_000 * NEW[k])) for k in range(3)])
    oracle = nishimori.calibrator("vector").fit(scores[rows], y[rows])
    losses = [
        -np.log(each.predict_proba(scores[rows])[np.arange(len(rows)), y[rows]]).mean()
        for each in (fitted, fitted.with_prevalence(NEW), oracle)
    ]
    assert losses[0] - losses[2] > 0.2
    assert losses[1] - losses[2] < 0.01
