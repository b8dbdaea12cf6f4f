"""Calibrators and calibrated classifiers that skl2onnx writes give onnxruntime the numbers of scikit-learn."""

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest
import reference
from method_cases import drawn_for, n_classes_of
from optional import Absent, onnxruntime, skl2onnx
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

import nishimori
from nishimori import CalibratedClassifier
from nishimori.errors import InputError

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Attribute `prob:FutureWarning"),  # skl2onnx reads these of an SVC
]

METHODS = sorted(nishimori.methods())

LINEAR = make_pipeline(StandardScaler(), LogisticRegression())
MODELS = {
    "logistic": LogisticRegression(),
    "forest": RandomForestClassifier(10, max_depth=4, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=5, random_state=0),
    "pipeline": LINEAR,
    "search": make_pipeline(StandardScaler(), GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2)),
    "svc": SVC(),
    "sgd": make_pipeline(StandardScaler(), SGDClassifier(random_state=0)),
    "neighbours": KNeighborsClassifier(7),
    "bayes": GaussianNB(),
    "network": make_pipeline(StandardScaler(), MLPClassifier((8,), max_iter=100, random_state=0)),
    "ada": AdaBoostClassifier(n_estimators=5, random_state=0),
}
ONLY_FLOAT = {"ridge": RidgeClassifier(), "linear_svc": LinearSVC()}  # skl2onnx has no decision values of these in float64


@pytest.fixture(scope="module", autouse=True)
def _registered():
    if isinstance(skl2onnx, Absent):
        skl2onnx.skip()
    import_module("nishimori.integrations.skl2onnx")


def run(model, X, *, double=False, shape=None, **options):
    """Labels and probabilities of the ONNX file, in onnxruntime."""
    types = skl2onnx.common.data_types
    kind = types.DoubleTensorType if double else types.FloatTensorType
    written = skl2onnx.to_onnx(
        model,
        initial_types=[("X", kind(shape or [None, *X.shape[1:]]))],
        options={"zipmap": False, **options},
        target_opset={"": 21, "ai.onnx.ml": 3},
    )
    session = onnxruntime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"X": X.astype(np.float64 if double else np.float32)})


def agree(model, X, *, tolerance=1e-6, **options):
    """Compare with scikit-learn for the same features; equal probabilities may be ordered either way."""
    X = X if options.get("double") else np.asarray(X, dtype=np.float32)
    labels, probabilities = run(model, X, **options)
    expected = np.asarray(model.predict_proba(X), dtype=np.float64)
    assert probabilities.dtype == (np.float64 if options.get("double") else np.float32)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=tolerance)
    first, second = np.sort(expected, axis=1)[:, :-3:-1].T
    clear = first - second > 2 * tolerance
    assert clear.any()
    assert labels[clear].tolist() == model.predict(X)[clear].tolist()


def data(n_classes, n=400):
    X, y = make_classification(n, 6, n_informative=5, n_redundant=0, n_classes=n_classes, class_sep=1.0, random_state=1)
    return X.astype(np.float32), y


def scores_for(name, **options):
    z, y = drawn_for(name, **options)
    return np.asarray(z, dtype=np.float32), y


def fitted(name, z, y, **options):
    groups = {"groups": np.arange(len(y)) % 2} if name == "group" and options.get("by") == "groups" else {}
    return nishimori.calibrator(name, **options).fit(z, y, **groups)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_alone(name, double):
    z, y = scores_for(name)
    agree(fitted(name, z, y), z, double=double)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_of_probabilities_with_zeros(name):
    z, y = scores_for(name)
    p = reference.softmax(np.asarray(z, dtype=float))
    p[p < 1e-3] = 0
    p /= p.sum(axis=1, keepdims=True)
    agree(fitted(name, p, y, input="probabilities", floor="auto"), p, double=True)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_for_classes_of_other_frequencies(name):
    z, y = scores_for(name)
    calibrator, k = fitted(name, z, y), n_classes_of(name)
    new = np.arange(1, k + 1) / sum(range(1, k + 1))
    agree(calibrator.with_prevalence(new), z)


@pytest.mark.parametrize("name", ["ec", "platt", "beta", "quadratic", "intercept", "isotonic"])
@pytest.mark.parametrize("shape", [[None, 1], [None]])
def test_one_score_stands_for_two_classes(name, shape):
    z, y = reference.drawn(500, 2)
    flat = np.asarray(z[:, 1] - z[:, 0], dtype=np.float32)
    calibrator = fitted(name, flat, y)
    _, found = run(calibrator, flat[:, None] if len(shape) == 2 else flat, shape=shape)
    np.testing.assert_allclose(found, calibrator.predict_proba(flat), rtol=0, atol=1e-6)


def test_one_probability_stands_for_two_classes():
    z, y = reference.drawn(500, 2)
    flat = reference.softmax(np.asarray(z, dtype=float))[:, 1].astype(np.float32)
    calibrator = fitted("beta", flat, y, input="probabilities")
    _, found = run(calibrator, flat[:, None])
    np.testing.assert_allclose(found, calibrator.predict_proba(flat), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["mixture", "isotonic", "group", "ec"])
def test_masked_classes_stay_masked(name):
    z, y = scores_for(name)
    calibrator = fitted(name, z, y)
    z[np.arange(0, len(z), 3), (y[::3] + 1) % 4] = -np.inf
    agree(calibrator, z)


@pytest.mark.parametrize("ensemble", [False, "pooled", True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_classifiers(name, n_classes, ensemble):
    X, y = data(n_classes)
    model = CalibratedClassifier(MODELS[name], "bias", cv=2, ensemble=ensemble).fit(X[:300], y[:300])
    agree(model, X[300:])
    if name != "ada":  # of which skl2onnx itself writes a file that cannot be read
        agree(model, X[300:], double=True)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("name", sorted(ONLY_FLOAT))
def test_linear_classifiers_in_float32(name, n_classes):
    X, y = data(n_classes)
    agree(CalibratedClassifier(ONLY_FLOAT[name], "vector", cv=2).fit(X, y), X)


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "decision_function"])
@pytest.mark.parametrize("ensemble", [False, "pooled"])
def test_every_response_method(method, ensemble):
    X, y = data(3)
    agree(CalibratedClassifier(LINEAR, "ts", cv=2, response_method=method, ensemble=ensemble).fit(X, y), X)


def test_the_default_and_its_shift():
    X, y = data(2)
    model = CalibratedClassifier(RandomForestClassifier(20, random_state=0)).fit(X, y)
    agree(model, X)
    agree(model.with_prevalence(0.1), X)


def test_a_frozen_classifier_whose_classes_are_text():
    X, y = data(3)
    names = np.array(["cat", "dog", "eel"])[y]
    model = CalibratedClassifier(FrozenEstimator(clone(LINEAR).fit(X[:200], names[:200])), "ec").fit(X[200:], names[200:])
    agree(model, X)
    written = skl2onnx.to_onnx(model, X[:1])
    session = onnxruntime.InferenceSession(written.SerializeToString(), providers=["CPUExecutionProvider"])
    (one,) = session.run(None, {"X": X[:1]})[1]
    assert one == pytest.approx(dict(zip(names_of(model), model.predict_proba(X[:1])[0], strict=True)), abs=1e-6)
    labels, _, listed = run(model, X, output_class_labels=True)
    assert listed.tolist() == names_of(model)
    assert set(labels) <= set(names_of(model))


def names_of(model):
    return model.classes_.tolist()


def test_labels_that_are_not_counted_from_zero():
    X, y = data(2)
    agree(CalibratedClassifier(LINEAR, "platt").fit(X, 7 - 4 * y), X)
    z, labels = reference.drawn(300, 3)
    agree(fitted("ec", z, labels + 5, classes=[5, 6, 7]), z)


def test_a_sampler_of_the_pipeline_is_for_training_only():
    class Sampler:
        def fit_resample(self, X, y):
            return X, y

    X, y = data(2)
    model = CalibratedClassifier(FrozenEstimator(clone(LINEAR).fit(X, y)), "platt").fit(X, y)
    pipeline = model.estimator_.estimator
    pipeline.steps.insert(1, ("sampler", Sampler()))
    expected = model.calibrator_.predict_proba(pipeline.steps[-1][1].decision_function(pipeline.steps[0][1].transform(X)))
    np.testing.assert_allclose(run(model, X)[1], expected, rtol=0, atol=1e-6)


def test_a_temperature_per_named_group_is_refused_by_name():
    z, y = reference.drawn(600, 3)
    calibrator = fitted("group", z, y, by="groups")
    with pytest.raises(InputError, match=r"GroupConsistency .*GroupTemperatures.* has no converter, because names of groups"):
        run(calibrator, z)


def test_a_map_of_ones_own_is_refused_by_name():
    class Squeezed(nishimori.maps.Map):
        parameters = {}  # noqa: RUF012

        def apply(self, logits, groups=None):
            return np.tanh(logits)

    z, y = reference.drawn(300, 3)
    calibrator = fitted("ec", z, y)
    calibrator.map_ = Squeezed()
    with pytest.raises(InputError, match=r"Squeezed.* has no converter, because it is one of your own"):
        run(calibrator, z)


def test_decision_values_that_skl2onnx_does_not_have_are_refused_by_name():
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    X, y = data(3)
    model = CalibratedClassifier(QuadraticDiscriminantAnalysis(), "ec", cv=2).fit(X, y)
    with pytest.raises(InputError, match=r"QuadraticDiscriminantAnalysis has no decision values in ONNX.*predict_proba"):
        run(model, X)
    again = CalibratedClassifier(QuadraticDiscriminantAnalysis(), "ec", cv=2, response_method="predict_proba").fit(X, y)
    agree(again, X, tolerance=1e-5)


def test_columns_that_are_not_those_of_the_classes_are_refused():
    z, y = reference.drawn(300, 3)
    with pytest.raises(InputError, match="have 3 columns, one per class, got 4"):
        run(fitted("ec", z, y), np.zeros((2, 4)))


def test_without_skl2onnx_an_error_says_what_to_install():
    code = "import sys; sys.modules['skl2onnx'] = None; import nishimori.integrations.skl2onnx"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs skl2onnx, which is not installed. Run `pip install 'nishimori[skl2onnx]'`" in done.stderr
