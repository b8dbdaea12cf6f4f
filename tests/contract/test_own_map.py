"""A map and a calibrator written outside the package, examples/margin_temperature.py, are used wherever built-in ones are."""

import json
import pickle
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import own_code
import pytest
import reference
import shell
from optional import nishimori_torch, onnxruntime, torch
from scipy.optimize import brentq, minimize, root
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import nishimori
from nishimori.errors import FormatError, InputError, NotConvergedError
from nishimori.maps import kinds

EXAMPLE = Path(__file__).parents[2] / "examples" / "margin_temperature.py"
A, B = 0.3, 0.08


def temperatures(logits, theta):
    """T of each row, from its definition."""
    ordered = np.sort(logits, axis=1)
    return np.exp(theta[0] + theta[1] * (ordered[:, -1] - ordered[:, -2]))


def mapped(logits, theta):
    return logits / temperatures(logits, theta)[:, None]


def drawn(n, seed):
    """Logits, and labels drawn at temperatures that depend on the margin."""
    rng = np.random.default_rng(seed)
    logits = 4 * rng.normal(size=(n, 4))
    return logits, (mapped(logits, (A, B)) + rng.gumbel(size=logits.shape)).argmax(axis=1)


LOGITS, LABELS = drawn(1500, 0)
TEST_LOGITS, TEST_LABELS = drawn(700, 1)
WEIGHTS = np.random.default_rng(2).integers(0, 4, 1500)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the example as a module ``margin_temperature``, and files of logits."""
    monkeypatch.setattr(kinds, "_registered", dict(kinds._registered))
    data = (LOGITS, LABELS), (TEST_LOGITS, TEST_LABELS)
    code = EXAMPLE.read_text(encoding="utf-8")
    with own_code.module("margin_temperature", code, tmp_path, monkeypatch, *data) as folder:
        yield folder


@pytest.fixture
def module(place):
    return import_module("margin_temperature")


@pytest.fixture
def fitted(module):
    return module.MarginScaling().fit(LOGITS, LABELS)


def least_loss(logits=LOGITS, labels=LABELS, weights=None):
    """The parameters with the least cross-entropy, from its definition."""
    loss = lambda theta: reference.nll(mapped(logits, theta), labels, weights=weights)  # noqa: E731
    options = {"xatol": 1e-10, "fatol": 1e-15, "maxiter": 4000}
    return minimize(loss, [0.2, 0.0], method="Nelder-Mead", options=options).x


def row_scores(theta, logits=LOGITS, labels=LABELS):
    """The derivative of the cross-entropy of each row by each parameter, by differences."""

    def losses(theta):
        p = reference.softmax(mapped(logits, theta))
        return -np.log(p[np.arange(len(labels)), labels])

    step = 1e-5
    return np.stack([(losses(theta + d) - losses(theta - d)) / (2 * step) for d in step * np.eye(2)], axis=1)


def covariance(theta, of_units=lambda scores: scores):
    """The sandwich, with second derivatives by differences."""
    step = 1e-4
    hessian = np.stack(
        [(row_scores(theta + d) - row_scores(theta - d)).sum(axis=0) / (2 * step) for d in step * np.eye(2)], axis=1
    )
    scores, inverse = of_units(row_scores(theta)), np.linalg.inv(hessian)
    return inverse @ scores.T @ scores @ inverse.T


def found_by(calibrator):
    return np.array([calibrator.parameters_["a"], calibrator.parameters_["b"]])


def test_parameters_that_enter_non_linearly_are_those_of_the_least_loss(fitted):
    theta = least_loss()
    np.testing.assert_allclose(found_by(fitted), theta, atol=1e-6)
    assert fitted.residual_ < 1e-9
    np.testing.assert_allclose(fitted.predict_proba(TEST_LOGITS), reference.softmax(mapped(TEST_LOGITS, theta)), rtol=1e-4)
    np.testing.assert_array_equal(fitted.predict(TEST_LOGITS), TEST_LOGITS.argmax(axis=1))


def test_their_covariance_is_the_sandwich_of_rows_or_clusters(fitted, module):
    theta = least_loss()
    np.testing.assert_allclose(fitted.covariance_, covariance(theta), rtol=1e-4)
    errors = [fitted.parameters_se_["a"], fitted.parameters_se_["b"]]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(covariance(theta))), rtol=1e-4)
    in_clusters = module.MarginScaling().fit(LOGITS, LABELS, clusters=np.arange(1500) // 5)
    expected = covariance(theta, lambda scores: scores.reshape(-1, 5, 2).sum(axis=1))
    np.testing.assert_allclose(in_clusters.covariance_, expected, rtol=1e-4)
    assert abs(in_clusters.covariance_[0, 0] / fitted.covariance_[0, 0] - 1) > 1e-3


def test_weights_count_samples(module):
    weighted = module.MarginScaling().fit(LOGITS, LABELS, WEIGHTS, counts=True)
    copies = module.MarginScaling().fit(np.repeat(LOGITS, WEIGHTS, axis=0), np.repeat(LABELS, WEIGHTS))
    np.testing.assert_allclose(found_by(weighted), least_loss(weights=WEIGHTS), atol=1e-6)
    np.testing.assert_allclose(found_by(weighted), found_by(copies), rtol=1e-8)
    np.testing.assert_allclose(weighted.covariance_, copies.covariance_, rtol=1e-7)


def test_batches_and_files_give_the_same_as_arrays(module, place, fitted):
    np.save(place / "logits.npy", LOGITS)
    parts = [(LOGITS[start : start + 400], LABELS[start : start + 400]) for start in range(0, 1500, 400)]
    for data in (nishimori.rows(place / "logits.npy", LABELS), nishimori.rows(lambda: iter(parts))):
        found = module.MarginScaling().fit(data)
        np.testing.assert_allclose(found_by(found), found_by(fitted), rtol=1e-8)
        np.testing.assert_allclose(found.covariance_, fitted.covariance_, rtol=1e-6)


def given_features(module):
    """The same calibrator with its derivative written out: u = z·exp(-a - b·m), so ∂u/∂a = -u and ∂u/∂b = -m·u."""

    class Given(module.MarginScaling):
        def features(self, logits, parameters):
            u = mapped(logits, (parameters["a"], parameters["b"]))
            ordered = np.sort(logits, axis=1)
            return -np.stack([u, (ordered[:, -1] - ordered[:, -2])[:, None] * u], axis=2)

    return Given


def test_a_derivative_that_is_written_out_gives_the_same_as_differences(module, fitted):
    found = given_features(module)().fit(LOGITS, LABELS)
    np.testing.assert_allclose(found_by(found), found_by(fitted), rtol=1e-9)
    np.testing.assert_allclose(found.covariance_, fitted.covariance_, rtol=1e-5)
    u = module.MarginScaling().features(LOGITS[:20], {"a": 0.2, "b": 0.05})
    np.testing.assert_allclose(u, centred(given_features(module)().features(LOGITS[:20], {"a": 0.2, "b": 0.05})), atol=1e-7)


def centred(table):
    """Without the mean of each row, which changes no probability."""
    return table - table.mean(axis=1, keepdims=True)


def test_a_wrong_derivative_of_a_non_linear_map_is_refused(module):
    class Wrong(given_features(module)):
        def features(self, logits, parameters):
            return super().features(logits, {**parameters, "a": parameters["a"] + 0.01})

    with pytest.raises(InputError, match=r"^`Wrong.features` must be the derivative of what the map of `map_for` returns"):
        Wrong().fit(LOGITS, LABELS)


def test_conditions_of_its_own_are_matched_with_a_non_linear_map(module):
    class Consistent(module.MarginScaling):
        """Mean confidence equals accuracy, and so do the means of confidence and right answers times the margin."""

        def observables(self, logits, parameters):
            ordered = np.sort(logits, axis=1)
            top = (logits == ordered[:, -1:]).astype(float)
            return np.stack([top, (ordered[:, -1] - ordered[:, -2])[:, None] * top], axis=2)

    def gaps(theta):
        p, top = reference.softmax(mapped(LOGITS, theta)), LOGITS.argmax(axis=1)
        ordered = np.sort(LOGITS, axis=1)
        gap = p[np.arange(1500), top] - (top == LABELS)
        return [gap.mean(), ((ordered[:, -1] - ordered[:, -2]) * gap).mean()]

    found = Consistent().fit(LOGITS, LABELS)
    np.testing.assert_allclose(found_by(found), root(gaps, [0.2, 0.0], tol=1e-13).x, atol=1e-8)
    assert not np.allclose(found_by(found), least_loss(), rtol=1e-3)


class Linear(nishimori.Map):
    """T = a + b·margin, which refuses a temperature that is not positive."""

    keeps_predictions = True

    def __init__(self, a, b):
        self.a, self.b = a, b

    def apply(self, logits, groups=None):
        ordered = np.sort(logits, axis=1)
        T = self.a + self.b * (ordered[:, -1:] - ordered[:, -2:-1])
        if (T <= 0).any():
            raise ValueError("T must be positive")
        return logits / T

    @property
    def parameters(self):
        return {"a": self.a, "b": self.b}


class LinearScaling(nishimori.calibrators.SeveralParameters):
    """The same fitted, from a start that is far away."""

    def __init__(self, first=0.05, *, input="logits", classes=None, floor=None):
        self.first, self.input, self.classes, self.floor = first, input, classes, floor

    def start(self, n_classes, temperature):
        return {"a": self.first * temperature, "b": 0.0}

    def map_for(self, parameters, n_classes):
        return Linear(**parameters)


@pytest.mark.parametrize("first", [0.3, 1.0, 3.0])
def test_a_search_far_from_the_answer_avoids_parameters_that_the_map_refuses(first):
    def loss(theta):
        ordered = np.sort(LOGITS, axis=1)
        T = theta[0] + theta[1] * (ordered[:, -1] - ordered[:, -2])
        return reference.nll(LOGITS / T[:, None], LABELS) if (T > 0).all() else np.inf

    expected = minimize(loss, [1.4, 0.1], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-15, "maxiter": 4000}).x
    np.testing.assert_allclose(found_by(LinearScaling(first).fit(LOGITS, LABELS)), expected, rtol=1e-5)


class Circle(nishimori.Map):
    """The biases of two classes lie on a circle, on which the cross-entropy has one minimum and one maximum."""

    def __init__(self, a):
        self.a = a

    def apply(self, logits, groups=None):
        return logits / 2 + np.array([np.cos(self.a), np.sin(self.a), 0, 0])

    @property
    def parameters(self):
        return {"a": self.a}


class OnCircle(LinearScaling):
    def start(self, n_classes, temperature):
        return {"a": self.first}

    def map_for(self, parameters, n_classes):
        return Circle(**parameters)


def test_a_search_that_starts_at_a_maximum_of_the_loss_is_refused_and_one_beside_it_finds_the_minimum():
    labels = (LOGITS / 2 + [1, 0, 0, 0] + np.random.default_rng(5).gumbel(size=LOGITS.shape)).argmax(axis=1)

    def slope(a):
        p = reference.softmax(LOGITS / 2 + np.array([np.cos(a), np.sin(a), 0, 0]))
        return np.array([-np.sin(a), np.cos(a)]) @ (p.mean(axis=0) - np.bincount(labels) / 1500)[:2]

    highest, lowest = brentq(slope, 2.0, 4.5, xtol=1e-15), brentq(slope, -1.0, 1.0, xtol=1e-15)
    with pytest.raises(NotConvergedError, match="where the cross-entropy is not at a minimum"):
        OnCircle(highest).fit(LOGITS, labels)
    found = OnCircle(highest + 0.3).fit(LOGITS, labels).parameters_["a"]
    assert np.cos(found - lowest) == pytest.approx(1, abs=1e-12)


def test_it_is_cloned_and_pickled(fitted):
    assert repr(clone(fitted)) == "MarginScaling()"
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(TEST_LOGITS), fitted.predict_proba(TEST_LOGITS))


def test_it_is_saved_and_loaded(fitted, place):
    fitted.save(place / "c.json")
    content = json.loads((place / "c.json").read_text())
    assert content["map"] == {
        "kind": "margin_temperature",
        "parameters": fitted.parameters_,
        "class": "margin_temperature:MarginTemperature",
    }
    loaded = nishimori.load(place / "c.json")
    assert (type(loaded).__name__, loaded.method, loaded.parameters_) == ("MarginScaling", "margin", fitted.parameters_)
    assert loaded.parameters_se_ == fitted.parameters_se_
    np.testing.assert_array_equal(loaded.predict_proba(TEST_LOGITS), fitted.predict_proba(TEST_LOGITS))


def in_own_process(code, place):
    return subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=False)


def test_a_process_that_does_not_know_the_map_is_told_what_to_import_and_imports_nothing_by_itself(fitted, place):
    fitted.save(place / "c.json")
    there = in_own_process("import nishimori; nishimori.load('c.json')", place)
    assert there.stderr.strip().splitlines()[-1] == (
        "nishimori.errors.FormatError: c.json holds a map of the kind 'margin_temperature' (it is the class "
        "margin_temperature:MarginTemperature), which is not registered here. Import the module that calls "
        "`nishimori.register` for it, and load the file again. In the shell, pass --import MODULE before the command."
    )
    code = "import sys, nishimori\ntry: nishimori.load('c.json')\nexcept ValueError: print('margin_temperature' in sys.modules)"
    assert in_own_process(code, place).stdout == "False\n"
    code = "import nishimori, margin_temperature; print(nishimori.load('c.json').map_.parameters)"
    assert in_own_process(code, place).stdout == f"{fitted.parameters_}\n"


def test_an_installed_package_adds_the_map_to_every_process(fitted, place):
    fitted.save(place / "c.json")
    info = place / "margins-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: margins\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nishimori.maps]\nmargin_temperature = margin_temperature:MarginTemperature\n")
    there = in_own_process("import nishimori; print(nishimori.load('c.json').map_.parameters)", place)
    assert there.stdout == f"{fitted.parameters_}\n", there.stderr
    (info / "entry_points.txt").write_text("[nishimori.maps]\nmargin_temperature = no_such_module:Map\n")
    there = in_own_process("import nishimori; nishimori.load('c.json')", place)
    assert "The map 'margin_temperature' cannot be imported from no_such_module:Map: ModuleNotFoundError" in there.stderr


def test_it_is_evaluated_and_compared_under_names_of_ones_own(fitted, module):
    theta = least_loss()
    card = nishimori.evaluate(TEST_LOGITS, TEST_LABELS, calibrator=fitted)
    expected = reference.nll(mapped(TEST_LOGITS, theta), TEST_LABELS)
    assert card.nll == pytest.approx(expected, rel=1e-6)
    found = nishimori.compare(
        LOGITS,
        LABELS,
        TEST_LOGITS,
        TEST_LABELS,
        methods={"one": "ts", "by margin": module.MarginScaling(), "by name": "margin"},
    )
    assert found["by margin"].scorecard.nll == pytest.approx(expected, rel=1e-6)
    assert found["by name"].scorecard.nll == found["by margin"].scorecard.nll < found["one"].scorecard.nll
    assert [each.method for each in found] == ["one", "by margin", "by name"]


def test_it_calibrates_a_classifier(module):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 6))
    y = (X[:, :3] * 2 + rng.gumbel(size=(900, 3))).argmax(axis=1)
    model = LogisticRegression().fit(X[:400, :3], y[:400])
    wrapped = nishimori.CalibratedClassifier(LogisticRegression(), calibrator=module.MarginScaling(), cv=3)
    assert np.allclose(wrapped.fit(X[:, :3], y).predict_proba(X[:, :3]).sum(axis=1), 1)
    prefit = nishimori.CalibratedClassifier(FrozenEstimator(model), calibrator="margin").fit(X[400:, :3], y[400:])
    scores = model.decision_function(X[400:, :3])
    theta = least_loss(scores, y[400:])
    np.testing.assert_allclose(prefit.predict_proba(X[400:, :3]), reference.softmax(mapped(scores, theta)), atol=1e-5)


def test_it_is_fitted_again_to_resamples_whose_spread_is_that_of_its_standard_errors(fitted, module):
    # The spread of 40 draws has a standard error of 11 %.
    found = nishimori.bootstrap(LOGITS, LABELS, method=module.MarginScaling(), n_draws=40)
    assert found.parameters == pytest.approx(fitted.parameters_, rel=1e-9)
    assert found.errors == pytest.approx(fitted.parameters_se_, rel=0.3)
    low, high = found.interval(0.95, "b")
    assert low < B < high
    by_name = nishimori.bootstrap(LOGITS, LABELS, method="margin", n_draws=10)
    np.testing.assert_array_equal(by_name.draws["b"], found.draws["b"][:10])


def test_a_state_dict_brings_the_map_whatever_the_network_had(module, fitted):
    calibrated = nishimori_torch.Calibrated(torch.nn.Identity(), fitted)
    x = torch.tensor(TEST_LOGITS)
    expected = calibrated(x).numpy()
    state = calibrated.state_dict()
    calibrated.load_state_dict(state)
    other = nishimori_torch.Calibrated(torch.nn.Identity(), module.MarginTemperature(0.25, 0.0))
    other.load_state_dict(state)
    for each in (calibrated, other):
        np.testing.assert_array_equal(each(x).numpy(), expected)
    affine = nishimori_torch.Calibrated(torch.nn.Identity(), nishimori.calibrator("bias").fit(LOGITS, LABELS))
    affine.load_state_dict(state)
    np.testing.assert_array_equal(affine(x).numpy(), expected)


@pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("method", ["margin", "margin_temperature:MarginScaling", "object"])
def test_it_calibrates_a_network_which_is_traced_and_exported(module, fitted, method):
    loader = [(torch.tensor(LOGITS), torch.tensor(LABELS))]
    given = module.MarginScaling() if method == "object" else method
    calibrated = nishimori_torch.calibrate(torch.nn.Identity(), loader, method=given)
    x = torch.tensor(TEST_LOGITS)
    expected = reference.softmax(mapped(TEST_LOGITS, least_loss()))
    np.testing.assert_allclose(calibrated.predict_proba(x).numpy(), expected, atol=1e-5)
    assert calibrated.predict(x).tolist() == TEST_LOGITS.argmax(axis=1).tolist()
    traced = torch.jit.trace(calibrated, x[:5])
    exported = torch.export.export(calibrated, (x[:5],), dynamic_shapes=({0: torch.export.Dim("n")},)).module()
    for each in (traced, exported):
        np.testing.assert_allclose(each(x).softmax(dim=1).numpy(), expected, atol=1e-5)


def test_it_is_in_an_onnx_file(module, fitted, place):
    network = torch.nn.Linear(5, 4)
    x = torch.randn(9, 5)
    to_onnx = nishimori_torch.to_onnx
    to_onnx(nishimori_torch.Calibrated(network, fitted), x[:3], place / "network.onnx", output="probabilities")
    session = onnxruntime.InferenceSession(place / "network.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    logits = network(x).detach().double().numpy()
    np.testing.assert_allclose(found, reference.softmax(mapped(logits, found_by(fitted))), atol=1e-5)


def test_its_parameters_travel_with_the_weights_of_a_network(module, fitted):
    network = torch.nn.Linear(5, 4)
    calibrated = nishimori_torch.Calibrated(network, fitted)
    other = nishimori_torch.Calibrated(torch.nn.Linear(5, 4))
    other.load_state_dict(calibrated.state_dict())
    x = torch.randn(3, 2, 5)  # sequences of positions
    assert torch.equal(other(x), calibrated(x))
    assert other.map.parameters == fitted.map_.parameters
    plain = mapped(network(x).detach().double().numpy().reshape(-1, 4), found_by(fitted))
    np.testing.assert_allclose(calibrated(x).detach().numpy().reshape(-1, 4), plain, rtol=1e-4, atol=1e-6)
    assert "Map(kind='margin_temperature')" in repr(calibrated)
    kinds._registered.pop("margin_temperature")
    with pytest.raises(
        InputError, match="The state dict holds a map of the kind 'margin_temperature', which is not registered"
    ):
        nishimori_torch.Calibrated(torch.nn.Linear(5, 4)).load_state_dict(calibrated.state_dict())


def test_it_runs_in_every_command_of_the_shell(module, place):
    theta = least_loss()
    expected = reference.nll(mapped(TEST_LOGITS, theta), TEST_LABELS)
    run = lambda words: shell.nishimori(words, place=place)  # noqa: E731
    fit = run("fit val.npz -o c.json --method margin_temperature:MarginScaling")
    assert (fit.code, fit.err) == (0, "Wrote c.json\n")
    assert fit.out.startswith("a 0.")
    assert fit.out.endswith("(margin, 1500 samples)\n")
    assert run("apply c.json test.npz -o p.npz").code == 0
    np.testing.assert_allclose(
        np.load(place / "p.npz")["probabilities"], reference.softmax(mapped(TEST_LOGITS, theta)), rtol=1e-4
    )
    measured = json.loads(run("eval test.npz --calibration c.json --json").out)
    assert measured["after"]["nll"] == pytest.approx(expected, rel=1e-6)
    compared = json.loads(run("compare val.npz test.npz --methods none,margin_temperature:MarginScaling --json").out)
    assert compared["methods"][1]["nll"] == pytest.approx(expected, rel=1e-6)
    assert run("gate test.npz --calibration c.json --bound nll=9").code == 0
    told = run("report val.npz test.npz --methods vector,margin_temperature:MarginScaling --json")
    rows = {each["title"]: each for each in json.loads(told.out)["methods"]}
    assert rows["margin"]["nll"] == pytest.approx(expected, rel=1e-6)
    assert {"No calibration", "Vector scaling (vector)"} < rows.keys()


def test_it_is_in_the_tables_of_the_report(fitted, module):
    theta = least_loss()
    methods = {"by margin": module.MarginScaling(), "with two temperatures": "group", "T = 2": 2.0}
    report = nishimori.Report(LOGITS, LABELS, TEST_LOGITS, TEST_LABELS, methods=methods)
    rows = {each["title"]: each for each in report.to_dict()["methods"]}
    assert rows["by margin"]["nll"] == pytest.approx(reference.nll(mapped(TEST_LOGITS, theta), TEST_LABELS), rel=1e-6)
    assert rows["T = 2"]["nll"] == pytest.approx(reference.nll(TEST_LOGITS, TEST_LABELS, 2.0), rel=1e-9)
    assert "| by margin | several |" in report.to_markdown()
    assert "by margin" in report.to_html()
    again = nishimori.Report.from_dict(json.loads(report.to_json()))
    assert again.to_markdown() == report.to_markdown()
    listed = nishimori.Report(LOGITS, LABELS, methods=("none", "ts", fitted)).to_dict()["methods"]
    assert [each["method"] for each in listed][-1] == "margin"
    with pytest.raises(
        InputError, match=r"^`methods` must have names that differ from all other methods of the page, got 'ts'"
    ):
        nishimori.Report(LOGITS, LABELS, methods={"ts": fitted})


@pytest.mark.parametrize(
    "words",
    [
        "fit val.npz -o c.json --method margin_temperature:MarginScaling",
        "compare val.npz test.npz --methods none,margin_temperature:MarginScaling",
        "--import margin_temperature compare val.npz test.npz --methods none,margin",
        "--import margin_temperature eval test.npz --calibration saved.json",
        "--import margin_temperature apply saved.json test.npz -o p.npz",
        "--import margin_temperature gate test.npz --calibration saved.json --bound nll=9",
    ],
)
def test_the_shell_finds_modules_in_the_current_folder_in_a_process_of_its_own(fitted, place, words):
    fitted.save(place / "saved.json")
    line = [sys.executable, "-P", "-m", "nishimori", *words.split()]  # without the current folder on the path
    done = subprocess.run(line, cwd=place, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_shell_says_what_is_wrong_with_an_import(fitted, place):
    fitted.save(place / "c.json")
    (place / "broken.py").write_text("raise RuntimeError('not today')")
    told = shell.nishimori("--import broken methods", place=place).err
    assert "--import must name a module, got broken: RuntimeError: not today" in told
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(place / "c.json", elsewhere)
    line = [sys.executable, "-m", "nishimori", "apply", "c.json", str(place / "test.npz"), "-o", "p.npz"]
    done = subprocess.run(line, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pass --import MODULE before the" in done.stderr
    assert shell.nishimori("--import json").code == 2  # a command must follow


def own_map(**members):
    def apply(self, logits, groups=None):
        return logits * self.scale

    def set_scale(self, scale=2.0):
        self.scale = scale

    usual = {"__init__": set_scale, "apply": apply, "parameters": property(lambda self: {"scale": self.scale})}
    return type("Own", (nishimori.Map,), usual | members)


REFUSED_CLASSES = {
    "taken by the library": (
        "temperature",
        own_map(),
        "^`kind` must be new, got 'temperature', which is the kind of Temperature",
    ),
    "not a word": ("two words", own_map(), "^`kind` must be a word of letters, digits, _ and -, got 'two words'"),
    "not a class": ("own", own_map()(), r"^`cls` must be a subclass of nishimori\.Map, got .* Pass the class: `Own`\."),
    "another class": ("own", dict, r"^`target` must be an observable, a metric, or a subclass of .* nishimori\.Map, got"),
    "abstract": ("own", type("Half", (nishimori.Map,), {}), "^`cls` must have all methods .* Half without apply, parameters"),
    "another kind": ("own", own_map(kind="mine"), "^`kind` must be that of the class Own, 'mine', got 'own'"),
}


@pytest.mark.parametrize(("kind", "cls", "message"), REFUSED_CLASSES.values(), ids=REFUSED_CLASSES)
def test_a_class_that_cannot_be_registered_is_refused(place, kind, cls, message):
    with pytest.raises(InputError, match=message):
        nishimori.register(kind, cls)


def test_a_kind_is_taken_by_the_first_class(place):
    nishimori.register("mine", own_map())
    nishimori.register("mine", own_map())  # the same class again, as where a notebook's cell is run twice
    with pytest.raises(InputError, match=r"^`kind` must be new, got 'mine', which is the kind of Own\. Choose another name\."):
        nishimori.register("mine", type("Other", (own_map(),), {}))


def forgets(self):
    return {}


REFUSED_PARAMETERS = {
    "arrays": (
        {"parameters": property(lambda self: {"scale": np.float32(2)})},
        "^`Own.parameters` must hold finite numbers, texts and lists of them by name, got .* Call `tolist",
    ),
    "infinite": ({"parameters": property(lambda self: {"scale": np.inf})}, "^`Own.parameters` must hold finite numbers"),
    "unknown": (
        {"parameters": property(lambda self: {"size": 1.0})},
        "^`Own.parameters` must be keyword arguments of the constructor of Own, got TypeError",
    ),
    "changed": (
        {"parameters": property(lambda self: {"scale": self.scale + 1})},
        r"^`Own.parameters` must give the same map again, got \{'scale': 4\.0\}, from which Own makes a map with",
    ),
    "forgotten": ({"parameters": property(forgets)}, "^`Own.parameters` must hold everything that the map depends on"),
}


@pytest.mark.parametrize(("members", "message"), REFUSED_PARAMETERS.values(), ids=REFUSED_PARAMETERS)
def test_parameters_that_do_not_give_the_map_again_are_refused_when_it_is_saved(place, members, message):
    cls = own_map(**members)
    nishimori.register("mine", cls)
    calibrator = nishimori.calibrators.FixedMap(cls(3.0)).fit(LOGITS, LABELS)
    with pytest.raises(InputError, match=message):
        calibrator.save(place / "c.json")
    assert not (place / "c.json").exists()


def test_a_file_with_parameters_that_the_class_refuses_is_damaged(fitted, place):
    fitted.save(place / "c.json")
    content = json.loads((place / "c.json").read_text())
    content["map"]["parameters"] = {"a": 1.0}
    (place / "c.json").write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"c\.json is damaged: map must be a map with valid parameters, got \{"):
        nishimori.load(place / "c.json")


def test_what_a_registered_map_claims_is_checked(place):
    cls = own_map(keeps_predictions=True, apply=lambda self, logits, groups=None: -logits)
    nishimori.register("mine", cls)
    with pytest.raises(InputError, match=r"^A map of the class Own claims `keeps_predictions = True`, but it changes"):
        nishimori.calibrators.FixedMap(cls()).fit(LOGITS, LABELS)
    few = own_map(n_classes=property(lambda self: 3))
    with pytest.raises(InputError, match=r"^`X` must have 3 classes, as the map has, got 4"):
        nishimori.calibrators.FixedMap(few()).fit(LOGITS, LABELS)
