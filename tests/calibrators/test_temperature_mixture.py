"""Mixtures of calibrated, original and uniform probabilities: their minimum by SciPy, their errors, what is refused."""

import json
from functools import partial

import numpy as np
import pytest
import reference
from optional import torch
from scipy.optimize import brentq, minimize

import nishimori
from nishimori._fit.mixture import best_weights, condition_slopes, row_conditions
from nishimori._rows.entry import open_rows
from nishimori.calibrators import TemperatureMixture
from nishimori.errors import InputError, NotConvergedError
from nishimori.maps import Mixture

K = 4


def drawn(n=800, seed=0, random=0.1, sure=0.3):
    """Labels at T = 2, some of them at T = 1 and some random, so that each component has its share."""
    rng = np.random.default_rng(seed)
    logits = 5 * rng.normal(size=(n, K))
    temperatures = np.where(rng.random((n, 1)) < sure, 1.0, 2.5)
    labels = (logits / temperatures + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return logits, np.where(rng.random(n) < random, rng.integers(K, size=n), labels)


LOGITS, LABELS = drawn()


def components(logits, temperature):
    number = np.isfinite(logits).sum(axis=1, keepdims=True)
    uniform = np.where(np.isfinite(logits), 1 / number, 0.0)
    return np.stack([reference.softmax(logits, temperature), reference.softmax(logits), uniform])


def mixed(logits, temperature, weights):
    return np.einsum("k,knc->nc", weights, components(logits, temperature))


def plain(logits, labels, sample_weight=None):
    """T, and the weights of least cross-entropy by SciPy."""
    T = reference.ts_temperature(logits, labels, sample_weight)
    at_label = components(logits, T)[:, np.arange(len(labels)), labels]

    def loss(w):
        mixture = w @ at_label
        return -np.average(np.log(mixture), weights=sample_weight), -np.average(
            at_label / mixture, axis=1, weights=sample_weight
        )

    sum_to_one = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(3)}
    found = minimize(
        loss,
        np.full(3, 1 / 3),
        jac=True,
        method="SLSQP",
        bounds=3 * [(1e-12, 1)],
        constraints=sum_to_one,
        options={"ftol": 1e-16, "maxiter": 1000},
    )
    return T, found.x


def test_all_three_weights_are_those_of_the_plain_formula():
    fitted = TemperatureMixture().fit(LOGITS, LABELS)
    T, weights = plain(LOGITS, LABELS)
    assert (weights > 0.01).all()
    assert fitted.ts_ == pytest.approx(T, rel=1e-7)
    np.testing.assert_allclose(fitted.weights_, weights, atol=1e-6)
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), mixed(LOGITS, T, weights), atol=1e-6)
    assert fitted.temperature_ is None


def test_samples_count_by_their_weights_and_those_of_weight_zero_not_at_all():
    sample_weight = np.random.default_rng(1).integers(0, 3, len(LABELS)).astype(float)
    fitted = TemperatureMixture().fit(LOGITS, LABELS, sample_weight)
    np.testing.assert_allclose(fitted.weights_, plain(LOGITS, LABELS, sample_weight)[1], atol=1e-6)
    kept = sample_weight > 0
    same = TemperatureMixture().fit(LOGITS[kept], LABELS[kept], sample_weight[kept])
    np.testing.assert_allclose(same.weights_, fitted.weights_, atol=1e-8)


@pytest.mark.parametrize(("random", "sure"), [(0.0, 0.0), (0.0, 0.3)], ids=str)
def test_components_that_do_not_help_have_weights_of_exactly_zero(random, sure):
    logits, labels = drawn(2000, 1, random, sure)
    fitted = TemperatureMixture().fit(logits, labels)
    T, weights = plain(logits, labels)
    assert ((weights < 1e-9) == (fitted.weights_ == 0)).all()
    assert (fitted.weights_ == 0).any()
    np.testing.assert_allclose(fitted.weights_, weights, atol=1e-6)
    ratios = components(logits, T)[:, np.arange(2000), labels] / mixed(logits, T, fitted.weights_)[np.arange(2000), labels]
    excess = ratios.mean(axis=1) - 1
    assert np.abs(excess[fitted.weights_ > 0]).max() < 1e-7
    assert (excess <= 1e-7).all()
    assert fitted.residual_ < 1e-8
    assert fitted.parameters_se_ is None
    assert fitted.why_no_se_.startswith("A weight is zero")


def test_one_temperature_is_hardly_left_where_it_is_right():
    logits, labels = drawn(3000, 2, random=0.0, sure=0.0)
    assert TemperatureMixture().fit(logits, labels).weights_[0] > 0.95


def test_at_a_temperature_of_one_the_weights_of_both_softmaxes_add_up():
    found = best_weights(open_rows(LOGITS, LABELS), 1.0)
    at_label = components(LOGITS, 1.0)[1:, np.arange(len(LABELS)), LABELS]
    both = brentq(lambda w: np.mean((at_label[0] - at_label[1]) / (w * at_label[0] + (1 - w) * at_label[1])), 0.01, 0.9999)
    assert found.weights[:2].sum() == pytest.approx(both, abs=1e-7)


def test_a_row_whose_label_has_no_probability_in_float64_keeps_the_loss_finite():
    logits, labels = LOGITS.copy(), LABELS
    logits[0] = np.where(np.arange(K) == labels[0], -3000.0, 0.0)
    fitted = TemperatureMixture().fit(logits, labels)
    assert fitted.weights_[2] > 0
    assert np.isfinite(fitted.predict_log_proba(logits)).all()


def test_log_probabilities_are_exact_where_probabilities_are_too_small():
    found = Mixture(2.0, [0.25, 0.75, 0.0]).apply(np.array([[0.0, -2000.0, -3000.0]]))
    np.testing.assert_allclose(found, [[0.0, np.log(0.25) - 1000, np.log(0.25) - 1500]], rtol=1e-12, atol=1e-12)


def test_standard_errors_are_the_spread_over_data_sets():
    fits = [TemperatureMixture().fit(*drawn(1000, seed)) for seed in range(200, 240)]
    inside = [each for each in fits if each.parameters_se_ is not None]
    assert len(inside) > 30
    for name in ("temperature", "weights"):
        values = np.array([each.parameters_[name] for each in inside])
        errors = np.mean([np.square(each.parameters_se_[name]) for each in inside], axis=0) ** 0.5
        np.testing.assert_allclose(errors, values.std(axis=0, ddof=1), rtol=0.3)


def test_the_derivatives_of_the_conditions_are_those_of_the_plain_formula():
    data, x = open_rows(LOGITS, LABELS), np.array([0.4, 0.5, 0.3])

    def gaps(x):
        """The conditions of all rows from the formulas: ⟨z⟩ − z of the label, and (q₃ − q_a)/s."""
        at_label = components(LOGITS, 1 / x[0])[:, np.arange(len(LABELS)), LABELS]
        tilts = (at_label[2] - at_label[:2]) / (np.array([x[1], x[2], 1 - x[1] - x[2]]) @ at_label)
        return np.concatenate([[len(LABELS) * reference.ts_gap(LOGITS, LABELS, 1 / x[0])], tilts.sum(axis=1)])

    point = 1 / x[0], np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(row_conditions(*point, next(iter(data))).sum(axis=0), gaps(x), rtol=1e-10)
    steps = 1e-5 * np.eye(3)
    expected = np.array([(gaps(x + step) - gaps(x - step)) / 2e-5 for step in steps]).T
    np.testing.assert_allclose(data.gather(partial(condition_slopes, *point)), expected, rtol=1e-6, atol=1e-5)


def test_clusters_and_counts_change_the_errors_as_copies_do():
    once = TemperatureMixture().fit(LOGITS, LABELS).parameters_se_
    copies = np.repeat(LOGITS, 4, axis=0), np.repeat(LABELS, 4)
    clustered = TemperatureMixture().fit(*copies, clusters=np.repeat(np.arange(len(LABELS)), 4)).parameters_se_
    counted = TemperatureMixture().fit(LOGITS, LABELS, np.full(len(LABELS), 4.0), counts=True).parameters_se_
    for name, error in once.items():
        np.testing.assert_allclose(clustered[name], error, rtol=1e-5)
        np.testing.assert_allclose(counted[name], np.divide(error, 2), rtol=1e-5)


def test_masked_classes_stay_out_of_the_uniform_distribution():
    logits = LOGITS.copy()
    masked = np.arange(len(LABELS)) % 3 == 0
    logits[masked, (LABELS[masked] + 1) % K] = -np.inf
    fitted = TemperatureMixture().fit(logits, LABELS)
    T, weights = plain(logits, LABELS)
    np.testing.assert_allclose(fitted.weights_, weights, atol=1e-6)
    np.testing.assert_allclose(fitted.predict_proba(logits), mixed(logits, T, weights), atol=1e-6)
    assert (fitted.predict_proba(logits)[~np.isfinite(logits)] == 0).all()
    assert np.isfinite(list(fitted.parameters_se_["weights"])).all()


def test_predictions_are_kept():
    fitted = TemperatureMixture().fit(LOGITS, LABELS)
    assert fitted.map_.keeps_predictions
    np.testing.assert_array_equal(fitted.predict_proba(LOGITS).argmax(axis=1), LOGITS.argmax(axis=1))


def test_batches_files_and_tensors_give_the_same_weights_and_readings_are_counted(tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    expected = TemperatureMixture().fit(LOGITS, LABELS).weights_
    readings = 0

    def batches():
        nonlocal readings
        readings += 1
        yield from ((LOGITS[i : i + 300], LABELS[i : i + 300]) for i in (0, 300, 600))

    streamed = TemperatureMixture().fit(nishimori.rows(batches))
    assert streamed.n_passes_ == readings
    np.testing.assert_allclose(streamed.weights_, expected, atol=1e-9)
    for given in ((nishimori.rows(tmp_path / "logits.npy", LABELS),), (torch.tensor(LOGITS), torch.tensor(LABELS))):
        np.testing.assert_allclose(TemperatureMixture().fit(*given).weights_, expected, atol=1e-9)


def test_flat_scores_probabilities_and_names_of_classes():
    score = LOGITS[:, 1] - LOGITS[:, 0]
    labels = np.where(LABELS > 1, (score > 0).astype(int), LABELS)
    flat = TemperatureMixture().fit(score, labels)
    table = np.column_stack([np.zeros_like(score), score])
    p = mixed(table, flat.ts_, flat.weights_)
    np.testing.assert_allclose(flat.transform(score), np.log(p[:, 1] / p[:, 0]), atol=1e-9)
    names = np.array(["ant", "bee", "cat", "dog"])
    named = TemperatureMixture(input="probabilities", floor=None, classes=list(names)).fit(
        reference.softmax(LOGITS), names[LABELS]
    )
    np.testing.assert_allclose(named.weights_, TemperatureMixture().fit(LOGITS, LABELS).weights_, atol=1e-6)
    assert set(named.predict(reference.softmax(LOGITS[:9]))) <= set(names)


@pytest.mark.parametrize("random", [0.0, 0.1], ids=["boundary", "inside"])
def test_a_saved_calibrator_is_the_same_again(random, tmp_path):
    fitted = TemperatureMixture().fit(*drawn(random=random, sure=3 * random))
    fitted.save(tmp_path / "map.json")
    loaded = nishimori.load(tmp_path / "map.json")
    assert type(loaded) is TemperatureMixture
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), fitted.predict_proba(LOGITS))
    np.testing.assert_array_equal(loaded.weights_, fitted.weights_)
    assert loaded.why_no_se_ == fitted.why_no_se_
    assert (loaded.parameters_se_ is None) == (fitted.parameters_se_ is None) == (random == 0)
    if random:
        np.testing.assert_array_equal(loaded.parameters_se_["weights"], fitted.parameters_se_["weights"])


def test_what_has_no_temperature_is_refused():
    with pytest.raises(nishimori.errors.NoTemperatureError, match=r"the true class has the largest logit in all 800 samples"):
        TemperatureMixture().fit(LOGITS, LOGITS.argmax(axis=1))
    with pytest.raises(nishimori.errors.NoTemperatureError):
        TemperatureMixture().fit(np.zeros((50, K)), np.arange(50) % K)
    with pytest.raises(InputError, match=r"^A Sketch keeps sums, and has no rows to read"):
        TemperatureMixture().fit(nishimori.Sketch().update(LOGITS, LABELS))
    with pytest.raises(InputError, match="X has 3 features"):
        TemperatureMixture().fit(LOGITS, LABELS).predict_proba(LOGITS[:, :3])
    with pytest.raises(InputError, match="`counts` must be False where `clusters` is given"):
        TemperatureMixture().fit(LOGITS, LABELS, clusters=np.arange(len(LABELS)) // 2, counts=True)


def test_a_search_that_is_stopped_says_what_to_do(monkeypatch):
    monkeypatch.setattr("nishimori._fit.mixture._MOST_STEPS", 1)
    with pytest.raises(NotConvergedError, match=r"mixture did not converge in \d+ passes: .*Use more data, or one"):
        TemperatureMixture().fit(LOGITS, LABELS)


def test_a_loaded_calibrator_says_that_the_data_do_not_determine_the_weights(tmp_path):
    path = tmp_path / "map.json"
    TemperatureMixture().fit(*drawn(random=0.1, sure=0.3)).save(path)
    content = json.loads(path.read_text())
    content["provenance"]["estimates"] = {}  # as written where all weights are positive and there are no errors
    path.write_text(json.dumps(content))
    loaded = nishimori.load(path)
    assert loaded.weights_.all()
    assert loaded.parameters_se_ is None
    assert loaded.why_no_se_.startswith("The temperature is so close to 1 that two components")
