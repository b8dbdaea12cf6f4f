"""`calibrate` finds the temperature of the definition, and a `Calibrated` otherwise behaves like its network."""

import copy
import io
import pickle

import numpy as np
import pytest
import reference
import torch
from small_networks import OUTPUTS
from torch import nn
from torch._subclasses import FakeTensorMode

import nishimori
from nishimori.errors import FewErrorsWarning, InputError, NoTemperatureError
from nishimori.torch import Calibrated, calibrate

LOGITS, LABELS = reference.drawn(600, 4)
Z, Y = torch.tensor(LOGITS), torch.tensor(LABELS)
LOADER = [(Z[:400], Y[:400]), (Z[400:], Y[400:])]
HALVES = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])


class Network(nn.Module):
    """A network with a configuration, which returns ``output(logits)``."""

    def __init__(self, output=lambda z: z):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.fc = nn.Linear(8, 3)
        self.config = {"layers": 2}
        self.output = output

    def forward(self, x, scale=1.0):
        return self.output(self.fc(torch.relu(self.body(scale * x))))


X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("method", "definition"), [("ec", reference.ec_temperature), ("ts", reference.ts_temperature)], ids=["ec", "ts"]
)
def test_the_temperature_is_that_of_the_definition(method, definition):
    calibrated = calibrate(nn.Identity(), LOADER, method=method)
    assert calibrated.temperature.item() == pytest.approx(definition(LOGITS, LABELS), rel=1e-6)
    assert calibrated.method == method
    assert calibrated.temperatures == nishimori.temperatures(Z, Y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_the_temperature_is_that_of_the_rounded_logits(dtype):
    rounded = Z.to(dtype)
    calibrated = calibrate(nn.Identity(), [(rounded, Y)], method="ec")
    assert calibrated.temperature.item() == pytest.approx(reference.ec_temperature(rounded.double().numpy(), LABELS), rel=1e-6)


def test_mean_confidence_equals_accuracy_afterwards():
    calibrated = calibrate(nn.Identity(), LOADER, method="ec")
    p = calibrated.predict_proba(Z)
    assert p.amax(dim=1).mean().item() == pytest.approx(calibrated.temperatures.accuracy, abs=1e-6)


def test_calibrating_again_ignores_the_first_temperature():
    once = calibrate(nn.Identity(), LOADER)
    twice = calibrate(once, LOADER, method="ts")
    assert twice.model is once.model
    assert twice.temperature.item() == pytest.approx(reference.ts_temperature(LOGITS, LABELS), rel=1e-6)


def test_a_binary_score_is_calibrated_as_its_two_logits():
    z, y = Z[:, 0] - Z[:, 1], (Y == 0).long()
    calibrated = calibrate(nn.Identity(), [(z, y)], method="ec")
    assert calibrated.temperature.item() == pytest.approx(nishimori.temperatures(z, y).ec, rel=1e-6)
    p = calibrated.predict_proba(z)
    assert torch.allclose(p[:, 1], torch.sigmoid(z / calibrated.temperature))
    assert p.shape == (600, 2)


@pytest.mark.parametrize("method", ["ec", "ts"])
def test_the_error_says_why_no_temperature_fits(method):
    with pytest.raises(NoTemperatureError, match="No temperature fits") as error:
        calibrate(nn.Identity(), [(Z, Z.argmax(dim=1))], method=method)
    assert error.value.end == "cold"


def test_one_temperature_may_exist_without_the_other():
    masked = Z.clone()
    masked[0, Y[0]] = -torch.inf
    with pytest.raises(InputError, match="masked class for temperature scaling"):
        calibrate(nn.Identity(), [(masked, Y)], method="ts")
    assert calibrate(nn.Identity(), [(masked, Y)], method="ec").temperatures.ts is None


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError, match=r"The method must be one of ec, ts, .*or package.module:Name, got 'spline'\."):
        calibrate(nn.Identity(), LOADER, method="spline")


def test_the_warning_about_few_errors_names_the_callers_line():
    with pytest.warns(FewErrorsWarning) as caught:
        calibrate(nn.Identity(), [(Z[:12], Y[:12])])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
def test_the_output_is_of_the_same_type_with_the_logits_divided(output):
    outputs = []
    network = Network(lambda z: outputs.append(output(z)) or outputs[-1])
    result = Calibrated(network, 2.0)(X)
    (original,) = outputs
    assert type(result) is type(original)

    def parts(output):
        if isinstance(output, torch.Tensor):
            return output, None
        return (output["logits"], output["loss"]) if isinstance(output, dict) else (output.logits, output.loss)

    assert torch.equal(parts(result)[0], parts(original)[0] / 2)
    assert torch.equal(parts(original)[0], network.fc(torch.relu(network.body(X))))
    assert parts(result)[1] == parts(original)[1]


def test_positional_and_keyword_arguments_reach_the_network():
    network = Network()
    calibrated = Calibrated(network, 2.0)
    for result in (calibrated(X, 3.0), calibrated(X, scale=3.0), calibrated(x=X, scale=3.0)):
        assert torch.equal(result, network(3 * X) / 2)


def test_gradients_flow_to_the_network_but_not_to_the_temperature():
    calibrated = Calibrated(Network(), 2.0)
    calibrated(X).sum().backward()
    assert all(each.grad is not None for each in calibrated.parameters())
    assert [name for name, _ in calibrated.named_parameters()] == [f"model.{n}" for n, _ in calibrated.model.named_parameters()]


def test_attributes_of_the_network_can_be_read():
    network = Network()
    calibrated = Calibrated(network, 2.0)
    assert calibrated.config is network.config
    assert calibrated.fc is network.fc
    with pytest.raises(AttributeError, match="'Network' object has no attribute 'foo'"):
        _ = calibrated.foo


def test_a_network_may_have_a_temperature_of_its_own():
    network = Network()
    network.temperature = 5.0
    for inner in (network, Calibrated(Network(), 5.0)):
        outer = Calibrated(inner, 2.0)
        assert outer.temperature.item() == 2
        assert inner.temperature == 5
        assert torch.equal(outer(X), inner(X) / 2)


@HALVES
def test_the_temperature_stays_exact_when_the_network_goes_to_half_precision(dtype):
    for convert in (lambda m: m.to(dtype), lambda m: m.half() if dtype == torch.float16 else m.bfloat16()):
        calibrated = convert(Calibrated(Network(), 1.2345678))
        assert calibrated.fc.weight.dtype == dtype
        assert calibrated.temperature.dtype == torch.float32
        assert calibrated.temperature.item() == pytest.approx(1.2345678, rel=1e-7)
        result = calibrated(X.to(dtype))
        assert result.dtype == dtype
        assert torch.equal(result, (calibrated.model(X.to(dtype)).double() / np.float32(1.2345678)).to(dtype))


def test_the_temperature_stays_in_float32_in_a_network_of_doubles():
    calibrated = Calibrated(Network(), 1.7).double()
    assert calibrated.temperature.dtype == torch.float32
    assert calibrated(X.double()).dtype == torch.float64


def test_the_temperature_moves_with_the_network():
    calibrated = Calibrated(Network(), 1.7)
    assert calibrated.to("meta").temperature.is_meta
    assert "on meta" in repr(calibrated)
    calibrated.half()
    back = calibrated.to_empty(device="cpu")
    assert back.temperature.device.type == "cpu"
    assert back.temperature.dtype == torch.float32


def test_a_network_built_on_meta_takes_its_temperature_from_the_state_dict():
    saved = Calibrated(Network(), 1.7).state_dict()
    with torch.device("meta"):
        empty = Calibrated(Network())
    empty.load_state_dict(saved, assign=True)
    assert empty.temperature.item() == pytest.approx(1.7)


def test_the_temperature_is_moved_to_logits_on_another_device():
    with FakeTensorMode():  # which simulates absent devices, without values
        calibrated = Calibrated(nn.Identity(), 1.7)
        calibrated.temperature = torch.empty((), device="cuda")
        assert calibrated(torch.empty(6, 4)).device.type == "cpu"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_network_on_a_cuda_device_is_calibrated_there(dtype):
    network = nn.Sequential(nn.Identity(), nn.Linear(4, 4)).cuda().to(dtype)
    with torch.no_grad():
        network[1].weight.copy_(torch.eye(4))
        network[1].bias.zero_()
    rounded = Z.to(dtype)
    calibrated = calibrate(network, [(rounded, Y)], method="ec")
    assert calibrated.temperature.device.type == "cuda"
    assert calibrated.temperature.item() == pytest.approx(reference.ec_temperature(rounded.double().numpy(), LABELS), rel=1e-3)
    assert calibrated(rounded.cuda()).dtype == dtype
    assert calibrated.cpu().temperature.device.type == "cpu"
    with torch.autocast("cuda", dtype=torch.float16):
        assert calibrated.cuda().float()(Z.float().cuda()).dtype == torch.float16


def test_the_state_dict_holds_the_temperature_and_loads_weights_only():
    calibrated = Calibrated(Network(), 1.7)
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    file.seek(0)
    fresh = Calibrated(Network())
    fresh.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(fresh(X), calibrated(X))
    assert fresh.temperature.item() == pytest.approx(1.7)


def test_loading_a_plain_checkpoint_into_the_network_keeps_the_temperature():
    plain = Network()
    calibrated = Calibrated(Network(), 1.7)
    calibrated.model.load_state_dict(plain.state_dict())
    assert torch.equal(calibrated(X), plain(X) / calibrated.temperature)


def test_the_temperature_is_float32_after_loading_a_state_dict_in_half_precision():
    halved = {name: each.half() for name, each in Calibrated(Network(), 1.7).state_dict().items()}
    calibrated = Calibrated(Network())
    calibrated.load_state_dict(halved, assign=True)
    assert calibrated.fc.weight.dtype == torch.float16
    assert calibrated.temperature.dtype == torch.float32
    assert calibrated.temperature.item() == pytest.approx(1.7, rel=1e-3)


def test_loading_a_temperature_resets_the_method_and_what_was_found():
    calibrated = calibrate(nn.Identity(), LOADER, method="ec")
    found = calibrated.temperatures
    calibrated.load_state_dict({}, strict=False)
    assert (calibrated.method, calibrated.temperatures) == ("ec", found)
    nn.Sequential(calibrated).load_state_dict({"0.temperature": torch.tensor(1.7)})
    assert (calibrated.method, calibrated.temperatures) == ("fixed", None)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_keep_the_temperature_and_what_was_found_also_if_the_network_copies_itself(copied):
    network = torch.fx.symbolic_trace(nn.Sequential(nn.Identity()))
    assert hasattr(network, "__deepcopy__")
    calibrated = calibrate(network, LOADER)
    other = copied(calibrated)
    assert torch.equal(other(Z), calibrated(Z))
    assert other.temperatures == calibrated.temperatures
    assert other.model is not calibrated.model


def test_the_wrapper_has_the_mode_of_its_network_and_changes_it_too():
    network = Network().eval()
    calibrated = Calibrated(network)
    assert not calibrated.training
    assert calibrated.train().model.training


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf"), "2", None, torch.tensor(-1.0), torch.ones(2)])
def test_invalid_temperatures_are_refused(bad):
    with pytest.raises(InputError, match="`temperature` must be a finite positive number"):
        Calibrated(Network(), bad)


def test_anything_but_a_network_is_refused():
    with pytest.raises(InputError, match=r"`model` must be a torch\.nn\.Module, got a function\."):
        Calibrated(lambda x: x, 2.0)


def test_a_temperature_may_be_a_tensor():
    assert Calibrated(Network(), torch.tensor(1.7, requires_grad=True)).temperature.item() == pytest.approx(1.7)


@HALVES
def test_probabilities_are_computed_in_float32_and_returned_in_the_dtype_of_the_network(dtype):
    z = (3 * X).to(dtype)
    p = Calibrated(nn.Identity(), 1.7).predict_proba(z)
    assert p.dtype == dtype
    exact = reference.softmax(z.double().numpy(), 1.7)
    np.testing.assert_allclose(p.double(), exact, rtol=torch.finfo(dtype).eps)


@pytest.mark.parametrize("call", [lambda m, x: m(x), lambda m, x: m.predict_proba(x)], ids=["forward", "probabilities"])
def test_predicted_classes_are_not_divided_like_logits(call):
    with pytest.raises(InputError, match=r"`model` must return logits, got torch\.int64\."):
        call(Calibrated(nn.Identity(), 2.0), torch.arange(6))


def test_logits_of_any_shape_are_divided():
    z = torch.randn(2, 3, 4, 5)
    assert torch.equal(Calibrated(nn.Identity(), 2.0)(z), z / 2)


def test_the_wrapper_shows_its_temperature():
    assert repr(Calibrated(nn.Identity(), 1.7)) == "Calibrated(\n  temperature=1.7, method='fixed'\n  (model): Identity()\n)"


def test_hooks_may_replace_the_forward_of_an_instance():
    calibrated = Calibrated(Network(), 2.0)
    plain = calibrated.forward
    calibrated.forward = lambda x: plain(x) + 1
    assert torch.equal(calibrated(X), calibrated.model(X) / 2 + 1)


def test_the_extra_is_named_where_torch_is_missing():
    import subprocess
    import sys

    code = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
import nishimori
try:
    nishimori.torch.calibrate
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ("nishimori.torch needs torch, which is not installed. Run `pip install 'nishimori[torch]'`.")


def test_a_network_is_calibrated_by_a_method_that_is_finished_by_ec():
    calibrated = calibrate(nn.Identity(), LOADER, method="vector+ec")
    fitted = nishimori.calibrators.Consistent("vector").fit(LOGITS, LABELS)
    assert calibrated.method == "vector+ec"
    np.testing.assert_allclose(calibrated.predict_proba(Z), fitted.predict_proba(LOGITS), atol=1e-6)
