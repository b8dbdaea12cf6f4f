"""One temperature and one bias per class: compared with SciPy on the plain formulas."""

import json
import warnings

import bundled
import numpy as np
import pytest
import reference
from optional import torch
from scipy.optimize import minimize
from scipy.stats import chi2

import nishimori
from nishimori import BiasCorrected
from nishimori.errors import InputError, InputWarning, NotConvergedError, NoTemperatureError

BIASES = np.array([1.0, 0.4, -0.2, -1.2])


def drawn(n=1500, seed=0, biases=BIASES, temperature=2.0):
    """Logits, and labels drawn from softmax(logits / temperature + biases)."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, len(biases)))
    return logits, (logits / temperature + biases + rng.gumbel(size=logits.shape)).argmax(axis=1)


LOGITS, LABELS = drawn()
METHODS = pytest.mark.parametrize("method", ["ec", "ts"])


def probabilities(logits, beta, biases):
    return reference.softmax(beta * logits + biases)


def gaps(logits, labels, beta, biases, method, weights=None):
    """The gap of the method, and of each class, with the top class of βz + b."""
    p = probabilities(logits, beta, biases)
    rows = np.arange(len(labels))
    x = logits - logits.mean(axis=1, keepdims=True)
    if method == "ec":
        first = p.max(axis=1) - ((beta * x + biases).argmax(axis=1) == labels)
    else:
        first = (p * x).sum(axis=1) - x[rows, labels]
    return np.average(np.column_stack([first, p - np.eye(p.shape[1])[labels]]), axis=0, weights=weights)


def least_loss(logits, labels, penalty=0.0):
    """β and biases of least cross-entropy, with penalty·|b|²/2 added to its sum over rows."""
    n, k = logits.shape

    def loss(theta):
        biases = theta[1:] - theta[1:].mean()
        p = probabilities(logits, theta[0], biases)
        x = logits - logits.mean(axis=1, keepdims=True)
        value = -np.log(p[np.arange(n), labels]).sum() + penalty / 2 * (biases**2).sum()
        rest = p - np.eye(k)[labels]
        by_bias = rest.sum(axis=0) + penalty * biases
        return value / n, np.append((rest * x).sum(), by_bias - by_bias.mean()) / n

    found = minimize(loss, np.append(0.3, np.zeros(k)), jac=True, method="L-BFGS-B", options={"ftol": 1e-17, "gtol": 1e-11})
    return found.x[0], found.x[1:] - found.x[1:].mean()


def test_without_shrinking_ts_is_the_least_cross_entropy():
    fitted = BiasCorrected(method="ts", shrink=False).fit(LOGITS, LABELS)
    beta, biases = least_loss(LOGITS, LABELS)
    assert fitted.inverse_temperature_ == pytest.approx(beta, abs=1e-6)
    np.testing.assert_allclose(fitted.biases_, biases, atol=1e-6)


@METHODS
@pytest.mark.parametrize("seed", [0, 1])
def test_all_means_agree_with_the_top_class_of_the_calibrated_logits(method, seed):
    logits, labels = drawn(seed=seed)
    weights = np.random.default_rng(seed).uniform(0.2, 3, len(labels))
    fitted = BiasCorrected(method=method, shrink=False).fit(logits, labels, weights)
    found = gaps(logits, labels, fitted.inverse_temperature_, fitted.biases_, method, weights)
    np.testing.assert_allclose(found, 0, atol=1e-9)
    assert fitted.condition_ == method
    assert abs(fitted.biases_.sum()) < 1e-9
    p = fitted.predict_proba(logits)
    np.testing.assert_allclose(np.average(p, axis=0, weights=weights), np.bincount(labels, weights) / weights.sum(), atol=1e-9)


def test_shrunk_biases_are_the_least_loss_with_the_penalty_of_their_spread():
    fitted = BiasCorrected(method="ts").fit(LOGITS, LABELS)
    one = reference.softmax(LOGITS, reference.ts_temperature(LOGITS, LABELS))
    # How much the gaps scatter at one temperature, compared with a model that is right.
    dispersion = ((one - np.eye(4)[LABELS]) ** 2).sum() / (one * (1 - one)).sum()
    beta, biases = least_loss(LOGITS, LABELS, dispersion / fitted.spread_**2)
    assert fitted.inverse_temperature_ == pytest.approx(beta, abs=1e-6)
    np.testing.assert_allclose(fitted.biases_, biases, atol=1e-6)


def test_the_spread_is_the_least_that_the_data_leave_possible():
    fitted = BiasCorrected(method="ts").fit(LOGITS, LABELS)
    one = reference.softmax(LOGITS, reference.ts_temperature(LOGITS, LABELS))
    dispersion = ((one - np.eye(4)[LABELS]) ** 2).sum() / (one * (1 - one)).sum()
    # The second derivatives of the loss by β and three biases, the fourth being minus their sum.
    p = probabilities(LOGITS, fitted.inverse_temperature_, fitted.biases_)
    x = LOGITS - LOGITS.mean(axis=1, keepdims=True)
    contrasts = np.vstack([np.eye(3), -np.ones(3)])
    features = np.concatenate([x[:, :, None], np.broadcast_to(contrasts, (len(x), 4, 3))], axis=2)
    mean = np.einsum("nk,nkm->nm", p, features)
    second = np.einsum("nk,nka,nkb->ab", p, features, features) - mean.T @ mean
    gradient = (mean - features[np.arange(len(x)), LABELS]).sum(axis=0)
    estimate = np.append(fitted.inverse_temperature_, fitted.biases_[:3]) - np.linalg.solve(second, gradient)
    covariance = dispersion * np.linalg.inv(second)[1:, 1:] + fitted.spread_**2 * np.linalg.inv(contrasts.T @ contrasts)
    # The quadratic form of the unshrunk biases is at the upper end of its distribution. With a sum of zero, independent biases
    # of variance τ² have the covariance τ²(1 - 1/K): in three contrasts, τ² times the inverse of contrastsᵀcontrasts.
    assert estimate[1:] @ np.linalg.solve(covariance, estimate[1:]) == pytest.approx(chi2.ppf(0.95, 3), rel=5e-3)


def test_where_noise_explains_the_biases_one_temperature_remains():
    logits, labels = drawn(400, seed=3, biases=np.zeros(6))
    for method, temperature in (("ec", reference.ec_temperature), ("ts", reference.ts_temperature)):
        fitted = BiasCorrected(method=method).fit(logits, labels)
        assert (fitted.spread_, fitted.condition_) == (0.0, method)
        assert (fitted.biases_ == 0).all()
        assert 1 / fitted.inverse_temperature_ == pytest.approx(temperature(logits, labels), rel=1e-8)


def test_few_samples_shrink_more_than_many():
    many = BiasCorrected(shrink=False).fit(*drawn(20000)).biases_
    sizes = []
    for n in (100, 300, 3000):
        logits, labels = drawn(n, seed=1)
        plain = BiasCorrected(method="ts", shrink=False).fit(logits, labels).biases_
        shrunk = BiasCorrected(method="ts").fit(logits, labels).biases_
        sizes.append(np.linalg.norm(shrunk) / np.linalg.norm(plain))
    assert sizes[0] < sizes[1] < sizes[2] < 1
    np.testing.assert_allclose(many, BIASES, atol=0.1)


@METHODS
@pytest.mark.parametrize("shrink", [True, False])
def test_weights_that_are_counts_are_copies(method, shrink):
    logits, labels = drawn(seed=1)
    counts = np.random.default_rng(5).integers(0, 4, len(labels))
    made = BiasCorrected(method=method, shrink=shrink)
    weighted = made.fit(logits, labels, counts, counts=True)
    found, errors = [weighted.inverse_temperature_, *weighted.biases_], weighted.parameters_se_
    copies = made.fit(np.repeat(logits, counts, axis=0), np.repeat(labels, counts))
    np.testing.assert_allclose(found, [copies.inverse_temperature_, *copies.biases_], rtol=1e-7)
    if not shrink:
        np.testing.assert_allclose(errors["biases"], copies.parameters_se_["biases"], rtol=1e-7)
        assert errors["inverse_temperature"] == pytest.approx(copies.parameters_se_["inverse_temperature"], rel=1e-7)


def test_the_unit_of_the_weights_does_not_matter():
    weights = np.random.default_rng(6).uniform(0.5, 2, len(LABELS))
    small, large = (BiasCorrected().fit(LOGITS, LABELS, scale * weights).biases_ for scale in (1e-3, 1e5))
    np.testing.assert_allclose(small, large, rtol=1e-7)


def test_clusters_of_copies_count_as_one_sample():
    rows = np.repeat(np.arange(500), 3)
    logits, labels = LOGITS[rows], LABELS[rows]
    for made in (BiasCorrected(), BiasCorrected(shrink=False)):
        once = made.fit(LOGITS[:500], LABELS[:500])
        expected, errors = once.biases_, once.parameters_se_
        np.testing.assert_allclose(made.fit(logits, labels, clusters=rows).biases_, expected, rtol=1e-6)
        if not made.shrink:
            np.testing.assert_allclose(made.parameters_se_["biases"], errors["biases"], rtol=1e-7)
        else:
            assert np.abs(made.fit(logits, labels).biases_).sum() > np.abs(expected).sum() * 1.001


@METHODS
def test_standard_errors_are_the_sandwich_of_the_plain_formulas(method):
    fitted = BiasCorrected(method=method, shrink=False).fit(LOGITS, LABELS)
    theta = np.append(fitted.inverse_temperature_, fitted.biases_)
    x = LOGITS - LOGITS.mean(axis=1, keepdims=True)
    top = (theta[0] * x + theta[1:]).argmax(axis=1)
    rows = np.arange(len(x))

    def of_rows(theta):
        p = probabilities(LOGITS, theta[0], theta[1:])
        first = p[rows, top] - (top == LABELS) if method == "ec" else (p * x).sum(axis=1) - x[rows, LABELS]
        return np.column_stack([first, p - np.eye(4)[LABELS]])

    step = 1e-6
    numeric = np.stack([(of_rows(theta + d) - of_rows(theta - d)).mean(axis=0) / (2 * step) for d in step * np.eye(5)], axis=1)
    inverse = np.linalg.pinv(numeric, rcond=1e-6)  # a constant in all biases has no effect
    g = of_rows(theta)
    errors = np.sqrt(np.diag(inverse @ (g.T @ g) @ inverse.T)) / len(x)
    assert fitted.parameters_se_["inverse_temperature"] == pytest.approx(errors[0], rel=1e-4)
    np.testing.assert_allclose(fitted.parameters_se_["biases"], errors[1:], rtol=1e-4)
    assert fitted.why_no_se_ is None


@METHODS
@pytest.mark.filterwarnings("ignore:Mean confidence")
def test_standard_errors_say_how_much_the_parameters_vary(method):
    found, errors = [], []
    for seed in range(60):
        fitted = BiasCorrected(method=method, shrink=False).fit(*drawn(600, seed=100 + seed))
        found.append([fitted.inverse_temperature_, *fitted.biases_])
        errors.append([fitted.parameters_se_["inverse_temperature"], *fitted.parameters_se_["biases"]])
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / np.std(found, axis=0)
    assert (np.abs(ratio - 1) < 0.35).all(), ratio  # the spread of 60 numbers is known to 9 %


def test_shrunk_biases_say_why_they_have_no_standard_errors():
    fitted = BiasCorrected().fit(LOGITS, LABELS)
    assert fitted.parameters_se_ is None
    assert "Fit with `shrink=False`" in fitted.why_no_se_
    assert fitted.temperature_ is None


@METHODS
def test_preserved_predictions_get_the_temperature_of_the_method(method):
    fitted = BiasCorrected(method=method, preserve_accuracy=True).fit(LOGITS, LABELS)
    free = BiasCorrected(method=method).fit(LOGITS, LABELS)
    changed = free.predict(LOGITS) != LOGITS.argmax(axis=1)
    assert 50 < changed.sum() < 1000
    np.testing.assert_array_equal(fitted.predict(LOGITS), LOGITS.argmax(axis=1))
    p = fitted.predict_proba(LOGITS)
    np.testing.assert_array_equal(p.argmax(axis=1), LOGITS.argmax(axis=1))
    temperature = {"ec": reference.ec_temperature, "ts": reference.ts_temperature}[method](LOGITS, LABELS)
    np.testing.assert_allclose(p[changed], reference.softmax(LOGITS[changed], temperature), rtol=1e-7)
    np.testing.assert_allclose(p[~changed], free.predict_proba(LOGITS)[~changed], rtol=1e-12)


def test_a_jump_of_the_accuracy_where_confidence_would_reach_it_leaves_about_one_sample():
    logits, labels = drawn(1500, seed=2)
    fitted = BiasCorrected(shrink=False).fit(logits, labels)
    found = gaps(logits, labels, fitted.inverse_temperature_, fitted.biases_, "ec")
    assert fitted.condition_ == "ec"
    assert 1e-5 < abs(found[0]) < 2 / 1500
    assert fitted.residual_ == pytest.approx(abs(found[0]), rel=1e-6)
    assert fitted.fit(logits, labels, np.full(1500, 3), counts=True).condition_ == "ec"  # three samples are still few
    np.testing.assert_allclose(found[1:], 0, atol=1e-9)


def test_top_classes_that_keep_changing_are_told_and_the_loss_decides():
    logits, labels = drawn(40, seed=0)
    with pytest.warns(
        InputWarning, match=r"^Mean confidence could not be made equal to accuracy: the top classes .*`method='ts'`"
    ):
        fitted = BiasCorrected(shrink=False).fit(logits, labels)
    assert fitted.condition_ == "ts"
    np.testing.assert_allclose(gaps(logits, labels, fitted.inverse_temperature_, fitted.biases_, "ts"), 0, atol=1e-9)


def test_a_class_without_samples_is_refused_without_shrinking_and_told_with_it():
    logits, labels = LOGITS[LABELS != 3], LABELS[LABELS != 3]
    with pytest.raises(
        InputError, match=r"^`y` must have samples of every class with `shrink=False`, got none of class 3: the bias"
    ):
        BiasCorrected(shrink=False).fit(logits, labels)
    with pytest.warns(InputWarning, match=r"^There are no samples of class 3. How far the bias"):
        fitted = BiasCorrected().fit(logits, labels)
    assert fitted.biases_.argmin() == 3
    assert np.isfinite(fitted.biases_).all()
    named = BiasCorrected(classes=["ant", "bee", "cat", "dog"], shrink=False)
    with pytest.raises(InputError, match="got none of classes 'cat', 'dog': the bias"):
        named.fit(LOGITS[LABELS < 2], np.array(["ant", "bee"])[LABELS[LABELS < 2]])


REFUSED = {
    "method": (lambda: BiasCorrected(method="adaptive").fit(LOGITS, LABELS), "^`method` must be 'ec' or 'ts', got 'adaptive'"),
    "mask": (
        lambda: BiasCorrected().fit(np.where(LOGITS < -6, -np.inf, LOGITS), LABELS),
        r"^`X` must not have masked classes \(-inf\) where numbers are added to classes",
    ),
    "sketch": (
        lambda: BiasCorrected().fit(nishimori.Sketch().update(LOGITS, LABELS)),
        "^A Sketch keeps sums, and has no rows to read",
    ),
    "counts": (
        lambda: BiasCorrected().fit(LOGITS, LABELS, clusters=np.arange(1500) // 2, counts=True),
        "^`counts` must be False where `clusters` is given",
    ),
    "classes": (
        lambda: BiasCorrected().fit(np.zeros((2, 10_001)), [0, 1]),
        "^`X` must have at most 10,000 classes for the method 'bias', got 10,001",
    ),
    "other K": (lambda: BiasCorrected().fit(LOGITS, LABELS).predict_proba(LOGITS[:, :3]), "^X has 3 features, but"),
    "groups": (lambda: BiasCorrected().fit(LOGITS, LABELS).predict_proba(LOGITS, groups=LABELS), "^`groups` must be left out"),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_without_errors_there_is_no_temperature():
    with pytest.raises(NoTemperatureError, match="all 1500 samples are classified correctly"):
        BiasCorrected().fit(LOGITS, LOGITS.argmax(axis=1))


def test_arrays_of_other_libraries_files_batches_and_probabilities_give_the_same(tmp_path):
    expected = BiasCorrected().fit(LOGITS, LABELS).biases_
    np.save(tmp_path / "logits.npy", LOGITS)
    batches = [(LOGITS[i : i + 400], LABELS[i : i + 400]) for i in range(0, 1500, 400)]
    p = reference.softmax(LOGITS)
    padded, weights = np.vstack([LOGITS, np.full((5, 4), np.nan)]), np.append(np.ones(1500), np.zeros(5))
    found = {
        "torch": BiasCorrected().fit(torch.tensor(LOGITS), torch.tensor(LABELS)),
        "file": BiasCorrected().fit(nishimori.rows(tmp_path / "logits.npy", LABELS)),
        "batches": BiasCorrected().fit(nishimori.rows(batches)),
        "probabilities": BiasCorrected(input="probabilities", floor=None).fit(p, LABELS),
        "names": BiasCorrected(classes=list("abcd")).fit(LOGITS, np.array(list("abcd"))[LABELS]),
        "weights of zero": BiasCorrected().fit(padded, np.append(LABELS, np.zeros(5, int)), weights),
        "shifted": BiasCorrected().fit(LOGITS + 1e5 * np.arange(1500)[:, None], LABELS),
    }
    for name, fitted in found.items():
        np.testing.assert_allclose(fitted.biases_, expected, rtol=1e-5 if name == "shifted" else 1e-7, err_msg=name)
    np.testing.assert_allclose(
        found["probabilities"].predict_proba(p), BiasCorrected().fit(LOGITS, LABELS).predict_proba(LOGITS), rtol=1e-6
    )
    assert set(found["names"].predict(LOGITS)) <= set("abcd")


def test_binary_scores_may_be_flat():
    rng = np.random.default_rng(0)
    scores = 4 * rng.normal(size=3000)
    labels = (rng.random(3000) < 1 / (1 + np.exp(-scores / 2 - 0.8))).astype(int)
    fitted = BiasCorrected(method="ts", shrink=False).fit(scores, labels)
    table = BiasCorrected(method="ts", shrink=False).fit(np.column_stack([0 * scores, scores]), labels)
    np.testing.assert_allclose(fitted.biases_, table.biases_, rtol=1e-9)
    beta, biases = least_loss(np.column_stack([0 * scores, scores]), labels)
    assert fitted.biases_[1] - fitted.biases_[0] == pytest.approx(biases[1] - biases[0], abs=1e-6)
    np.testing.assert_allclose(fitted.transform(scores), beta * scores + biases[1] - biases[0], atol=1e-4)


def test_a_loaded_calibrator_with_too_many_parameters_says_so(tmp_path):
    path = tmp_path / "c.json"
    logits, labels = reference.drawn(300, 3)
    BiasCorrected(shrink=False).fit(logits, labels).save(path)
    content = json.loads(path.read_text())
    content["map"]["parameters"]["bias"] = [0.0] * 1000
    content["provenance"] |= {"n_classes": 1000, "class_prior": None, "estimates": {"by_confidence": 1.0}}
    path.write_text(json.dumps(content))
    found = nishimori.load(path).why_no_se_
    assert found == "There are 1,001 parameters, and standard errors are computed for at most 1,000."


@pytest.mark.parametrize("shrink", [True, False])
def test_it_is_saved_and_loaded(tmp_path, shrink):
    fitted = BiasCorrected(method="ts", shrink=shrink, preserve_accuracy=True).fit(LOGITS, LABELS)
    fitted.save(tmp_path / "c.json")
    loaded = nishimori.load(tmp_path / "c.json")
    assert repr(loaded) == repr(fitted)
    assert (loaded.method, loaded.method_name) == ("ts", "bias")
    np.testing.assert_array_equal(loaded.predict_proba(LOGITS), fitted.predict_proba(LOGITS))
    assert (loaded.spread_, loaded.condition_, loaded.why_no_se_) == (fitted.spread_, "ts", fitted.why_no_se_)
    assert loaded.inverse_temperature_ == fitted.inverse_temperature_
    if not shrink:
        np.testing.assert_array_equal(loaded.parameters_se_["biases"], fitted.parameters_se_["biases"])


def test_a_fit_that_fails_leaves_the_calibrator_as_it_was():
    fitted = BiasCorrected().fit(LOGITS, LABELS)
    before = fitted.biases_.copy()
    with pytest.raises(InputError):
        fitted.fit(LOGITS, LABELS, sample_weight=-np.ones(len(LABELS)))
    np.testing.assert_array_equal(fitted.biases_, before)


# The prototype of this method had these numbers: the loss, and the error in percent.
NETWORKS = {
    "cifar10/resnet20": (0.388, 13.3),
    "cifar10/resnet56": (0.375, 12.6),
    "cifar10/densenet121": (0.247, 8.2),
    "cifar10/resnet20-authors": (0.368, 12.5),
    "svhn/resnet20": (0.220, 6.1),
}


@METHODS
@pytest.mark.parametrize("name", NETWORKS)
def test_on_biased_networks_it_lowers_loss_and_error_as_far_as_a_prototype_did(name, method):
    data = bundled.network(name)
    fitted = BiasCorrected(method=method).fit(data.validation.logits, data.validation.labels)
    card = nishimori.evaluate(data.test.logits, data.test.labels, calibrator=fitted)
    loss, error = NETWORKS[name]
    assert card.nll < loss + 0.001
    assert 100 * card.error < error + 0.1


def test_warnings_are_not_given_without_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        BiasCorrected().fit(LOGITS, LABELS)


def test_biases_that_separate_the_answers_perfectly_are_refused():
    logits = np.array([[2.0, 0.0], [1.5, 0.0], [1.0, 0.0], [0.5, 0.0]])  # one bias makes all of them right
    with pytest.raises(
        NotConvergedError, match=r"^No finite parameters fit best: .* can be separated .* Use `shrink=True`, or more samples"
    ):
        BiasCorrected(method="ts", shrink=False).fit(logits, [0, 0, 1, 1])
