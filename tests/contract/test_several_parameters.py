"""A calibrator with several parameters, written outside the package by following docs/extending.md, works everywhere."""

import json
import pickle
from importlib import import_module

import numpy as np
import own_code
import pytest
import reference
import shell
from optional import nishimori_torch, torch
from scipy.optimize import minimize, root
from sklearn.base import clone

import nishimori
from nishimori._methods import table
from nishimori.calibrators import SeveralParameters
from nishimori.errors import InputError, NotConvergedError

CODE = own_code.code_under("A calibrator with several parameters")
SHIFT = np.array([0.0, 0.0, 1.2, 0.0])


def drawn(n, seed):
    """Logits, and labels drawn at temperature 2 with a bias of class 2."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, 4))
    return logits, (logits / 2 + SHIFT + rng.gumbel(size=logits.shape)).argmax(axis=1)


LOGITS, LABELS = drawn(1200, 0)
TEST_LOGITS, TEST_LABELS = drawn(700, 1)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a module ``biases`` that holds the code of the page, and files of logits."""
    data = (LOGITS, LABELS), (TEST_LOGITS, TEST_LABELS)
    with own_code.module("biases", CODE, tmp_path, monkeypatch, *data) as folder:
        yield folder


@pytest.fixture
def one_bias(place):
    return import_module("biases").OneBias


def mapped(logits, theta):
    return theta[0] * logits + theta[1] * np.eye(4)[2]


def least_loss(logits, labels, weights=None):
    """Scale and bias of class 2 with the least cross-entropy, from its definition."""
    loss = lambda theta: reference.nll(mapped(logits, theta), labels, weights=weights)  # noqa: E731
    return minimize(loss, [0.4, 0.1], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15, "maxiter": 2000}).x


def found_by(fitted):
    return [fitted.parameters_["scale"], fitted.parameters_["bias"]]


def test_it_fits_predicts_and_is_evaluated(one_bias):
    fitted = one_bias(2).fit(LOGITS, LABELS)
    theta = least_loss(LOGITS, LABELS)
    np.testing.assert_allclose(found_by(fitted), theta, atol=1e-6)
    np.testing.assert_allclose(fitted.predict_proba(TEST_LOGITS), reference.softmax(mapped(TEST_LOGITS, theta)), rtol=1e-4)
    card = nishimori.evaluate(TEST_LOGITS, TEST_LABELS, calibrator=fitted)
    assert card.nll == pytest.approx(reference.nll(mapped(TEST_LOGITS, theta), TEST_LABELS), rel=1e-6)
    assert (
        card.nll
        < nishimori.evaluate(TEST_LOGITS, TEST_LABELS, calibrator=nishimori.TemperatureScaling().fit(LOGITS, LABELS)).nll
    )
    assert (fitted.method, fitted.temperature_, fitted.n_samples_) == ("biases:OneBias", None, 1200)
    assert fitted.residual_ < 1e-9


def gaps_of_rows(theta, logits, labels):
    """How far the mean logit, and the probability of class 2, lie above what is true, for each row."""
    p = reference.softmax(mapped(logits, theta))
    energy = (p * logits).sum(axis=1) - logits[np.arange(len(labels)), labels]
    return np.column_stack([energy, p[:, 2] - (labels == 2)])


def plain_errors(theta, labels, of_units=lambda gaps: gaps):
    """Standard errors from the sandwich, with derivatives by differences."""
    step = 1e-5
    jacobian = np.stack(
        [
            (gaps_of_rows(theta + d, LOGITS, labels) - gaps_of_rows(theta - d, LOGITS, labels)).mean(axis=0) / (2 * step)
            for d in step * np.eye(2)
        ],
        axis=1,
    )
    inverse = np.linalg.inv(jacobian) / len(labels)
    gaps = of_units(gaps_of_rows(theta, LOGITS, labels))
    return np.sqrt(np.diag(inverse @ gaps.T @ gaps @ inverse.T))


def test_its_standard_errors_are_the_sandwich_of_rows_or_clusters(one_bias):
    theta = least_loss(LOGITS, LABELS)
    fitted = one_bias(2).fit(LOGITS, LABELS)
    assert fitted.why_no_se_ is None
    np.testing.assert_allclose(
        [fitted.parameters_se_[name] for name in ("scale", "bias")], plain_errors(theta, LABELS), rtol=1e-3
    )
    clusters = np.arange(1200) // 5
    fitted = one_bias(2).fit(LOGITS, LABELS, clusters=clusters)
    expected = plain_errors(theta, LABELS, lambda gaps: gaps.reshape(-1, 5, 2).sum(axis=1))
    np.testing.assert_allclose([fitted.parameters_se_[name] for name in ("scale", "bias")], expected, rtol=1e-3)


def test_weights_count_samples(one_bias):
    weights = np.random.default_rng(2).integers(0, 4, 1200)
    fitted = one_bias(2).fit(LOGITS, LABELS, weights, counts=True)
    copies = one_bias(2).fit(np.repeat(LOGITS, weights, axis=0), np.repeat(LABELS, weights))
    np.testing.assert_allclose(found_by(fitted), least_loss(LOGITS, LABELS, weights), atol=1e-6)
    assert fitted.parameters_ == pytest.approx(copies.parameters_, rel=1e-7)
    assert fitted.parameters_se_ == pytest.approx(copies.parameters_se_, rel=1e-7)


def test_files_and_tensors_give_the_same(one_bias, place):
    expected = one_bias(2).fit(LOGITS, LABELS).parameters_
    np.save(place / "logits.npy", LOGITS)
    for X, y in ((torch.tensor(LOGITS), torch.tensor(LABELS)), (nishimori.rows(place / "logits.npy", LABELS), None)):
        assert one_bias(2).fit(X, y).parameters_ == pytest.approx(expected, rel=1e-9)


class TopClass(SeveralParameters):
    """The scale is that at which mean confidence equals accuracy, of the top class of the logits as they were."""

    def __init__(self, *, input="logits", classes=None, floor=None):
        self.input, self.classes, self.floor = input, classes, floor

    def start(self, n_classes, temperature):
        return {"scale": 1 / temperature, "biases": np.zeros(n_classes - 1)}

    def map_for(self, parameters, n_classes):
        return nishimori.maps.Affine(parameters["scale"], np.append(parameters["biases"], 0.0))

    def features(self, logits, parameters):
        n, k = logits.shape
        return np.concatenate([logits[:, :, None], np.broadcast_to(np.eye(k)[:, :-1], (n, k, k - 1))], axis=2)

    def observables(self, logits, parameters):
        found = self.features(logits, parameters)
        found[:, :, 0] = logits == logits.max(axis=1, keepdims=True)
        return found


def test_observables_of_its_own_are_matched_instead():
    fitted = TopClass().fit(LOGITS, LABELS)

    def gaps(theta):
        p = reference.softmax(theta[0] * LOGITS + np.append(theta[1:], 0.0))
        top = LOGITS.argmax(axis=1)
        confidence = p[np.arange(1200), top].mean() - (top == LABELS).mean()
        return np.append(confidence, (p.mean(axis=0) - np.bincount(LABELS) / 1200)[:3])

    expected = root(gaps, [0.5, 0, 0, 0], tol=1e-13).x
    np.testing.assert_allclose([fitted.parameters_["scale"], *fitted.parameters_["biases"]], expected, atol=1e-8)
    assert fitted.parameters_["scale"] != pytest.approx(one_of_least_loss(), rel=1e-4)
    assert fitted.parameters_se_["biases"].shape == (3,)


def one_of_least_loss():
    return nishimori.BiasCorrected(method="ts", shrink=False).fit(LOGITS, LABELS).inverse_temperature_


def test_it_is_cloned_and_pickled(one_bias):
    fitted = one_bias(2).fit(LOGITS, LABELS)
    assert repr(clone(fitted)) == "OneBias(column=2)"
    assert pickle.loads(pickle.dumps(fitted)).parameters_ == fitted.parameters_


@pytest.mark.parametrize("kind", ["page", "arrays"])
def test_it_is_saved_and_loads_as_itself_where_it_is_registered_and_as_a_map_elsewhere(one_bias, place, kind):
    kind = one_bias if kind == "page" else TopClass
    nishimori.register("own", kind)
    fitted = nishimori.calibrator("own").fit(LOGITS, LABELS)
    fitted.save(place / "c.json")
    loaded = nishimori.load(place / "c.json")
    assert (type(loaded), loaded.method) == (kind, "own")
    for mine, theirs in ((loaded.parameters_, fitted.parameters_), (loaded.parameters_se_, fitted.parameters_se_)):
        assert mine.keys() == theirs.keys()
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])
    np.testing.assert_array_equal(loaded.predict_proba(TEST_LOGITS), fitted.predict_proba(TEST_LOGITS))
    table._registered.pop("own")
    elsewhere = nishimori.load(place / "c.json")
    assert (type(elsewhere).__name__, elsewhere.method) == ("FixedMap", "own")
    np.testing.assert_array_equal(elsewhere.predict_proba(TEST_LOGITS), fitted.predict_proba(TEST_LOGITS))


def test_a_file_without_standard_errors_says_so(one_bias, place):
    nishimori.register("own", one_bias)
    nishimori.calibrator("own").fit(LOGITS, LABELS).save(place / "c.json")
    content = json.loads((place / "c.json").read_text())
    content["provenance"]["estimates"] = None
    (place / "c.json").write_text(json.dumps(content))
    loaded = nishimori.load(place / "c.json")
    assert (loaded.parameters_, loaded.parameters_se_) == ({}, None)
    assert loaded.why_no_se_.startswith("The file from which the calibrator was loaded holds no standard errors.")


def test_it_runs_from_the_shell(one_bias, place):
    theta = least_loss(LOGITS, LABELS)
    fitted = shell.nishimori("fit val.npz -o c.json --method biases:OneBias --param column=2 --json", place=place)
    assert (fitted.code, fitted.err) == (0, "Wrote c.json\n")
    parameters = json.loads(fitted.out)["map"]["parameters"]
    np.testing.assert_allclose([parameters["scale"], parameters["bias"][2]], theta, atol=1e-6)
    measured = json.loads(shell.nishimori("eval test.npz --calibration c.json --json", place=place).out)
    assert measured["after"]["nll"] == pytest.approx(reference.nll(mapped(TEST_LOGITS, theta), TEST_LABELS), rel=1e-6)
    assert shell.nishimori("apply c.json test.npz -o p.npz", place=place).code == 0
    expected = reference.softmax(mapped(TEST_LOGITS, theta))
    np.testing.assert_allclose(np.load(place / "p.npz")["probabilities"], expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["biases:OneBias", "own"])
def test_it_calibrates_a_network(one_bias, name):
    nishimori.register("own", one_bias)
    loader = [(torch.tensor(LOGITS), torch.tensor(LABELS))]
    calibrated = nishimori_torch.calibrate(torch.nn.Identity(), loader, method=name)
    expected = one_bias().fit(LOGITS, LABELS).predict_proba(TEST_LOGITS)
    found = calibrated(torch.tensor(TEST_LOGITS)).softmax(dim=1)
    np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-5)


def test_it_can_be_compared_with_other_methods(one_bias, place):
    found = nishimori.compare(LOGITS, LABELS, TEST_LOGITS, TEST_LABELS, methods=["ts", one_bias(2)])
    assert found["biases:OneBias"].scorecard.nll < found["ts"].scorecard.nll


class Own(TopClass):
    """What is wrong with it is set by each test."""


WRONG = {
    "start of nothing": (
        "start",
        lambda self, k, T: {},
        r"^`Own.start` must return a dictionary from names to numbers, got \{\}",
    ),
    "start at infinity": ("start", lambda self, k, T: {"scale": np.inf}, "^`Own.start` must return finite numbers, got"),
    "no map": (
        "map_for",
        lambda self, parameters, k: parameters["scale"],
        r"^`Own.map_for` must return a nishimori\.Map, got 0\.",
    ),
    "shape": (
        "features",
        lambda self, logits, parameters: logits,
        r"^`Own.features` must return an array of shape \(8, 4, 4\), one number per row, class and parameter, got \(8, 4\)",
    ),
    "nan": (
        "features",
        lambda self, logits, parameters: np.full((*logits.shape, 4), np.nan),
        "^`Own.features` must be finite, got NaN",
    ),
    "error": (
        "features",
        lambda self, logits, parameters: 1 / 0,
        r"^`Own.features` raised ZeroDivisionError: division by zero\.",
    ),
    "another derivative": (
        "features",
        lambda self, logits, parameters: 2 * TopClass.features(self, logits, parameters),
        "^`Own.features` must be the derivative of what the map of `map_for` returns by each parameter",
    ),
    "observables": (
        "observables",
        lambda self, logits, parameters: logits[:, :2],
        r"^`Own.observables` must return an array of shape \(8, 4, 4\)",
    ),
}


@pytest.mark.parametrize(("name", "method", "message"), WRONG.values(), ids=WRONG)
def test_what_its_author_got_wrong_is_named(monkeypatch, name, method, message):
    monkeypatch.setattr(Own, name, method, raising=False)
    with pytest.raises(InputError, match=message):
        Own().fit(LOGITS, LABELS)


def test_parameters_with_the_same_effect_are_refused(monkeypatch):
    every = lambda self, logits, parameters: np.broadcast_to(np.eye(4), (len(logits), 4, 4)) + 0.0  # noqa: E731 - a constant has no effect
    monkeypatch.setattr(Own, "start", lambda self, k, T: {"biases": np.zeros(4)})
    monkeypatch.setattr(Own, "map_for", lambda self, parameters, k: nishimori.maps.Affine(1.0, parameters["biases"]))
    monkeypatch.setattr(Own, "features", every)
    monkeypatch.setattr(Own, "observables", every)
    with pytest.raises(NotConvergedError, match="The parameters are not determined"):
        Own().fit(LOGITS, LABELS)


REFUSED = {
    "mask": (
        lambda: TopClass().fit(np.where(LOGITS < -6, -np.inf, LOGITS), LABELS),
        r"^`X` must not have masked classes \(-inf\)",
    ),
    "sketch": (
        lambda: TopClass().fit(nishimori.Sketch().update(LOGITS, LABELS)),
        "^A Sketch keeps sums, and has no rows to read",
    ),
    "counts": (
        lambda: TopClass().fit(LOGITS, LABELS, clusters=np.arange(1200) // 2, counts=True),
        "^`counts` must be False where `clusters` is given",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_many_parameters_have_no_standard_errors_and_say_why(monkeypatch):
    monkeypatch.setattr("nishimori._calibrators.parameters._MOST_WITH_ERRORS", 3)
    fitted = TopClass().fit(LOGITS, LABELS)
    assert fitted.parameters_se_ is None
    assert fitted.why_no_se_ == "There are 4 parameters, and standard errors are computed for at most 3."


def test_large_tables_are_made_a_few_rows_at_a_time(monkeypatch):
    expected = TopClass().fit(LOGITS, LABELS).parameters_
    sizes = []
    monkeypatch.setattr("nishimori._fit.features._LARGEST_TABLE", 7 * 16)
    monkeypatch.setattr(Own, "features", lambda self, z, x: sizes.append(len(z)) or TopClass.features(self, z, x))
    found = Own().fit(LOGITS, LABELS).parameters_
    assert max(sizes[4:]) == 7  # the first four are of the check of the derivatives
    np.testing.assert_allclose(found["biases"], expected["biases"], rtol=1e-9)
