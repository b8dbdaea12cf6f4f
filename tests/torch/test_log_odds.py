"""Calibrators of binary scores behind a network: the map of log-odds as a module, and Platt scaling in the weights."""

import io

import numpy as np
import pytest
import reference
import torch
from mapped_networks import Network, X, logits
from scipy.special import log_expit
from torch import nn

import nishimori
from nishimori.errors import InputError
from nishimori.maps import LogOdds
from nishimori.torch import Calibrated, calibrate, to_onnx

MAP = LogOdds(a=1.4, b=0.6, c=-0.3, square=0.05)
Z = 3 * torch.randn(40, 2, generator=torch.Generator().manual_seed(2))


def definition(z):
    s = z[..., 1] - z[..., 0]
    mapped = 0.05 * s**2 + 1.4 * log_expit(s) - 0.6 * log_expit(-s) - 0.3
    return np.stack([np.zeros_like(mapped), mapped], axis=-1)


def test_logits_probabilities_and_classes_are_those_of_the_definition():
    calibrated = Calibrated(nn.Identity(), MAP)
    expected = definition(Z.double().numpy())
    np.testing.assert_allclose(calibrated(Z), expected, atol=1e-5)
    np.testing.assert_allclose(calibrated.predict_proba(Z), reference.softmax(expected, 1.0), atol=1e-6)
    assert calibrated.predict(Z).tolist() == expected.argmax(axis=1).tolist()
    assert (expected.argmax(axis=1) != Z.argmax(dim=1).numpy()).any()
    np.testing.assert_allclose(calibrated(Z.reshape(8, 5, 2)).reshape(40, 2), expected, atol=1e-5)
    assert calibrated.map.parameters == pytest.approx(MAP.parameters, rel=1e-7)
    assert "LogOdds(n_classes=2)" in repr(calibrated)


@pytest.mark.parametrize("shape", [(9,), (9, 1)], ids=str)
def test_one_output_unit_is_a_binary_score(shape):
    z = torch.linspace(-50, 50, 9).reshape(shape)
    expected = definition(np.stack([np.zeros(9), z.flatten().double().numpy()], axis=1))
    calibrated = Calibrated(nn.Identity(), MAP)
    assert calibrated(z).shape == shape
    np.testing.assert_allclose(calibrated(z).flatten(), expected[:, 1], rtol=1e-6)
    assert calibrated.predict(z).tolist() == (expected[:, 1] > 0).tolist()


@pytest.mark.parametrize("map_", [MAP, LogOdds(1.4, 0.6, -0.3)], ids=["square", "no square"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_huge_scores_give_certain_probabilities(map_, dtype):
    score = {torch.float16: 6e4, torch.float32: 1e20}[dtype]
    z = torch.tensor([[0.0, score], [0.0, -score]], dtype=dtype)
    second = [1.0, 1.0 if map_.square else 0.0]  # the square has the same sign on both sides
    calibrated = Calibrated(nn.Identity(), map_)
    assert calibrated.predict_proba(z)[:, 1].tolist() == second
    assert calibrated.predict_proba(z[:, 1])[:, 1].tolist() == second


def test_gradients_are_those_of_the_map_also_where_both_logits_are_equal():
    z = Z[:6].double()
    z[0] = 1.0
    calibrated = Calibrated(nn.Identity(), MAP).double()
    assert torch.autograd.gradcheck(calibrated, (z.requires_grad_(),))
    assert not list(calibrated.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_the_result_and_not_the_parameters(dtype):
    calibrated = Calibrated(Network(n_out=2), MAP).to(dtype)
    x = X.to(dtype)
    expected = definition(calibrated.model(x).detach().double().numpy())
    eps = torch.finfo(dtype).eps
    np.testing.assert_allclose(calibrated(x).detach().double(), expected, rtol=eps, atol=eps)
    assert {each.dtype for each in calibrated.mapping.buffers()} == {torch.float32}


def test_a_wrapper_without_a_map_takes_that_of_the_state_dict():
    calibrated = Calibrated(Network(n_out=2), MAP)
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assert {name for name in state if name.startswith("mapping.")} == {f"mapping.{name}" for name in ("a", "b", "c", "square")}
    fresh = Calibrated(Network(n_out=2))
    fresh.load_state_dict(state)
    assert torch.equal(fresh(X), calibrated(X))
    calibrated.load_state_dict(Calibrated(Network(n_out=2), 1.7).state_dict())
    assert float(calibrated.temperature) == pytest.approx(1.7)


def test_it_compiles_and_exports():
    calibrated = Calibrated(Network(n_out=2), MAP).eval()
    expected = definition(logits(calibrated.model))
    torch.compiler.reset()
    compiled = torch.compile(calibrated, fullgraph=True, backend="aot_eager")
    np.testing.assert_allclose(compiled(X).detach(), expected, atol=1e-4)
    exported = torch.export.export(calibrated, (X,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}, strict=False)
    np.testing.assert_allclose(exported.module()(X[:3]).detach(), expected[:3], atol=1e-4)


@pytest.mark.parametrize("n_out", [1, 2])
def test_onnxruntime_gives_the_numbers_of_numpy_for_large_scores_too(n_out, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    calibrated = Calibrated(Network(n_out=n_out), MAP)
    to_onnx(calibrated, X, tmp_path / "file.onnx", output="logits")
    x = 100 * X
    (found,) = ort.InferenceSession(tmp_path / "file.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x.numpy()})
    z = logits(calibrated.model, x)
    assert np.abs(z).max() > 200
    both = z if n_out == 2 else np.concatenate([np.zeros((6, 1)), z], axis=1)
    np.testing.assert_allclose(found, definition(both)[:, -n_out:], rtol=1e-5, atol=1e-4)


SCORES = 2 * np.random.default_rng(0).normal(size=400)
LABELS = (SCORES + 1 + np.random.default_rng(1).logistic(size=400) > 0).astype(int)


@pytest.mark.parametrize("method", ["platt", "beta", "quadratic", "intercept"])
def test_a_network_with_one_output_unit_is_calibrated_by_its_loader(method):
    rows = torch.utils.data.TensorDataset(torch.tensor(SCORES, dtype=torch.float32), torch.tensor(LABELS))
    calibrated = calibrate(nn.Identity(), torch.utils.data.DataLoader(rows, 100), method=method)
    expected = nishimori.calibrator(method).fit(SCORES.astype(np.float32), LABELS).predict_proba(SCORES)
    np.testing.assert_allclose(calibrated.predict_proba(torch.tensor(SCORES, dtype=torch.float32)), expected, atol=1e-5)


@pytest.mark.parametrize("n_out", [1, 2])
def test_platt_scaling_folds_into_the_weights(n_out):
    fitted = nishimori.Platt().fit(SCORES, LABELS)
    calibrated = Calibrated(Network(n_out=n_out), fitted)
    z = logits(calibrated.model)
    s = z[:, 0] if n_out == 1 else z[:, 1] - z[:, 0]
    folded = logits(calibrated.fold(probe=X))
    found = folded[:, 0] if n_out == 1 else folded[:, 1] - folded[:, 0]
    np.testing.assert_allclose(found, fitted.parameters_["slope"] * s + fitted.parameters_["intercept"], atol=1e-4)


REFUSED = {
    "folding": (
        lambda: Calibrated(Network(n_out=2), MAP).fold(probe=X),
        r"^The map must be one temperature or an affine function of the logits to be folded into weights, got the "
        r"function of the log-odds; weights alone cannot express that\. Instead, keep the calibration in",
    ),
    "masks": (
        lambda: Calibrated(nn.Identity(), MAP)(torch.tensor([[0.0, -torch.inf]])),
        r"^`model` must return logits without masked classes \(-inf\), because their log-odds would be infinite\. Use a method "
        r"with temperatures only, such as 'ec' or 'group'\.$",
    ),
    "three classes": (
        lambda: Calibrated(nn.Identity(), MAP)(torch.zeros(4, 3)),
        r"^`model` must return logits whose last dimension holds the 2 classes of the map, got 3 in shape \(4, 3\)\. Use the "
        r"network that the map was fitted to, or calibrate this one\.$",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
