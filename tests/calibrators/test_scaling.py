"""Vector and matrix scaling as calibrators: what users pass, what they get, and what is refused."""

import warnings

import numpy as np
import pytest
import reference
from optional import torch
from sklearn.datasets import load_digits
from sklearn.naive_bayes import GaussianNB

import nishimori
from nishimori import VectorScaling
from nishimori.calibrators import MatrixScaling
from nishimori.errors import InputError, NotConvergedError

CLASSES = [VectorScaling, MatrixScaling]
BOTH = pytest.mark.parametrize("kind", CLASSES, ids=["vector", "matrix"])
BIASES = np.array([0.8, 0.2, -0.3, -0.7])


def drawn(n=800, seed=0, biases=BIASES, temperature=2.0):
    """Logits, and labels drawn from softmax(logits / temperature + biases)."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, len(biases)))
    return logits, (logits / temperature + biases + rng.gumbel(size=logits.shape)).argmax(axis=1)


LOGITS, LABELS = drawn()


def same(one, other, atol=1e-6):
    np.testing.assert_allclose(one.parameters_["scale"], other.parameters_["scale"], atol=atol)
    np.testing.assert_allclose(one.parameters_["bias"], other.parameters_["bias"], atol=atol)


@BOTH
def test_calibrated_probabilities_are_those_of_the_parameters(kind):
    fitted = kind().fit(LOGITS, LABELS)
    x = LOGITS - LOGITS.mean(axis=1, keepdims=True)
    scale = fitted.parameters_["scale"]
    u = (x @ scale.T if kind is MatrixScaling else x * scale) + fitted.parameters_["bias"]
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), reference.softmax(u), atol=1e-12)
    assert fitted.temperature_ is None
    assert set(fitted.penalties_) == set(fitted.determined_)


@BOTH
def test_biased_classes_are_found_and_new_data_are_predicted_better(kind):
    fitted, one = kind().fit(LOGITS, LABELS), nishimori.TemperatureScaling().fit(LOGITS, LABELS)
    np.testing.assert_allclose(fitted.parameters_["bias"], BIASES, atol=0.25)
    logits, labels = drawn(4000, seed=1)
    assert reference.nll(fitted.transform(logits), labels) < reference.nll(logits, labels, one.temperature_) - 0.05


@BOTH
def test_without_departures_one_temperature_is_hardly_left(kind):
    logits, labels = drawn(800, seed=3, biases=np.zeros(4))
    fitted, one = kind().fit(logits, labels), nishimori.TemperatureScaling().fit(logits, labels)
    new, truth = drawn(4000, seed=4, biases=np.zeros(4))
    assert reference.nll(fitted.transform(new), truth) < reference.nll(new, truth, one.temperature_) + 0.005


@BOTH
def test_infinite_penalties_leave_one_temperature(kind):
    fitted = kind(penalty=1e9).fit(LOGITS, LABELS)
    expected = reference.softmax(LOGITS, reference.ts_temperature(LOGITS, LABELS))
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), expected, atol=1e-5)


@BOTH
def test_penalties_count_per_kind(kind):
    strengths = (1e9, 1e9, 0.1) if kind is MatrixScaling else (1e9, 0.1)
    fitted = kind(penalty=strengths).fit(LOGITS, LABELS)
    scale = fitted.parameters_["scale"]
    expected = np.eye(4) * scale[0, 0] if kind is MatrixScaling else np.full(4, scale[0])
    np.testing.assert_allclose(scale, expected, atol=1e-6)
    assert np.abs(fitted.parameters_["bias"]).max() > 0.5
    assert list(fitted.penalties_.values()) == list(strengths)
    assert fitted.determined_ is None


@BOTH
def test_without_penalties_every_mean_is_matched(kind):
    fitted = kind(penalty=None).fit(LOGITS, LABELS)
    gaps = fitted.predict_proba(LOGITS) - np.eye(4)[LABELS]
    x = LOGITS - LOGITS.mean(axis=1, keepdims=True)
    moments = gaps.T @ x / len(x)
    np.testing.assert_allclose(moments if kind is MatrixScaling else np.diag(moments), 0, atol=1e-6)
    np.testing.assert_allclose(gaps.mean(axis=0), 0, atol=1e-7)


@BOTH
def test_standard_errors_are_the_spread_over_data_sets(kind):
    sets = [drawn(400, seed=seed, biases=np.array([0.5, 0.0, -0.5])) for seed in range(100, 160)]
    fits = [kind(penalty=0).fit(*each) for each in sets]
    for name in ("scale", "bias"):
        # Only differences between classes are determined, and x has mean zero over classes.
        values = np.array([each.parameters_[name] for each in fits])
        errors = np.mean([each.parameters_se_[name] ** 2 for each in fits], axis=0) ** 0.5
        if name == "scale" and kind is MatrixScaling:
            centre = np.eye(3) - 1 / 3
            values = centre @ values @ centre
        np.testing.assert_allclose(errors, values.std(axis=0, ddof=1), rtol=0.35)
    assert fits[0].why_no_se_ is None


@BOTH
def test_penalised_parameters_say_that_they_have_no_standard_errors(kind):
    fitted = kind().fit(LOGITS, LABELS)
    assert fitted.parameters_se_ is None
    assert fitted.why_no_se_.startswith("The parameters are penalised")


@BOTH
def test_too_many_parameters_say_that_they_have_no_standard_errors(kind, monkeypatch):
    monkeypatch.setattr("nishimori._calibrators.parameters._MOST_WITH_ERRORS", 7)
    fitted = kind(penalty=0).fit(LOGITS, LABELS)
    assert fitted.parameters_se_ is None
    assert fitted.why_no_se_.startswith(f"There are {20 if kind is MatrixScaling else 8} parameters")


@BOTH
def test_predictions_change_unless_accuracy_is_preserved(kind):
    changing = kind().fit(LOGITS, LABELS)
    keeping = kind(preserve_accuracy=True).fit(LOGITS, LABELS)
    changed = changing.predict(LOGITS) != LOGITS.argmax(axis=1)
    assert changed.any()
    np.testing.assert_array_equal(keeping.predict(LOGITS), LOGITS.argmax(axis=1))
    p = keeping.predict_proba(LOGITS)
    np.testing.assert_array_equal(p.argmax(axis=1), LOGITS.argmax(axis=1))
    one = reference.softmax(LOGITS, reference.ts_temperature(LOGITS, LABELS))
    np.testing.assert_allclose(p[changed], one[changed], atol=1e-6)
    np.testing.assert_allclose(p[~changed], changing.predict_proba(LOGITS)[~changed], atol=1e-12)


@BOTH
def test_copies_of_samples_are_counts_or_clusters(kind):
    once = kind().fit(LOGITS, LABELS)
    copies = np.repeat(LOGITS, 3, axis=0), np.repeat(LABELS, 3)
    same(once, kind().fit(*copies, clusters=np.repeat(np.arange(len(LABELS)), 3)), atol=1e-5)
    copied = kind().fit(*copies)
    same(copied, kind().fit(LOGITS, LABELS, np.full(len(LABELS), 3.0), counts=True), atol=1e-5)
    assert copied.determined_["diagonal"] > once.determined_["diagonal"] + 0.05


@BOTH
def test_only_ratios_of_weights_matter(kind):
    weights = np.random.default_rng(0).uniform(0.5, 2, size=len(LABELS))
    same(kind().fit(LOGITS, LABELS, weights), kind().fit(LOGITS, LABELS, 7 * weights))


@BOTH
def test_rows_of_weight_zero_are_ignored(kind):
    weights = (np.arange(len(LABELS)) % 4 > 0).astype(float)
    kept = weights > 0
    same(kind().fit(LOGITS, LABELS, weights), kind().fit(LOGITS[kept], LABELS[kept]))


@BOTH
def test_files_and_arrays_of_other_libraries_give_the_same_map(kind, tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    expected = kind().fit(LOGITS, LABELS)
    same(kind().fit(nishimori.rows(tmp_path / "logits.npy", LABELS)), expected)
    same(kind().fit(torch.tensor(LOGITS), torch.tensor(LABELS)), expected)
    strict = pytest.importorskip("array_api_strict")
    same(kind().fit(strict.asarray(LOGITS), strict.asarray(LABELS)), expected)


@BOTH
@pytest.mark.parametrize("penalty", ["auto", 0])
def test_passes_are_counted(kind, penalty):
    readings = 0

    def batches():
        nonlocal readings
        readings += 1
        yield from ((LOGITS[i : i + 300], LABELS[i : i + 300]) for i in (0, 300, 600))

    fitted = kind(penalty=penalty).fit(nishimori.rows(batches))
    assert fitted.n_passes_ == readings - 1  # the first batch is looked at before, for the number of classes
    same(fitted, kind(penalty=penalty).fit(LOGITS[:900], LABELS[:900]))


@BOTH
def test_probabilities_and_string_classes(kind):
    names = np.array(["ant", "bee", "cat", "dog"])
    fitted = kind(input="probabilities", floor=None, classes=list(names)).fit(reference.softmax(LOGITS), names[LABELS])
    same(fitted, kind().fit(LOGITS, LABELS), atol=1e-5)
    assert set(fitted.predict(reference.softmax(LOGITS[:9]))) <= set(names)


@BOTH
def test_a_floor_raises_probabilities_before_the_fit(kind):
    p = reference.softmax(LOGITS)
    fitted = kind(input="probabilities", floor=0.01).fit(p, LABELS)
    raised = np.log(np.maximum(p, 0.01))
    same(fitted, kind().fit(raised, LABELS), atol=1e-5)


@BOTH
def test_flat_binary_scores(kind):
    rng = np.random.default_rng(0)
    score = 2 * rng.normal(size=600)
    labels = (score + 0.7 + rng.logistic(size=600) > 0).astype(int)
    fitted = kind().fit(score, labels)
    flat = fitted.transform(score)
    same(fitted, kind().fit(np.column_stack([np.zeros(600), score]), labels))
    assert flat.shape == (600,)
    assert reference.nll(np.column_stack([np.zeros(600), flat]), labels) < reference.nll(
        np.column_stack([np.zeros(600), score]),
        labels,
        reference.ts_temperature(np.column_stack([np.zeros(600), score]), labels),
    )


@BOTH
def test_a_class_without_samples_works_with_penalties_only(kind):
    labels = np.where(LABELS == 2, 1, LABELS)
    fitted = kind().fit(LOGITS, labels)
    assert np.isfinite(fitted.parameters_["bias"]).all()
    assert fitted.parameters_["bias"][2] == fitted.parameters_["bias"].min()
    with pytest.raises(
        InputError, match=r"The `penalty` of the biases must be positive where a class has no samples: class 2 has"
    ):
        kind(penalty=None).fit(LOGITS, labels)


@BOTH
@pytest.mark.parametrize(
    "penalty", ["strong", -1.0, np.nan, (1.0, 2.0, 3.0, 4.0), (1.0, -2.0, 3.0), {"bias": 1}, "3", True, [[1.0]], [1.0, None]]
)
def test_penalties_that_are_not_strengths_are_refused(kind, penalty):
    with pytest.raises(InputError, match=r"`penalty` must be 'auto', None, a number that is not negative, or \d such numbers"):
        kind(penalty=penalty).fit(LOGITS, LABELS)


@BOTH
def test_sketches_masks_and_counted_clusters_are_refused(kind):
    sketch = nishimori.Sketch().update(LOGITS, LABELS)
    with pytest.raises(InputError, match=r"^A Sketch keeps sums, and has no rows to read"):
        kind().fit(sketch)
    masked = LOGITS.copy()
    masked[3, (LABELS[3] + 1) % 4] = -np.inf
    with pytest.raises(InputError, match="masked"):
        kind().fit(masked, LABELS)
    with pytest.raises(InputError, match="`counts` must be False where `clusters` is given"):
        kind().fit(LOGITS, LABELS, clusters=np.arange(len(LABELS)) // 2, counts=True)
    with pytest.raises(InputError, match="X has 3 features"):
        kind().fit(LOGITS, LABELS).predict_proba(LOGITS[:, :3])


@BOTH
@pytest.mark.parametrize("penalty", ["auto", 0])
def test_a_saved_calibrator_is_the_same_again(kind, penalty, tmp_path):
    fitted = kind(penalty=penalty, preserve_accuracy=True).fit(LOGITS, LABELS)
    fitted.save(tmp_path / "map.json")
    loaded = nishimori.load(tmp_path / "map.json")
    assert type(loaded) is kind
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), fitted.predict_proba(LOGITS))
    for name in ("penalties_", "determined_", "why_no_se_", "ts_", "residual_", "penalty"):
        assert getattr(loaded, name) == getattr(fitted, name)
    if penalty == 0:
        for name, errors in fitted.parameters_se_.items():
            np.testing.assert_array_equal(loaded.parameters_se_[name], errors)


@BOTH
def test_the_same_data_give_the_same_digits(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (kind().fit(LOGITS, LABELS) for _ in range(2))
    np.testing.assert_array_equal(one.parameters_["scale"], other.parameters_["scale"])


def test_logits_of_too_many_orders_of_magnitude_are_refused_with_what_to_use_instead():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(1).permutation(len(y))
    train, rest = rows[:700], rows[700:750]
    logits = GaussianNB().fit(X[train], y[train]).predict_log_proba(X[rest])  # down to -1e10
    with pytest.raises(
        NotConvergedError, match=r"float64 cannot hold the curvature .* only, such as 'ec' or 'group', or pass prob"
    ):
        VectorScaling().fit(logits, y[rest])
