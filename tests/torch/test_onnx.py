"""`to_onnx` writes one output with a telling name, and onnxruntime gives the numbers of NumPy."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference
import torch
from small_networks import fold_unchecked
from torch import nn

from nishimori.errors import InputError, InputWarning
from nishimori.torch import Calibrated, to_onnx

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


class Network(nn.Module):
    """A network with dropout and batch normalisation, which returns ``output(logits)``."""

    def __init__(self, output=lambda z: z, n_out=3):
        super().__init__()
        self.norm, self.dropout, self.fc = nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, n_out)
        self.output = output

    def forward(self, features, scale=None):
        return self.output(self.fc(self.dropout(self.norm(features if scale is None else features * scale))))


@pytest.fixture
def calibrated():
    torch.manual_seed(0)
    return Calibrated(Network(), 1.7)


def exact(calibrated, x):
    """The logits of the network in eval mode, before the division."""
    modes = [(each, each.training) for each in calibrated.modules()]
    calibrated.eval()
    with torch.no_grad():
        z = calibrated.model(x)
    for each, training in modes:
        each.training = training
    return (z if isinstance(z, torch.Tensor) else z["logits"]).double().numpy()


def session(path):
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("training", [True, False], ids=["in training mode", "in eval mode"])
def test_the_output_is_called_logits_and_holds_the_calibrated_logits(training, calibrated, tmp_path):
    calibrated.train(training)
    to_onnx(calibrated, X, tmp_path / "z.onnx")
    file = session(tmp_path / "z.onnx")
    assert [each.name for each in file.get_inputs()] == ["features"]
    assert [each.name for each in file.get_outputs()] == ["logits"]
    for x in (X, X[:1]):  # any size of the batch
        (z,) = file.run(None, {"features": x.numpy()})
        np.testing.assert_allclose(z, exact(calibrated, x) / 1.7, atol=1e-5)
    assert all(each.training == training for each in calibrated.modules())
    assert [each.name for each in tmp_path.iterdir()] == ["z.onnx"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_probabilities_are_written_on_request(dtype, calibrated, tmp_path):
    x = X.to(dtype)
    calibrated.to(dtype)
    to_onnx(calibrated, x, tmp_path / "p.onnx", output="probabilities")
    file = session(tmp_path / "p.onnx")
    assert [each.name for each in file.get_outputs()] == ["probabilities"]
    (p,) = file.run(["probabilities"], {"features": x.numpy()})
    tolerance = 1e-6 if dtype == torch.float32 else 2e-3
    np.testing.assert_allclose(p, reference.softmax(exact(calibrated, x), 1.7), atol=tolerance)


@pytest.mark.parametrize("flat", [True, False], ids=["(n,)", "(n, 1)"])
def test_the_probabilities_of_a_binary_score_are_those_of_both_classes(flat, tmp_path):
    calibrated = Calibrated(Network(lambda z: z[:, 0] if flat else z, n_out=1), 1.7)
    to_onnx(calibrated, X, tmp_path / "p.onnx", output="probabilities")
    (p,) = session(tmp_path / "p.onnx").run(None, {"features": X.numpy()})
    z = exact(calibrated, X).reshape(-1)
    np.testing.assert_allclose(p, reference.softmax(np.stack([np.zeros(6), z], axis=1), 1.7), atol=1e-6)


INPUTS = {  # one tensor: see above
    "a tuple": ((X, X**2), ["features", "scale"]),
    "a mapping": ({"features": X, "scale": X**2}, ["features", "scale"]),
}


@pytest.mark.parametrize(("args", "names"), INPUTS.values(), ids=INPUTS)
def test_inputs_have_the_names_of_the_networks_arguments(args, names, calibrated, tmp_path):
    to_onnx(calibrated, args, tmp_path / "z.onnx")
    file = session(tmp_path / "z.onnx")
    assert [each.name for each in file.get_inputs()] == names
    values = dict(zip(["features", "scale"], (X.numpy()[:2], X.numpy()[:2] ** 2), strict=True))
    (z,) = file.run(None, {name: values[name] for name in names})
    np.testing.assert_allclose(z, exact(calibrated, X[:2] ** 3) / 1.7, atol=1e-5)


def test_an_output_with_several_tensors_is_written_as_its_logits_alone(tmp_path):
    calibrated = Calibrated(Network(lambda z: {"hidden": 2 * z, "logits": z}), 1.7)
    to_onnx(calibrated, X, tmp_path / "z.onnx")
    (z,) = session(tmp_path / "z.onnx").run(None, {"features": X.numpy()})
    np.testing.assert_allclose(z, exact(calibrated, X) / 1.7, atol=1e-5)


def test_dynamic_shapes_may_be_chosen(calibrated, tmp_path):
    to_onnx(calibrated, X, tmp_path / "z.onnx", dynamic_shapes=({},))
    (given,) = session(tmp_path / "z.onnx").get_inputs()
    assert given.shape == [6, 4]


def test_an_existing_file_is_kept_unless_it_may_be_overwritten(calibrated, tmp_path):
    path = tmp_path / "z.onnx"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite"):
        to_onnx(calibrated, X, path)
    assert path.read_text() == "mine"
    to_onnx(calibrated, X, path, overwrite=True)
    assert session(path).get_outputs()[0].name == "logits"


def test_nothing_is_left_behind_by_an_error(calibrated, tmp_path):
    with pytest.raises(Exception, match="should contain 5 elements"):
        to_onnx(calibrated, torch.ones(6, 5), tmp_path / "z.onnx")
    assert not list(tmp_path.iterdir())
    assert calibrated.training


def large():
    with torch.device("meta"):
        return Calibrated(nn.Linear(2**15, 2**14))


REFUSED = {
    "a plain network": (
        lambda path: to_onnx(Network(), X, path),
        "`calibrated` must be a Calibrated, got a Network. Pass the result of `calibrate`, or wrap a network that needs no "
        "temperature: `Calibrated(model)`.",
    ),
    "another output": (
        lambda path: to_onnx(Calibrated(Network()), X, path, output="classes"),
        "`output` must be 'logits' or 'probabilities', got 'classes'.",
    ),
    "another ending": (
        lambda path: to_onnx(Calibrated(Network()), X, "z.bin"),
        "`path` must end in .onnx, got 'z.bin'.",
    ),
    "no ending": (
        lambda path: to_onnx(Calibrated(Network()), X, Path(".onnx")),
        "`path` must end in .onnx, got '.onnx'.",
    ),
    "a large network": (
        lambda path: to_onnx(large(), X, path),
        "`calibrated` must have at most 1.5 GiB of weights, got 2.0 GiB, which PyTorch does not write to one file. Call "
        "`torch.onnx.export(calibrated.eval(), args, path, output_names=['logits'])`, which writes the weights to a second "
        "file.",
    ),
}


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_written_is_refused_with_this_message(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as error:
        call(tmp_path / "z.onnx")
    assert str(error.value) == message
    assert not list(tmp_path.iterdir())


def test_a_network_folded_by_hand_is_refused(calibrated, tmp_path):
    fold_unchecked(calibrated.model, 1.7)
    with pytest.raises(InputError, match="calibrated only once"):
        to_onnx(calibrated, X, tmp_path / "z.onnx")


@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
def test_the_names_can_be_given_to_pytorchs_own_function_too(calibrated, tmp_path):
    path = tmp_path / "z.onnx"
    torch.onnx.export(calibrated.eval(), (X,), path, dynamo=True, verbose=False, output_names=["logits"])
    assert [each.name for each in session(path).get_outputs()] == ["logits"]


def test_the_extra_is_named_where_onnxscript_is_missing():
    code = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "onnxscript":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import torch
from nishimori.torch import Calibrated, to_onnx
try:
    to_onnx(Calibrated(torch.nn.Linear(2, 2)), torch.ones(1, 2), "z.onnx")
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == (
        "nishimori.torch.to_onnx needs onnxscript, which is not installed. Run `pip install 'nishimori[onnx]'`."
    )
    assert not Path("z.onnx").exists()


class Drawing(Network):
    """A network that draws noise in eval mode too."""

    def forward(self, features):
        return super().forward(features) + torch.randn(len(features), 3)


def test_a_file_that_gives_other_numbers_is_not_kept(tmp_path):
    with pytest.raises(InputError, match=r"must give the same numbers when it runs from an ONNX file, got numbers that differ"):
        to_onnx(Calibrated(Drawing().eval(), 2.0), X, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


class Constant(nn.Module):
    def forward(self, features):
        return 0 * features[:, :3]


def test_logits_of_zero_are_written(tmp_path):
    to_onnx(Calibrated(Constant(), 2.0), X, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").exists()


def test_a_file_that_cannot_be_run_is_written_with_a_warning(tmp_path, monkeypatch):
    def failing(self, *args, **kwargs):
        raise NotImplementedError("Gelu in bfloat16")

    monkeypatch.setattr(torch.onnx.ONNXProgram, "__call__", failing)
    with pytest.warns(InputWarning, match=r"onnxruntime does not run it here \(NotImplementedError: Gelu in bfloat16\)"):
        to_onnx(Calibrated(Network().eval(), 2.0), X, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").exists()
