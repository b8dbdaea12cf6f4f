"""Predictions are made a block of rows at a time, into one output, and do not depend on where blocks end."""

import numpy as np
import pytest
from optional import array_api_strict, jnp, torch
from own_process import measure

import nishimori
from nishimori._support import arrays
from nishimori.errors import InputError
from nishimori.maps.map import Map

METHODS = ("predict_proba", "predict_log_proba", "transform", "predict")

# Three blocks, the last of them shorter.
N_CLASSES = 10
N_SAMPLES = 2 * (arrays._HOST_BLOCK // N_CLASSES) + 77
LOGITS = 3 * np.random.default_rng(0).standard_normal(size=(N_SAMPLES, N_CLASSES), dtype=np.float32)
PROBABILITIES = nishimori.from_temperature(1.0).predict_proba(LOGITS)
MASKED = LOGITS.copy()
MASKED[5::7, 3] = -np.inf

INPUTS = {
    "float32": (LOGITS, "logits"),
    "float16": (LOGITS.astype(np.float16), "logits"),
    "integers": (np.rint(LOGITS).astype(np.int32), "logits"),
    "masked": (MASKED, "logits"),
    "binary scores": (np.ascontiguousarray(LOGITS[:, 0]), "logits"),
    "probabilities": (PROBABILITIES, "probabilities"),
}

LIBRARIES = {
    "NumPy": lambda x: x,
    "PyTorch": torch.from_numpy,
    "JAX": jnp.asarray,
    "array_api_strict": array_api_strict.asarray,
}


class Reversed(Map):
    """Not a temperature: the classes change their order."""

    kind = "reversed"

    def apply(self, logits, groups=None):
        return -logits / 2

    @property
    def parameters(self):
        return {}


def calibrators(kind):
    reversing = nishimori.from_temperature(1.0, input=kind)
    reversing.map_ = Reversed()
    return [nishimori.from_temperature(1.7, input=kind), reversing]


def one_block_at_a_time(call, x):
    """The predictions of pieces that lie within a block each."""
    step = arrays._HOST_BLOCK // N_CLASSES // 3
    return np.concatenate([call(x[start : start + step]) for start in range(0, len(x), step)])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", [name for name in INPUTS if name != "masked"])  # the reverse of a mask is no logit
def test_predictions_do_not_depend_on_where_blocks_end(name, method):
    x, kind = INPUTS[name]
    for calibrator in calibrators(kind):
        call = getattr(calibrator, method)
        np.testing.assert_array_equal(call(x), one_block_at_a_time(call, x))


def test_prediction_allocates_its_output_and_a_few_megabytes(tmp_path):
    np.savez(tmp_path / "inputs.npz", **{name: x for name, (x, _) in INPUTS.items()})
    beyond_output = measure("predictions", inputs=tmp_path / "inputs.npz", methods=METHODS)
    assert len(beyond_output) == len(INPUTS) * len(METHODS)
    assert {case: size for case, size in beyond_output.items() if size > 6e6} == {}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gets_the_same_predictions_as_its_own_arrays(library, method):
    call = getattr(nishimori.from_temperature(1.7), method)
    x = LIBRARIES[library](LOGITS)
    result = call(x)
    assert type(result) is type(x)
    expected = call(LOGITS)
    assert method == "predict" or arrays.dtype_name(result) == "float32"
    np.testing.assert_allclose(np.asarray(result), expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_on_the_cpu_are_computed_by_numpy_and_rounded_to_their_dtype(dtype):
    x = torch.from_numpy(LOGITS).to(dtype)
    wide = np.float64 if dtype is torch.float64 else np.float32
    expected = nishimori.from_temperature(1.7).predict_proba(x.to(torch.float64).numpy().astype(wide))
    result = nishimori.from_temperature(1.7).predict_proba(x)
    assert result.dtype is dtype
    assert torch.equal(result, torch.from_numpy(expected).to(dtype))


@pytest.mark.parametrize("method", METHODS)
def test_tensors_that_numpy_cannot_see_are_filled_in_blocks_too(method, monkeypatch):
    call = getattr(nishimori.from_temperature(1.7), method)
    expected = call(LOGITS)
    monkeypatch.setattr(arrays, "numpy_view", lambda x: x)  # as on a GPU
    result = call(torch.from_numpy(LOGITS))
    np.testing.assert_allclose(result.numpy(), expected, rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_error_in_a_later_block_names_the_row_of_the_array(library, method, bad):
    logits = LOGITS.copy()
    logits[N_SAMPLES - 2, 4] = bad
    call = getattr(nishimori.from_temperature(1.7), method)
    with pytest.raises(InputError, match=rf"must not contain NaN or \+inf, got {bad} in row {N_SAMPLES - 2}, column 4\."):
        call(LIBRARIES[library](logits))


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_row_without_a_class_in_a_later_block_is_refused(library):
    logits = LOGITS.copy()
    logits[N_SAMPLES - 3] = -np.inf
    with pytest.raises(InputError, match=rf"got only -inf in row {N_SAMPLES - 3}\."):
        nishimori.from_temperature(1.7).predict_proba(LIBRARIES[library](logits))


@pytest.mark.parametrize("value", [-1e101, 1e101])
def test_logits_beyond_the_range_are_refused_though_finite(value):
    with pytest.raises(InputError, match="must lie between"):
        nishimori.from_temperature(1.7).predict_proba(np.array([[0.0, value], [1.0, 2.0]]))


@pytest.mark.parametrize("shape", [(63, 5), (64, 5), (200, 64), (200, 65), (1, 3)])
def test_the_largest_of_each_row_is_numpys_own(shape):
    x = np.random.default_rng(1).normal(size=shape)
    x[0, 1] = np.nan
    np.testing.assert_array_equal(arrays.row_max(x), np.max(x, axis=1, keepdims=True))
