"""Isotonic regression and histogram binning: their curves, what they accept and refuse, and how they are saved."""

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest
import reference
import shell
from optional import torch
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.isotonic import IsotonicRegression

import nishimori
from nishimori import HistogramBinning, Isotonic
from nishimori._sums import class_claims
from nishimori.errors import InputError, InputWarning

LOGITS, LABELS = reference.drawn(400, 4, seed=11)
P = reference.softmax(LOGITS)
NEW, TRUE = reference.drawn(200, 4, seed=12)
RNG = np.random.default_rng(3)
SCORES = 3 * RNG.normal(size=300)
POSITIVE = (SCORES / 2 + RNG.logistic(size=300) > 0).astype(int)
WEIGHTS = RNG.integers(0, 4, 400).astype(float)
BOTH = pytest.mark.parametrize("kind", [Isotonic, HistogramBinning])
ALL = [Isotonic(), HistogramBinning(), HistogramBinning(strategy="quantile", n_bins=5)]
EACH = pytest.mark.parametrize("calibrator", ALL, ids=["isotonic", "uniform", "quantile"])


class Probabilities(ClassifierMixin, BaseEstimator):
    """A model whose features are the logits, and which tells only probabilities."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return reference.softmax(X)

    def predict(self, X):  # which scikit-learn asks for and does not use
        return self.classes_[X.argmax(axis=1)]


class Scores(Probabilities):
    """The same with the logits as scores, or their difference for two classes."""

    def decision_function(self, X):
        return X[:, 1] - X[:, 0] if X.shape[1] == 2 else X


def peer(model, X, y, weights=None):
    """scikit-learn's isotonic calibration of a model that learns nothing, fitted to all rows."""
    return CalibratedClassifierCV(model, method="isotonic", ensemble=False).fit(X, y, sample_weight=weights)


def two_columns(scores):
    return np.stack([np.zeros_like(scores), scores], axis=1)


# --- isotonic regression


@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_isotonic_without_a_prior_is_that_of_scikit_learn(n_classes, weighted):
    X, y, new = (LOGITS, LABELS, NEW) if n_classes == 4 else (two_columns(SCORES), POSITIVE, two_columns(NEW[:, 0]))
    weights = 0.5 + np.arange(len(y)) % 3 if weighted else None
    expected = peer(Probabilities(), X, y, weights)
    found = Isotonic(prior=0).fit(X, y, sample_weight=weights)
    for rows in (X, new):
        np.testing.assert_allclose(found.predict_proba(rows), expected.predict_proba(rows), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(found.predict(rows), expected.predict(rows))


def test_two_classes_have_the_curve_of_any_increasing_score_at_the_samples_and_not_between():
    X, y = two_columns(SCORES[:40]), POSITIVE[:40]
    by_score, found = peer(Scores(), X, y), Isotonic(prior=0).fit(X, y)
    np.testing.assert_allclose(found.predict_proba(X), by_score.predict_proba(X), atol=1e-12)
    between = two_columns(np.linspace(-5, 5, 500))
    assert np.abs(found.predict_proba(between) - by_score.predict_proba(between)).max() > 0.01


def test_more_classes_have_other_curves_for_probabilities_than_for_logits():
    by_score = peer(Scores(), LOGITS, LABELS).predict_proba(LOGITS)
    assert np.abs(Isotonic(prior=0).fit(LOGITS, LABELS).predict_proba(LOGITS) - by_score).max() > 0.01


@pytest.mark.parametrize("weights", [np.ones(400), WEIGHTS], ids=["", "weighted"])
@pytest.mark.parametrize("prior", [0.5, 1.0, 3.0])
def test_the_prior_adds_samples_at_both_ends_of_which_half_belong_to_the_class(prior, weights):
    found = Isotonic(prior=prior).fit(LOGITS, LABELS, sample_weight=weights)
    kept = weights > 0
    added = prior * (weights**2).sum() / weights.sum()
    curves = []
    for c in range(4):
        x, true, w = P[kept, c], (LABELS[kept] == c).astype(float), weights[kept]
        ends = [x.min(), x.min(), x.max(), x.max()]
        x, true, w = np.append(x, ends), np.append(true, [0, 1, 0, 1]), np.append(w, [added / 2] * 4)
        fitted = IsotonicRegression(out_of_bounds="clip").fit(x, true, sample_weight=w)
        curves.append(fitted.predict(reference.softmax(NEW)[:, c]))
    expected = np.stack(curves, axis=1)
    np.testing.assert_allclose(found.predict_proba(NEW), expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)


def test_only_the_prior_keeps_the_loss_finite():
    X = two_columns(SCORES)
    wrong = two_columns(np.array([20.0])), [0]
    with_prior, without = (Isotonic(prior=prior).fit(X, POSITIVE) for prior in (1, 0))
    assert np.isfinite(nishimori.evaluate(*wrong, calibrator=with_prior).nll)
    rows, labels = np.concatenate([X, wrong[0]]), np.append(POSITIVE, 0)
    found = nishimori.evaluate(rows, labels, calibrator=without)
    assert (found.nll, found.nll_se) == (np.inf, None)
    squares = (without.predict_proba(rows) - np.eye(2)[labels]) ** 2
    assert found.brier == pytest.approx(squares.sum(axis=1).mean(), rel=1e-12)
    why = "the loss is infinite or too large: a true class is masked or has probability 0, or T is close to 0."
    assert found.why_no_se == {"nll": why}
    np.testing.assert_array_equal(without.predict_log_proba(wrong[0]), [[-np.inf, 0.0]])


def test_isotonic_says_why_it_has_no_standard_errors():
    found = Isotonic().fit(LOGITS, LABELS)
    assert found.parameters_se_ is None
    assert found.why_no_se_.startswith("Isotonic regression chooses the steps of its curves from the data")


# --- histogram binning


def by_hand(p, labels, weights, edges, prior):
    """Values and standard errors of the bins of one curve, bin by bin."""
    unit = (weights**2).sum() / weights.sum()
    values, errors = [], []
    for low, high in pairwise(edges):
        inside = (p > low) & (p <= high) & (weights > 0)
        w, y = weights[inside], labels[inside]
        said = np.average(p[inside], weights=w) if w.size else (low + high) / 2
        start = 0.9 * said + 0.05
        value = ((w * y).sum() + prior * unit * start) / (w.sum() + prior * unit) if w.size or prior else said
        variance = value * (1 - value) * ((w**2).sum() + prior * unit**2)
        values.append(value)
        errors.append(np.sqrt(variance) / (w.sum() + prior * unit) if w.size or prior else np.nan)
    return np.array(values), np.array(errors)


@pytest.mark.parametrize("prior", [0, 1.0, 2.5])
@pytest.mark.parametrize("weights", [np.ones(400), WEIGHTS], ids=["", "weighted"])
def test_bins_have_the_frequencies_of_their_samples_and_of_the_prior(weights, prior):
    found = HistogramBinning(n_bins=6, prior=prior).fit(LOGITS, LABELS, sample_weight=weights)
    edges = np.arange(7) / 6
    for c in range(4):
        values, errors = by_hand(P[:, c], c == LABELS, weights, edges, prior)
        if prior == 0:
            values = np.where(np.isnan(errors), (edges[1:] + edges[:-1]) / 2, values)
        np.testing.assert_allclose(found.frequencies_[c], values, rtol=1e-12)
        np.testing.assert_allclose(found.parameters_se_["frequencies"][c], errors, rtol=1e-12)
    np.testing.assert_array_equal(found.edges_, [edges] * 4)


def test_probabilities_are_those_of_the_bins_divided_by_their_sum():
    found = HistogramBinning(n_bins=6).fit(LOGITS, LABELS)
    places = np.ceil(reference.softmax(NEW) * 6).astype(int) - 1
    expected = np.stack([found.frequencies_[c][places[:, c]] for c in range(4)], axis=1)
    np.testing.assert_allclose(found.predict_proba(NEW), expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    binary = HistogramBinning(n_bins=6).fit(SCORES, POSITIVE)
    values, _ = by_hand(reference.softmax(two_columns(SCORES))[:, 1], POSITIVE, np.ones(300), np.arange(7) / 6, 1.0)
    second = values[np.ceil(reference.softmax(two_columns(NEW[:, 0]))[:, 1] * 6).astype(int) - 1]
    np.testing.assert_allclose(binary.predict_proba(NEW[:, 0]), np.stack([1 - second, second], axis=1), rtol=1e-12)


def test_bins_of_equal_weight_hold_as_many_samples_each():
    found = HistogramBinning(n_bins=8, strategy="quantile").fit(LOGITS, LABELS)
    for c, edges in enumerate(found.edges_):
        np.testing.assert_array_equal(np.histogram(-P[:, c], -edges[::-1])[0], [50] * 8)  # closed above
        values, _ = by_hand(P[:, c], c == LABELS, np.ones(400), edges, 1.0)
        np.testing.assert_allclose(found.frequencies_[c], values, rtol=1e-12)


def test_copies_of_samples_in_their_cluster_do_not_change_the_errors():
    once = HistogramBinning(prior=0).fit(LOGITS, LABELS)
    rows = np.tile(np.arange(400), 3)
    copied = HistogramBinning(prior=0).fit(LOGITS[rows], LABELS[rows], clusters=rows)
    np.testing.assert_allclose(copied.frequencies_, once.frequencies_, rtol=1e-12)
    np.testing.assert_allclose(*(each.parameters_se_["frequencies"] for each in (copied, once)), rtol=1e-9)


@EACH
def test_weights_that_are_counts_are_copies(calibrator):
    rows = np.repeat(np.arange(400), WEIGHTS.astype(int))
    copied = clone(calibrator).fit(LOGITS[rows], LABELS[rows])
    counted = clone(calibrator).fit(LOGITS, LABELS, sample_weight=WEIGHTS, counts=True)
    np.testing.assert_allclose(counted.predict_proba(NEW), copied.predict_proba(NEW), rtol=1e-9)
    if calibrator.traits.error_bars:
        np.testing.assert_allclose(*(each.parameters_se_["frequencies"] for each in (counted, copied)), rtol=1e-9)


# --- kinds of data


@EACH
def test_rows_of_weight_zero_may_hold_anything_and_the_scale_of_weights_does_not_matter(calibrator):
    kept = WEIGHTS > 0
    expected = clone(calibrator).fit(LOGITS[kept], LABELS[kept], sample_weight=WEIGHTS[kept]).predict_proba(NEW)
    spoiled = np.where(kept[:, None], LOGITS, np.nan)
    found = clone(calibrator).fit(spoiled, np.where(kept, LABELS, -7), sample_weight=1e-6 * WEIGHTS)
    np.testing.assert_allclose(found.predict_proba(NEW), expected, rtol=1e-9)


@EACH
@pytest.mark.parametrize("unit", [2, 3.7])
def test_equal_weights_of_any_size_give_the_curves_of_no_weights(unit, calibrator):
    expected = clone(calibrator).fit(SCORES[:37], POSITIVE[:37]).predict_proba(SCORES)
    found = clone(calibrator).fit(SCORES[:37], POSITIVE[:37], sample_weight=np.full(37, unit)).predict_proba(SCORES)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@EACH
def test_files_batches_and_tensors_give_the_same_curves(calibrator, tmp_path, monkeypatch):
    expected = clone(calibrator).fit(LOGITS, LABELS)
    np.save(tmp_path / "logits.npy", LOGITS)
    rows = [slice(0, 150), slice(150, 400)]
    monkeypatch.setattr(class_claims, "_MOST_CLAIMS", 800)  # two classes at a time
    for found in (
        clone(calibrator).fit(tmp_path / "logits.npy", LABELS),
        clone(calibrator).fit(nishimori.rows([(LOGITS[r], LABELS[r]) for r in rows])),
        clone(calibrator).fit(torch.tensor(LOGITS), torch.tensor(LABELS)),
    ):
        np.testing.assert_allclose(found.predict_proba(NEW), expected.predict_proba(NEW), rtol=1e-12)
        n_passes = {None: 3, "uniform": 1, "quantile": 4}  # one for each two classes of four
        assert found.n_passes_ == n_passes[calibrator.get_params().get("strategy")]
        assert found.n_samples_ == 400
    tensor = expected.predict_proba(torch.tensor(NEW, dtype=torch.float32))
    assert (type(tensor), tensor.dtype) == (torch.Tensor, torch.float32)
    np.testing.assert_allclose(tensor.numpy(), expected.predict_proba(NEW.astype(np.float32)), rtol=1e-6)


@EACH
def test_probabilities_that_are_equal_up_to_float32_share_a_value(calibrator):
    votes = RNG.multinomial(10, [0.5, 0.3, 0.2], size=300) / 10  # of a forest of ten trees: many ties, and zeros
    labels = np.array([RNG.choice(3, p=p) for p in votes])
    found = clone(calibrator).set_params(input="probabilities").fit(votes, labels)
    single = clone(found).fit(votes.astype(np.float32), labels)
    np.testing.assert_allclose(single.predict_proba(votes.astype(np.float32)), found.predict_proba(votes), rtol=1e-5)


def test_forests_with_ties_have_the_curves_of_scikit_learn():
    votes = RNG.multinomial(10, [0.5, 0.3, 0.2], size=300) / 10
    labels = np.array([RNG.choice(3, p=p) for p in votes])
    found = Isotonic(prior=0, input="probabilities", floor=None).fit(votes, labels).predict_proba(votes)
    curves = [IsotonicRegression().fit(votes[:, c], labels == c).predict(votes[:, c]) for c in range(3)]
    expected = np.stack(curves, axis=1)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True), atol=1e-12)


@EACH
def test_masked_classes_stay_masked_and_do_not_count_in_their_curve(calibrator):
    masked = np.where((np.arange(400) % 2 == 1)[:, None] & (np.arange(4) == 3), -np.inf, LOGITS)
    labels = np.where((np.arange(400) % 2 == 1) & (LABELS == 3), 0, LABELS)
    found = clone(calibrator).fit(masked, labels)
    even = np.arange(400) % 2 == 0
    alone = clone(calibrator).fit(LOGITS[even], labels[even])
    np.testing.assert_allclose(found.map_.knots[3], alone.map_.knots[3], rtol=1e-9)
    np.testing.assert_allclose(found.map_.values[3], alone.map_.values[3], rtol=1e-9)
    p = found.predict_proba(masked)
    assert (p[1::2, 3] == 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    with pytest.warns(InputWarning, match="There are no samples of class 3"):
        found = clone(calibrator).fit(np.where(np.arange(4) == 3, -np.inf, LOGITS), np.minimum(LABELS, 2))
    three = clone(calibrator).fit(LOGITS[:, :3], np.minimum(LABELS, 2))
    p = found.predict_proba(np.where(np.arange(4) == 3, -np.inf, LOGITS))
    np.testing.assert_allclose(p, np.pad(three.predict_proba(LOGITS[:, :3]), ((0, 0), (0, 1))), rtol=1e-12)


@EACH
def test_constant_scores_give_the_frequencies_of_the_classes(calibrator):
    found = clone(calibrator).set_params(prior=0).fit(np.zeros((400, 4)), LABELS)
    np.testing.assert_allclose(found.predict_proba(np.zeros((1, 4)))[0], np.bincount(LABELS) / 400, rtol=1e-12)


@BOTH
def test_classes_may_have_names_and_one_without_samples_is_told(kind):
    names = np.array(["ant", "bee", "cat", "dog"])
    found = kind(classes=names).fit(LOGITS, names[LABELS])
    np.testing.assert_array_equal(found.predict(NEW), names[kind().fit(LOGITS, LABELS).predict(NEW)])
    some = LABELS != 2
    with pytest.warns(InputWarning, match="There are no samples of class 'cat': its curve is close to zero wherever "):
        found = kind(classes=names).fit(LOGITS[some], names[LABELS[some]])
    p = found.predict_proba(LOGITS)[:, 2]
    assert 0 < np.median(p) < 0.01
    with pytest.warns(InputWarning, match=r"There are no samples of 2 of 6 classes \(4, 5\): their curves are close"):
        kind().fit(np.pad(LOGITS, ((0, 0), (0, 2))), LABELS)


# --- what is refused


REFUSED = {
    "one class": (
        lambda kind: kind().fit(LOGITS, np.ones(400, int)),
        "`y` must hold samples of at least two classes, got only one class, 1. A curve would say that every sample",
    ),
    "negative prior": (lambda kind: kind(prior=-1).fit(LOGITS, LABELS), "`prior` must lie between 0 and 1e+09, got -1."),
    "text prior": (lambda kind: kind(prior="1").fit(LOGITS, LABELS), "`prior` must lie between 0 and 1e+09, got '1'."),
    "counts and clusters": (
        lambda kind: kind().fit(LOGITS, LABELS, clusters=np.arange(400) % 50, counts=True),
        "`counts` must be False where `clusters` is given",
    ),
    "other classes": (
        lambda kind: kind().fit(LOGITS, LABELS).map_.apply(NEW[:, :3]),
        "`logits` must have 4 classes, as the map has, got 3.",
    ),
}


@BOTH
@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_with_the_reason(kind, name):
    call, message = REFUSED[name]
    with pytest.raises(InputError) as refused:
        call(kind)
    assert str(refused.value).startswith(message)


@BOTH
def test_a_sketch_is_refused(kind):
    sketch = nishimori.Sketch()
    sketch.update(LOGITS, LABELS)
    with pytest.raises(InputError, match=r"^A Sketch keeps sums, and has no rows to read"):
        kind().fit(sketch)


def test_bins_that_cannot_be_are_refused(monkeypatch):
    for params, message in (
        ({"n_bins": 0}, "`n_bins` must be a whole number from 1 to 100000, got 0."),
        ({"strategy": "kmeans"}, "`strategy` must be 'uniform' or 'quantile', got 'kmeans'."),
    ):
        with pytest.raises(InputError) as refused:
            HistogramBinning(**params).fit(LOGITS, LABELS)
        assert str(refused.value) == message
    monkeypatch.setattr("nishimori._calibrators.class_curves._MOST_BINS", 10)
    with pytest.raises(InputError, match=r"`n_bins` must be at most 2 for 4 classes, got 3\."):
        HistogramBinning(n_bins=3).fit(LOGITS, LABELS)
    monkeypatch.undo()
    monkeypatch.setattr("nishimori._sums.spread.MOST_CLUSTER_SUMS", 1000)
    with pytest.raises(InputError, match=r"`clusters` must be at most 16 where there are 60 bins, got 50\. Join small "):
        HistogramBinning().fit(LOGITS, LABELS, clusters=np.arange(400) % 50)


@BOTH
def test_a_network_cannot_apply_curves_and_says_so(kind):
    calibrator = kind().fit(LOGITS, LABELS)
    with pytest.raises(InputError, match=r"got a ClassCurves, which PyTorch modules cannot apply\. Use another method"):
        nishimori.torch.Calibrated(torch.nn.Identity(), calibrator.map_)


# --- life with the rest of the library


@EACH
def test_what_is_saved_predicts_the_same(calibrator, tmp_path):
    fitted = clone(calibrator).fit(LOGITS, LABELS)
    fitted.save(tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["format_version"] == 4
    for again in (nishimori.load(tmp_path / "c.json"), pickle.loads(pickle.dumps(fitted))):
        assert repr(again) == repr(fitted)
        np.testing.assert_array_equal(again.predict_proba(NEW), fitted.predict_proba(NEW))
        assert again.why_no_se_ == fitted.why_no_se_
        if calibrator.traits.error_bars:
            np.testing.assert_array_equal(again.parameters_se_["frequencies"], fitted.parameters_se_["frequencies"])


def test_a_file_keeps_the_unknown_errors_of_empty_bins_and_not_too_many(tmp_path):
    few = HistogramBinning(n_bins=40, prior=0).fit(LOGITS, LABELS)
    assert np.isnan(few.parameters_se_["frequencies"]).any()
    few.save(tmp_path / "few.json")
    again = nishimori.load(tmp_path / "few.json")
    np.testing.assert_array_equal(again.parameters_se_["frequencies"], few.parameters_se_["frequencies"])
    HistogramBinning(n_bins=300).fit(LOGITS, LABELS).save(tmp_path / "many.json")
    many = nishimori.load(tmp_path / "many.json")
    assert many.parameters_se_ is None
    assert many.why_no_se_.startswith("The file from which the calibrator was loaded holds no standard errors.")


def test_the_shell_fits_describes_and_applies(tmp_path):
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=LABELS)
    ended = shell.nishimori("fit t.npz -o i.json --method isotonic --param prior=0.5", place=tmp_path)
    fitted = Isotonic(prior=0.5).fit(LOGITS, LABELS)
    sizes, values = [len(each) for each in fitted.map_.values], np.concatenate(fitted.map_.values)
    about = (
        f"4 curves of {min(sizes)} to {max(sizes)} knots, with values from {values.min():.3g} to {values.max():.3g}  (isotonic"
    )
    assert ended.out.startswith(about), ended.err
    ended = shell.nishimori("fit t.npz -o h.json --method histogram --param n_bins=5 --json", place=tmp_path)
    told = json.loads(ended.out)
    assert told["params"] == {"n_bins": 5, "strategy": "uniform", "prior": 1.0}
    histogram = HistogramBinning(n_bins=5).fit(LOGITS, LABELS)
    np.testing.assert_allclose(told["parameters_se"]["frequencies"], histogram.parameters_se_["frequencies"], rtol=1e-12)
    for name, each in (("i", fitted), ("h", histogram)):
        assert shell.nishimori(f"apply {name}.json t.npz -o p.npy --force", place=tmp_path).code == 0
        np.testing.assert_allclose(np.load(tmp_path / "p.npy"), each.predict_proba(LOGITS), rtol=1e-9)


def test_comparisons_take_them_by_name():
    found = nishimori.compare(LOGITS, LABELS, NEW, TRUE, methods=("ts", "isotonic", "histogram"))
    fitted = Isotonic().fit(LOGITS, LABELS).predict_proba(NEW)
    assert found["isotonic"].scorecard.nll == pytest.approx(-np.log(fitted[np.arange(200), TRUE]).mean(), rel=1e-9)
    assert found["histogram"].temperature is None
