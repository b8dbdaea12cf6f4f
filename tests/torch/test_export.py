"""A calibrated network can be compiled and exported like the network itself, and the results agree."""

import inspect
import io
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from nishimori.torch import Calibrated, fold_temperature


@dataclass
class Output:
    logits: torch.Tensor
    features: torch.Tensor


class Network(nn.Module):
    """Convolutions and a linear layer, with a second input that is optional."""

    def __init__(self, output=lambda z, h: z):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc = nn.Linear(8, 5)
        self.output = output

    def forward(self, pixels, scale=None):
        h = self.features(pixels if scale is None else pixels * scale)
        return self.output(self.fc(h), h)


X = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
OUTPUTS = pytest.mark.parametrize(
    "output", [lambda z, h: z, lambda z, h: {"logits": z, "features": h}, Output], ids=["tensor", "dict", "dataclass"]
)


def logits(output):
    output = output["logits"] if isinstance(output, dict) else getattr(output, "logits", output)
    return output.detach()


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)
    torch.compiler.reset()


@pytest.mark.parametrize("fullgraph", [True, False], ids=["in one graph", "with breaks allowed"])
@OUTPUTS
def test_it_compiles(output, fullgraph):
    calibrated = Calibrated(Network(output), 1.7).eval()
    compiled = torch.compile(calibrated, fullgraph=fullgraph, backend="aot_eager")
    for result in (compiled(X), compiled(pixels=X, scale=torch.ones(1))):
        assert torch.allclose(logits(result), logits(calibrated(X)), atol=1e-6)


def test_a_compiled_network_can_be_calibrated():
    network = Network().eval()
    calibrated = Calibrated(torch.compile(network, fullgraph=True, backend="aot_eager"), 1.7)
    assert torch.allclose(calibrated(X), network(X) / 1.7, atol=1e-6)


def test_a_compiled_network_uses_a_new_temperature():
    calibrated = Calibrated(Network(), 1.7).eval()
    compiled = torch.compile(calibrated, fullgraph=True, backend="aot_eager")
    compiled(X)
    calibrated.temperature.fill_(3.0)
    assert torch.allclose(compiled(X), calibrated.model(X) / 3, atol=1e-6)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("output", [lambda z, h: z, lambda z, h: {"logits": z, "features": h}], ids=["tensor", "dict"])
def test_it_exports_for_any_batch_size_with_the_names_of_the_networks_inputs(strict, output):
    calibrated = Calibrated(Network(output), 1.7).eval()
    batch = {0: torch.export.Dim("batch")}
    exported = torch.export.export(calibrated, (X,), dynamic_shapes={"pixels": batch}, strict=strict)
    assert torch.allclose(logits(exported.module()(X[:3])), logits(calibrated(X[:3])), atol=1e-6)
    assert "temperature" in exported.state_dict


def test_the_signature_is_that_of_the_network():
    network = Network()
    assert inspect.signature(Calibrated(network).forward) == inspect.signature(network.forward)
    assert list(inspect.signature(Calibrated.forward).parameters) == ["self", "args", "labels", "kwargs"]  # for Trainer


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_torchscript_network_without_a_signature_can_be_wrapped():
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(4, 3)), file)
    file.seek(0)
    calibrated = Calibrated(torch.jit.load(file), 1.7)
    x = torch.ones(2, 4)
    assert torch.allclose(calibrated(x), calibrated.model(x) / 1.7)
    assert list(inspect.signature(calibrated.forward).parameters) == ["args", "kwargs"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_it_can_be_traced():
    x = torch.ones(2, 4)
    calibrated = Calibrated(nn.Linear(4, 3), 1.7)
    assert torch.allclose(torch.jit.trace(calibrated, (x,))(x), calibrated(x))


def run_onnx(network, path, *args):
    """The name of the exported file's input, and a function that runs the file with onnxruntime."""
    pytest.importorskip("onnxscript")
    ort = pytest.importorskip("onnxruntime")
    torch.onnx.export(network, args, path, dynamo=True, verbose=False, dynamic_shapes=({0: "batch"},))
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    return given.name, lambda x: session.run(None, {given.name: x.numpy()})


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_onnxruntime_gives_the_numbers_of_pytorch(tmp_path, dtype):
    calibrated = Calibrated(Network(), 1.7).eval().to(dtype)
    name, run = run_onnx(calibrated, tmp_path / "calibrated.onnx", X.to(dtype))
    assert name == "pixels"
    for x in (X.to(dtype), X[:2].to(dtype)):
        expected = calibrated(x).detach().numpy()
        (found,) = run(x)
        assert found.dtype == expected.dtype
        tolerance = 1e-5 if dtype == torch.float32 else 2e-3
        assert np.abs(found.astype(float) - expected).max() <= tolerance * np.abs(expected).max()


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_onnxruntime_gives_the_numbers_of_pytorch_for_a_dict_and_for_a_folded_network(tmp_path):
    calibrated = Calibrated(Network(lambda z, h: {"features": h, "logits": z}), 1.7).eval()
    _, run = run_onnx(calibrated, tmp_path / "dict.onnx", X)
    expected = calibrated(X)["logits"].detach()
    np.testing.assert_allclose(run(X)[1], expected, atol=1e-5 * expected.abs().max().item())
    network = Network().eval()
    network.load_state_dict(calibrated.model.state_dict())
    fold_temperature(network, 1.7, probe=X)
    _, run = run_onnx(network, tmp_path / "folded.onnx", X)
    np.testing.assert_allclose(run(X)[0], expected, atol=1e-5 * expected.abs().max().item())


def test_the_compiler_is_not_imported_for_people_who_do_not_compile():
    code = """
import sys, torch, nishimori.torch
calibrated = nishimori.torch.Calibrated(torch.nn.Linear(4, 3), 1.7)
calibrated.predict_proba(torch.ones(2, 4))
sys.exit("torch._dynamo" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
