"""Networks with maps of several parameters are compiled, exported and traced; onnxruntime gives the numbers of NumPy."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
import reference
import torch
from mapped_networks import GROUPED, GROUPS, MAPS, Network, X, affine, grouped, logits

from nishimori.errors import InputError
from nishimori.maps import Affine
from nishimori.torch import Calibrated, to_onnx

KINDS = ("matrix", "fallback", "classes", "log", "two of three")
EACH = pytest.mark.parametrize(("map_", "definition"), [MAPS[name] for name in KINDS], ids=KINDS)


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()


@EACH
def test_it_compiles_in_one_graph(map_, definition):
    calibrated = Calibrated(Network(), map_)
    compiled = torch.compile(calibrated, fullgraph=True, backend="aot_eager")
    np.testing.assert_allclose(compiled(X).detach(), definition(logits(calibrated.model)), atol=1e-4)


def test_a_compiled_network_with_groups_looks_them_up_outside_of_the_graph():
    calibrated = Calibrated(Network(), GROUPED)
    compiled = torch.compile(calibrated, backend="aot_eager")
    with torch.no_grad():  # PyTorch itself gives a warning where a graph with gradients breaks
        found = compiled(X, groups=GROUPS)
    np.testing.assert_allclose(found, grouped(logits(calibrated.model)), atol=1e-4)


def test_an_unpickled_network_with_groups_can_be_compiled_in_a_new_process(tmp_path):
    calibrated = Calibrated(torch.nn.Identity(), GROUPED)
    torch.save((calibrated, X), tmp_path / "calibrated.pt")
    code = f"""
import torch
calibrated, x = torch.load("calibrated.pt", weights_only=False)
with torch.no_grad():
    found = torch.compile(calibrated, backend="aot_eager")(x, groups={GROUPS!r})
torch.save(found, "found.pt")
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    np.testing.assert_allclose(torch.load(tmp_path / "found.pt"), grouped(X.double().numpy()), atol=1e-4)


def test_a_compiled_network_uses_new_parameters():
    calibrated = Calibrated(Network(), MAPS["matrix"][0])
    compiled = torch.compile(calibrated, fullgraph=True, backend="aot_eager")
    before = compiled(X)
    calibrated.mapping.bias.add_(torch.arange(5.0))
    assert torch.allclose(compiled(X), before + torch.arange(5.0), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "strict"), [("matrix", False), ("fallback", True), ("classes", False), ("log", False), ("mixture", False)]
)
def test_it_exports_for_any_batch_size(name, strict):
    map_, definition = MAPS[name]
    calibrated = Calibrated(Network(), map_).eval()
    exported = torch.export.export(calibrated, (X,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}, strict=strict)
    expected = definition(logits(calibrated.model))
    np.testing.assert_allclose(exported.module()(X[:3]).detach(), expected[:3], atol=1e-4)
    assert all(f"mapping.{name}" in exported.state_dict for name, _ in calibrated.mapping.named_buffers())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@EACH
def test_it_can_be_traced(map_, definition):
    calibrated = Calibrated(Network(), map_)
    np.testing.assert_allclose(torch.jit.trace(calibrated, (X,))(X).detach(), definition(logits(calibrated.model)), atol=1e-4)


BY_GROUP = (
    "`calibrated` must not have one temperature per group to be exported: names of groups are looked up outside of the "
    "graph. Export one network per group: `Calibrated(model, T)` with the T of the group."
)


def test_temperatures_of_groups_are_not_exported():
    calibrated = Calibrated(Network(), GROUPED).eval()
    with pytest.raises(InputError) as error:
        torch.export.export(calibrated, (X,), {"groups": torch.arange(6)}, strict=False)
    assert str(error.value) == BY_GROUP


def test_the_signature_has_groups_only_where_they_are_needed():
    network = Network()
    assert inspect.signature(Calibrated(network, MAPS["matrix"][0]).forward) == inspect.signature(network.forward)
    with_groups = inspect.signature(Calibrated(network, GROUPED).forward)
    assert str(with_groups) == "(x, *, groups)"

    class Open(Network):
        def forward(self, x, **others):
            return super().forward(x)

    assert str(inspect.signature(Calibrated(Open(), GROUPED).forward)) == "(x, *, groups, **others)"


@pytest.mark.parametrize(
    ("name", "output"), [("fallback", "probabilities"), ("classes", "logits"), ("log", "logits"), ("two of three", "logits")]
)
def test_onnxruntime_gives_the_numbers_of_numpy(name, output, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    map_, definition = MAPS[name]
    calibrated = Calibrated(Network(), map_)
    to_onnx(calibrated, X, tmp_path / "file.onnx", output=output)
    file = ort.InferenceSession(tmp_path / "file.onnx", providers=["CPUExecutionProvider"])
    assert [each.name for each in file.get_outputs()] == [output]
    x = torch.randn(50, 4, generator=torch.Generator().manual_seed(3))
    (found,) = file.run(None, {"x": x.numpy()})
    expected = definition(logits(calibrated.model, x))
    if output == "logits":
        np.testing.assert_allclose(found, expected, atol=1e-5)
    else:
        np.testing.assert_allclose(found, reference.softmax(expected, 1.0), atol=1e-6)


def test_onnxruntime_gives_both_classes_of_a_score(tmp_path):
    ort = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    calibrated = Calibrated(Network(n_out=1), Affine([[1.5, 0.2], [0.1, 0.7]], [0.3, 0.0]))
    to_onnx(calibrated, X, tmp_path / "file.onnx", output="probabilities")
    (found,) = ort.InferenceSession(tmp_path / "file.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": X.numpy()})
    z = logits(calibrated.model)
    both = affine(np.concatenate([np.zeros((6, 1)), z], axis=1), np.array([[1.5, 0.2], [0.1, 0.7]]), np.array([0.3, 0.0]))
    np.testing.assert_allclose(found, reference.softmax(both, 1.0), atol=1e-6)


def test_temperatures_of_groups_are_not_written_to_onnx(tmp_path):
    pytest.importorskip("onnxscript")
    with pytest.raises(InputError) as error:
        to_onnx(Calibrated(Network(), GROUPED), X, tmp_path / "file.onnx")
    assert str(error.value) == (
        "`calibrated` must not have one temperature per group, because an ONNX file cannot look up names of groups. Write one "
        "file per group: `to_onnx(Calibrated(model, T), args, path)` with the T of the group."
    )
    assert not list(tmp_path.iterdir())
