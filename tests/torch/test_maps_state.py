"""A map with several parameters is saved, loaded, moved and copied with the network."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from mapped_networks import DIAGONAL, FALLBACK, GROUPED, GROUPS, MAPS, TEMPERATURES, K, Network, X
from torch import nn
from torch._subclasses import FakeTensorMode

from nishimori.maps import Affine, ClassTemperatures, GroupTemperatures, LogAffine, Mixture
from nishimori.torch import Calibrated

ALL = {**{name: (map_, {}) for name, (map_, _) in MAPS.items()}, "groups": (GROUPED, {"groups": GROUPS})}
EACH = pytest.mark.parametrize(("map_", "groups"), ALL.values(), ids=ALL)


def saved(calibrated):
    """The state dict after a round trip through a file that may hold tensors only."""
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


NAMES = {
    "number": {"scale", "bias"},
    "matrix": {"scale", "bias"},
    "fallback": {"scale", "bias", "fallback"},
    "classes": {"temperatures"},
    "groups": {"groups", "temperatures", "common"},
    "log": {"matrix", "bias"},
    "log, fallback": {"matrix", "bias", "fallback"},
    "mixture": {"temperature", "weights"},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_state_dict_holds_the_parameters_as_tensors(name):
    state = Calibrated(Network(), ALL[name][0]).state_dict()
    weights = {f"model.{key}" for key in Network().state_dict()}
    assert set(state) == weights | {f"mapping.{key}" for key in NAMES[name]}
    assert all(isinstance(each, torch.Tensor) for each in state.values())


@EACH
def test_a_wrapper_without_a_map_takes_that_of_the_state_dict(map_, groups):
    calibrated = Calibrated(Network(), map_)
    with torch.no_grad():
        calibrated.model.fc.weight.mul_(2)
    fresh = Calibrated(Network())
    fresh.method = "ec"
    fresh.load_state_dict(saved(calibrated))
    assert torch.equal(fresh(X, **groups), calibrated(X, **groups))
    assert (fresh.method, fresh.temperatures, fresh.calibrator) == ("fixed", None, None)
    inside = nn.Sequential(Calibrated(Network()))
    inside.load_state_dict(saved(nn.Sequential(calibrated)))
    assert torch.equal(inside[0](X, **groups), calibrated(X, **groups))


@EACH
def test_a_state_dict_in_safetensors_loads_too(map_, groups, tmp_path):
    files = pytest.importorskip("safetensors.torch")
    calibrated = Calibrated(Network(), map_)
    files.save_file(calibrated.state_dict(), tmp_path / "calibrated.safetensors")
    fresh = Calibrated(Network())
    fresh.load_state_dict(files.load_file(tmp_path / "calibrated.safetensors"))
    assert torch.equal(fresh(X, **groups), calibrated(X, **groups))


OTHERS = {
    "number": Affine(np.ones(K), np.zeros(K)),
    "fallback": Affine(0.3, np.zeros(K)),
    "classes": ClassTemperatures(np.ones(K)),
    "groups": GroupTemperatures(("x",), [3.0], 1.0),
    "log": LogAffine(np.eye(K), np.zeros(K)),
    "mixture": Mixture(1.0, [1.0, 0.0, 0.0]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_map_of_the_same_kind_and_number_of_classes_is_replaced(name):
    map_, groups = ALL[name]
    calibrated = Calibrated(Network(), map_)
    other = Calibrated(Network(), OTHERS[name])
    other.load_state_dict(saved(calibrated))
    assert torch.equal(other(X, **groups), calibrated(X, **groups))


def test_a_map_is_kept_where_a_state_dict_holds_none():
    calibrated = Calibrated(Network(), MAPS["matrix"][0])
    calibrated.method, before = "matrix", calibrated(X)
    calibrated.load_state_dict({}, strict=False)
    assert calibrated.method == "matrix"
    assert torch.equal(calibrated(X), before)


REPLACED = {
    "one temperature": (ALL["matrix"], (1.7, {})),
    "another kind": (ALL["classes"], (GROUPED, {"groups": GROUPS})),
    "another number of classes": ((Affine(0.5, np.zeros(3)), {}), ALL["number"]),
    "a map": ((1.7, {}), ALL["matrix"]),
}


@pytest.mark.parametrize(("mine", "loaded"), REPLACED.values(), ids=REPLACED)
def test_a_state_dict_brings_its_own_map(mine, loaded):
    calibrated, other = Calibrated(Network(), mine[0]), Calibrated(Network(), loaded[0])
    calibrated.load_state_dict(saved(other))
    assert torch.equal(calibrated(X, **loaded[1]), other(X, **loaded[1]))
    assert calibrated.state_dict().keys() == other.state_dict().keys()
    assert calibrated.n_classes == other.n_classes


def test_parameters_of_no_map_are_left_to_pytorch():
    state = {**Calibrated(Network()).state_dict(), "mapping.shift": torch.ones(3)}
    with pytest.raises(RuntimeError, match=r'Unexpected key.*"mapping\.shift"'):
        Calibrated(Network()).load_state_dict(state)


@EACH
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copies_have_the_same_map(copied, map_, groups):
    calibrated = Calibrated(Network(), map_)
    other = copied(calibrated)
    assert torch.equal(other(X, **groups), calibrated(X, **groups))
    assert other.mapping is not calibrated.mapping


@EACH
def test_a_map_moves_with_the_network_and_back_from_meta(map_, groups):
    calibrated = Calibrated(Network(), map_)
    state = saved(calibrated)
    with torch.device("meta"):
        empty = Calibrated(Network())
    assert empty.temperature.is_meta
    empty.load_state_dict(state, assign=True)
    assert torch.equal(empty(X, **groups), calibrated(X, **groups))
    moved = copy.deepcopy(calibrated).to("meta")
    assert all(each.is_meta for each in moved.mapping.buffers())
    moved.half().to_empty(device="cpu").load_state_dict(state)
    floating = [each for each in moved.mapping.buffers() if each.is_floating_point()]
    assert {each.dtype for each in floating} == {torch.float32}
    assert torch.allclose(moved.float()(X, **groups), calibrated(X, **groups), rtol=1e-2, atol=1e-1)


def test_parameters_are_moved_to_logits_on_another_device():
    calibrated = Calibrated(nn.Identity(), MAPS["classes"][0])
    with FakeTensorMode():  # which simulates absent devices, without values
        calibrated.mapping.temperatures = torch.empty(K, device="cuda")
        assert calibrated(torch.empty(6, K)).device.type == "cpu"


@EACH
def test_parameters_loaded_in_half_precision_become_float32(map_, groups):
    halved = {
        name: each.half() if each.is_floating_point() else each
        for name, each in Calibrated(Network(), map_).state_dict().items()
    }
    calibrated = Calibrated(Network())
    calibrated.load_state_dict(halved, assign=True)
    assert calibrated.fc.weight.dtype == torch.float16
    floating = [each for each in calibrated.mapping.buffers() if each.is_floating_point()]
    assert {each.dtype for each in floating} == {torch.float32}


SHOWN = {
    "number": "Affine(n_classes=5, scale=number)",
    "diagonal": "Affine(n_classes=5, scale=diagonal)",
    "fallback": "Affine(n_classes=5, scale=matrix, preserve_accuracy=True)",
    "classes": "ClassTemperatures(n_classes=5)",
    "groups": "GroupTemperatures()",
    "log": "LogAffine(n_classes=5)",
    "log, fallback": "LogAffine(n_classes=5, preserve_accuracy=True)",
    "mixture": "Mixture()",
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_wrapper_shows_its_map(name):
    assert repr(Calibrated(nn.Identity(), ALL[name][0])) == (
        f"Calibrated(\n  method='fixed'\n  (mapping): {SHOWN[name]}\n  (model): Identity()\n)"
    )


@pytest.mark.parametrize("name", ["matrix", "classes", "groups", "log", "mixture"])
def test_a_wrapper_with_other_parameters_has_no_temperature_even_if_its_network_has(name):
    network = Network()
    network.temperature = 5.0
    calibrated = Calibrated(network, ALL[name][0])
    assert not hasattr(calibrated, "temperature")
    with pytest.raises(AttributeError, match="'Calibrated' object has no attribute 'temperature'"):
        _ = calibrated.temperature


def test_the_map_has_the_parameters_of_the_buffers_as_they_are_now():
    calibrated = Calibrated(Network(), Affine(DIAGONAL, np.zeros(K), FALLBACK))
    calibrated.mapping.bias.fill_(0.25)
    found = calibrated.map
    np.testing.assert_allclose(found.bias, 0.25)
    np.testing.assert_allclose(found.scale, DIAGONAL, rtol=1e-7)
    assert found.fallback == pytest.approx(FALLBACK)
    classes = Calibrated(Network(), ClassTemperatures(TEMPERATURES)).map
    np.testing.assert_allclose(classes.temperatures, TEMPERATURES, rtol=1e-7)
    groups = Calibrated(Network(), GROUPED).map
    assert groups.groups == ("a", "b", "c")
    assert groups.common == 2
    np.testing.assert_allclose(groups.temperatures, [1.5, 2.5, 0.8], rtol=1e-7)
    one = Calibrated(Network(), 1.7)
    one.temperature.fill_(3)
    assert one.map.temperature == 3
