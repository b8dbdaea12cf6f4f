"""Any array goes in, the same kind of array comes out, and what went in stays as it was."""

import os
import subprocess
import sys

import numpy as np
import pytest
import reference
from optional import cast, jax, jnp, ml_dtypes, pd, torch
from sklearn.base import clone

from nishimori import ExpectationConsistency, TemperatureScaling, from_temperature, metrics, temperatures

LOGITS, LABELS = reference.drawn(400, 4)
EC = reference.ec_temperature(LOGITS, LABELS)


def fitted_temperature(logits, labels=LABELS, **parameters):
    return ExpectationConsistency(**parameters).fit(logits, labels).temperature_


def on_disk(tmp_path):
    np.save(tmp_path / "logits.npy", LOGITS)
    return np.load(tmp_path / "logits.npy", mmap_mode="r")


def read_only():
    logits = LOGITS.copy()
    logits.setflags(write=False)
    return logits


# Each holds the same float64 values.
SAME = {
    "column major": lambda tmp_path: np.asfortranarray(LOGITS),
    "a view with gaps": lambda tmp_path: np.repeat(np.repeat(LOGITS, 2, axis=0), 3, axis=1)[::2, ::3],
    "a view backwards": lambda tmp_path: LOGITS[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": lambda tmp_path: read_only(),
    "big-endian": lambda tmp_path: LOGITS.astype(">f8"),
    "memory-mapped": on_disk,
    "objects": lambda tmp_path: LOGITS.astype(object),
    "nested lists": lambda tmp_path: LOGITS.tolist(),
    "a tuple of rows": lambda tmp_path: tuple(LOGITS),
    "a matrix": lambda tmp_path: np.asmatrix(LOGITS),
    "a masked array that hides nothing": lambda tmp_path: np.ma.masked_array(LOGITS),
    "pandas": lambda tmp_path: pd.DataFrame(LOGITS),
    "pandas with names": lambda tmp_path: pd.DataFrame(LOGITS, columns=list("abcd")),
    "pandas nullable": lambda tmp_path: pd.DataFrame(LOGITS).astype("Float64"),
    "torch": lambda tmp_path: torch.from_numpy(LOGITS),
    "torch with a gradient": lambda tmp_path: torch.from_numpy(LOGITS.copy()).requires_grad_(),
    "a torch parameter": lambda tmp_path: torch.nn.Parameter(torch.from_numpy(LOGITS.copy())),
    "torch with gaps": lambda tmp_path: torch.from_numpy(np.repeat(LOGITS, 2, axis=1))[:, ::2],
    "a list of tensors": lambda tmp_path: list(torch.from_numpy(LOGITS)),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("make", SAME.values(), ids=SAME)
def test_the_same_values_in_any_array_give_the_same_temperature_and_probabilities(make, tmp_path):
    logits = make(tmp_path)
    calibrator = ExpectationConsistency().fit(logits, LABELS)
    assert calibrator.temperature_ == pytest.approx(EC, rel=1e-8)
    np.testing.assert_allclose(calibrator.predict_proba(logits), reference.softmax(LOGITS, EC), rtol=1e-7)
    np.testing.assert_allclose(calibrator.transform(logits), LOGITS / EC, rtol=1e-7)
    assert np.array_equal(np.asarray(calibrator.predict(logits)), LOGITS.argmax(axis=1))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.bool_])
def test_whole_number_logits_compute_in_float64(dtype):
    logits = np.clip(np.round(LOGITS), 0, 9).astype(dtype)
    calibrator = TemperatureScaling(input="logits").fit(logits, LABELS)
    assert calibrator.temperature_ == pytest.approx(reference.ts_temperature(logits, LABELS), rel=1e-8)
    assert calibrator.predict_proba(logits).dtype == calibrator.transform(logits).dtype == np.float64


LIBRARIES = {
    "numpy float64": (LOGITS, 1e-12),
    "numpy float32": (LOGITS.astype(np.float32), 1e-5),
    "numpy float16": (LOGITS.astype(np.float16), 2e-2),
    "numpy bfloat16": (cast(LOGITS, ml_dtypes.bfloat16), 2e-1),
    "torch float64": (torch.from_numpy(LOGITS), 1e-12),
    "torch float32": (torch.from_numpy(LOGITS).float(), 1e-5),
    "torch float16": (torch.from_numpy(LOGITS).half(), 2e-2),
    "torch bfloat16": (torch.from_numpy(LOGITS).bfloat16(), 2e-1),
    "jax float32": (jnp.asarray(LOGITS, jnp.float32), 1e-5),
    "jax float16": (jnp.asarray(LOGITS, jnp.float16), 2e-2),
    "jax bfloat16": (jnp.asarray(LOGITS, jnp.bfloat16), 2e-1),
}


def as_float64(x):
    return x.double().numpy() if isinstance(x, torch.Tensor) else np.asarray(x).astype(np.float64)


@pytest.mark.parametrize(("logits", "tolerance"), LIBRARIES.values(), ids=LIBRARIES)
def test_results_come_back_in_the_library_dtype_and_device_of_the_logits(logits, tolerance):
    calibrator = from_temperature(2.0)
    p = reference.softmax(LOGITS, 2.0)
    for result, expected in (
        (calibrator.predict_proba(logits), p),
        (calibrator.predict_log_proba(logits), np.log(p)),
        (calibrator.transform(logits), LOGITS / 2),
    ):
        assert type(result) is type(logits)
        assert result.dtype == logits.dtype
        assert str(result.device) == str(logits.device)
        np.testing.assert_allclose(as_float64(result), expected, rtol=tolerance, atol=tolerance)
    predicted = calibrator.predict(logits)
    assert type(predicted) is type(logits)
    assert np.array_equal(np.asarray(predicted), as_float64(logits).argmax(axis=1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_computed_in_float32_and_rounded_once(dtype):
    logits = torch.from_numpy(LOGITS).to(dtype)
    single = from_temperature(1.7).predict_proba(logits.float())
    assert torch.equal(from_temperature(1.7).predict_proba(logits), single.to(dtype))


@pytest.mark.parametrize("logits", [LOGITS.tolist(), pd.DataFrame(LOGITS)], ids=["lists", "pandas"])
def test_lists_and_pandas_give_numpy(logits):
    calibrator = from_temperature(2.0)
    assert type(calibrator.predict_proba(logits)) is type(calibrator.transform(logits)) is np.ndarray


def test_named_classes_are_predicted_as_numpy_whatever_the_library():
    names = np.array(["ant", "bee", "cat", "dog"])
    predicted = from_temperature(2.0, classes=names.tolist()).predict(torch.from_numpy(LOGITS))
    assert np.array_equal(predicted, names[LOGITS.argmax(axis=1)])


def test_log_probabilities_stay_exact_where_probabilities_vanish():
    logits = np.array([[1000.0, 0.0, -np.inf]])
    assert from_temperature(1.0).predict_log_proba(logits).tolist() == [[0.0, -1000.0, -np.inf]]
    assert from_temperature(1.0).predict_proba(logits).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.filterwarnings("ignore::nishimori.errors.InputWarning")  # of zeros
@pytest.mark.parametrize("input", ["logits", "probabilities"])
@pytest.mark.parametrize("library", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_nothing_that_is_passed_is_modified(library, input):
    scores = LOGITS if input == "logits" else np.where(reference.softmax(LOGITS) < 0.1, 0.0, reference.softmax(LOGITS))
    scores = scores if input == "logits" else scores / scores.sum(axis=1, keepdims=True)
    passed = [library(scores), library(LABELS), library(np.arange(400.0))]
    kept = [np.asarray(each).copy() for each in passed]
    calibrator = TemperatureScaling(input=input).fit(*passed)
    calibrator.predict_proba(passed[0]), calibrator.predict(passed[0]), calibrator.transform(passed[0])
    temperatures(passed[0], passed[1], sample_weight=passed[2], input=input)
    assert all(np.array_equal(np.asarray(now), before) for now, before in zip(passed, kept, strict=True))


LABELS_AS = {
    **{str(np.dtype(t)): LABELS.astype(t) for t in "bhilBHILefd"},
    "big-endian": LABELS.astype(">i4"),
    "bfloat16": cast(LABELS, ml_dtypes.bfloat16),
    "objects": LABELS.astype(object),
    "list": LABELS.tolist(),
    "list of floats": LABELS.astype(float).tolist(),
    "pandas": pd.Series(LABELS, index=np.arange(400)[::-1]),
    "pandas nullable": pd.Series(LABELS, dtype="Int64"),
    "torch int32": torch.from_numpy(LABELS).int(),
    "torch uint8": torch.from_numpy(LABELS).byte(),
    "torch bfloat16": torch.from_numpy(LABELS).bfloat16(),
    "jax": jnp.asarray(LABELS),
}


@pytest.mark.parametrize("labels", LABELS_AS.values(), ids=LABELS_AS)
@pytest.mark.parametrize("logits", [LOGITS, torch.from_numpy(LOGITS)], ids=["numpy", "torch"])
def test_labels_of_any_library_and_type_mean_the_same(logits, labels):
    assert fitted_temperature(logits, labels) == pytest.approx(EC, rel=1e-8)


@pytest.mark.parametrize(
    "library", [np.asarray, torch.from_numpy, jnp.asarray, pd.Series], ids=["numpy", "torch", "jax", "pandas"]
)
def test_booleans_are_the_classes_0_and_1(library):
    logits, labels = reference.drawn(300, 2)
    expected = reference.ec_temperature(logits, labels)
    assert fitted_temperature(logits, library(labels.astype(bool))) == pytest.approx(expected, rel=1e-8)


MIXED = [1, "two", 3.5, False]
NAMED = {
    "a list of text": (list("dbca"), np.array(list("dbca"))[LABELS].tolist()),
    "numpy text": (np.array(list("dbca")), np.array(list("dbca"))[LABELS]),
    "pandas text": (pd.Index(list("dbca")), pd.Series(np.array(list("dbca"))[LABELS])),
    "pandas categories": (list("dbca"), pd.Series(pd.Categorical(np.array(list("dbca"))[LABELS]))),
    "other integers": ([30, 10, 20, 0], np.array([30, 10, 20, 0])[LABELS]),
    "torch integers": (torch.tensor([30, 10, 20, 0]), torch.tensor([30, 10, 20, 0])[LABELS]),
    "integers as floats": ([30, 10, 20, 0], np.array([30.0, 10.0, 20.0, 0.0])[LABELS]),
    "mixed objects": (MIXED, np.array(MIXED, dtype=object)[LABELS]),
    "a mixed list": (MIXED, [MIXED[i] for i in LABELS]),
}


@pytest.mark.parametrize(("classes", "labels"), NAMED.values(), ids=NAMED)
def test_any_labels_work_with_classes_in_the_order_of_the_columns(classes, labels):
    assert fitted_temperature(LOGITS, labels, classes=classes) == pytest.approx(EC, rel=1e-8)


@pytest.mark.parametrize("library", [np.asarray, np.ndarray.tolist, pd.Series, torch.from_numpy, jnp.asarray])
def test_weights_of_any_library_mean_the_same(library):
    weights = np.arange(400) % 5
    found = ExpectationConsistency().fit(LOGITS, LABELS, library(weights)).temperature_
    assert found == pytest.approx(reference.ec_temperature(LOGITS, LABELS, weights), rel=1e-8)


def test_jax_with_float64_keeps_it_and_agrees():
    pytest.importorskip("jax")
    program = (
        "import jax.numpy as jnp, numpy as np, reference; from nishimori import temperatures, from_temperature;"
        "z, y = reference.drawn(400, 4); zj = jnp.asarray(z); assert zj.dtype == jnp.float64;"
        "f = temperatures(zj, jnp.asarray(y));"
        "np.testing.assert_allclose([f.ec, f.ts], [reference.ec_temperature(z, y), reference.ts_temperature(z, y)], rtol=1e-8);"
        "p = from_temperature(2.0).predict_proba(zj); assert p.dtype == jnp.float64;"
        "np.testing.assert_allclose(p, reference.softmax(z, 2.0), rtol=1e-12)"
    )
    tests = os.path.dirname(reference.__file__)
    environment = os.environ | {"JAX_ENABLE_X64": "1", "PYTHONPATH": tests}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert not jax.config.jax_enable_x64


def test_nothing_beyond_the_array_api_standard_is_asked_of_a_library():
    strict = pytest.importorskip("array_api_strict")
    logits, labels = reference.drawn(500, 4)
    masked = np.where(np.arange(4) == 3, -np.inf, logits)
    for dtype, table in [(strict.float64, logits), (strict.float32, logits), (strict.float64, masked)]:
        X, y = strict.asarray(table, dtype=dtype), strict.asarray(np.minimum(labels, 2))
        stored = np.asarray(table, dtype=dtype._np_dtype)
        for calibrator in (ExpectationConsistency(top_n=2), TemperatureScaling()):
            mine = calibrator.fit(X, y)
            p = mine.predict_proba(X)
            assert p.dtype == dtype
            assert mine.temperature_ == pytest.approx(clone(calibrator).fit(stored, np.asarray(y)).temperature_, rel=1e-9)
            np.testing.assert_allclose(np.asarray(p), reference.softmax(table, mine.temperature_), atol=1e-6)
        for of in ("top", "classwise"):
            ece = metrics.ece(stored, np.asarray(y), of=of, strategy="quantile")
            assert metrics.ece(X, y, of=of, strategy="quantile") == pytest.approx(ece)


def test_jax_reads_small_probabilities_as_numpy_does():
    jax = pytest.importorskip("jax")
    p = reference.softmax(np.concatenate([LOGITS[:, :1] * 0, LOGITS, -720 - LOGITS[:, :2] ** 2], axis=1))
    assert ((p > 0) & (p < np.finfo(float).smallest_normal)).any()
    with jax.enable_x64(True):
        q = jax.numpy.asarray(p)
        one, other = (ExpectationConsistency(input="probabilities", floor=None).fit(each, LABELS + 1) for each in (p, q))
        assert one.fit_info_.n_zeros == other.fit_info_.n_zeros == (p == 0).sum()
        assert other.temperature_ == pytest.approx(one.temperature_, rel=1e-12)
        probabilities = other.predict_proba(q)
        assert isinstance(probabilities, jax.Array)
        np.testing.assert_allclose(np.asarray(probabilities), one.predict_proba(p), rtol=1e-12)
        assert isinstance(other.predict(q), jax.Array)
