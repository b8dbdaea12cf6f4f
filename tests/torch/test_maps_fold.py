"""Affine maps fold into the last layer exactly; maps that weights cannot hold are refused."""

import copy

import numpy as np
import pytest
import torch
from mapped_networks import BIAS, GROUPED, MAPS, MATRIX, K, Network, X, affine, logits
from small_networks import DTYPES, deviation
from torch import nn
from torch.nn.utils import parametrizations

from nishimori.errors import InputError, InputWarning
from nishimori.maps import Affine
from nishimori.torch import Calibrated, fold_temperature

AFFINE = pytest.mark.parametrize("name", ["number", "diagonal", "matrix"])
INSTEAD = "keep the calibration in a `nishimori.torch.Calibrated`, which applies it to the logits themselves."


@AFFINE
def test_folded_logits_are_those_of_the_definition(name):
    map_, definition = MAPS[name]
    calibrated = Calibrated(Network(), map_)
    expected = definition(logits(calibrated.model))
    parameters = list(calibrated.model.parameters())
    assert calibrated.fold(probe=X) is calibrated.model
    assert all(one is two for one, two in zip(calibrated.model.parameters(), parameters, strict=True))
    np.testing.assert_allclose(logits(calibrated.model), expected, atol=1e-4)
    np.testing.assert_allclose(calibrated(X).detach(), expected, atol=1e-4)
    assert calibrated.temperature.item() == 1
    assert set(calibrated.state_dict()) == {*Calibrated(Network()).state_dict(), "n_classes"}
    assert calibrated.model.fc.folded_map == "affine"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_probe_allows_for_the_rounding_of_the_weights(dtype):
    calibrated = Calibrated(Network().to(dtype), MAPS["matrix"][0])
    x = X.to(dtype)
    before = calibrated.model(x).detach()
    calibrated.fold(probe=x)
    parameters = (np.float32(each).astype(float) for each in (MATRIX, BIAS))  # as buffers hold them
    expected = torch.tensor(affine(before.double().numpy(), *parameters))
    assert deviation(calibrated.model(x).detach().double(), expected) <= 3 * DTYPES[dtype]


@pytest.mark.parametrize("flat", [True, False], ids=["(n,)", "(n, 1)"])
def test_one_output_unit_folds_as_a_binary_score(flat):
    matrix, bias = np.array([[1.5, 0.3], [-0.2, 0.8]]), np.array([0.4, -0.1])
    calibrated = Calibrated(Network(lambda z: z[:, 0] if flat else z, n_out=1), Affine(matrix, bias))
    z = logits(calibrated.model).reshape(-1)
    u = affine(np.stack([np.zeros(6), z], axis=1), matrix, bias)
    calibrated.fold(probe=X)
    np.testing.assert_allclose(logits(calibrated.model).reshape(-1), u[:, 1] - u[:, 0], atol=1e-5)


def test_a_layer_without_a_bias_gets_one_and_a_warning():
    calibrated = Calibrated(Network(bias=False), MAPS["matrix"][0])
    expected = affine(logits(calibrated.model), MATRIX)
    with pytest.warns(InputWarning) as caught:
        calibrated.fold(probe=X)
    assert str(caught[0].message) == (
        "`fc` had no bias and has one now, which contains that of the affine map. A file of these weights must be loaded into "
        "a network whose last layer has a bias."
    )
    assert caught[0].filename == __file__
    np.testing.assert_allclose(logits(calibrated.model), expected, atol=1e-4)
    assert isinstance(calibrated.model.fc.bias, nn.Parameter)
    copy.deepcopy(Network()).load_state_dict(calibrated.model.state_dict())


def test_a_layer_without_a_bias_stays_without_where_the_map_has_none():
    calibrated = Calibrated(Network(bias=False), Affine(MATRIX, np.zeros(K)))
    expected = affine(logits(calibrated.model), MATRIX, 0.0)
    calibrated.fold(probe=X)
    assert calibrated.model.fc.bias is None
    np.testing.assert_allclose(logits(calibrated.model), expected, atol=1e-4)


class Convolution(nn.Module):
    """A head of 1 x 1 convolutions, which is averaged over the image."""

    def __init__(self, pool=None, groups=1, n_out=K):
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(5, n_out, 3, groups=groups), pool or nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        return self.head(x)


IMAGES = torch.randn(4, 5, 6, 6, generator=torch.Generator().manual_seed(0))


def test_a_convolution_folds_with_a_probe():
    calibrated = Calibrated(Convolution(), MAPS["matrix"][0])
    expected = affine(logits(calibrated.model, IMAGES), MATRIX)
    calibrated.fold(probe=IMAGES)
    np.testing.assert_allclose(logits(calibrated.model, IMAGES), expected, atol=1e-5)


def test_pooling_that_changes_a_bias_is_noticed():
    network = Convolution(nn.AvgPool2d(4, padding=1, stride=8))  # the zeros of the padding count, and have no bias
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(InputError, match=r"differ from the calibrated logits by .* The folding was undone"):
        Calibrated(network, MAPS["matrix"][0]).fold(probe=IMAGES)
    assert all(torch.equal(each, before[name]) for name, each in network.state_dict().items())


class Squashed(Network):
    def forward(self, x):
        return torch.tanh(super().forward(x))


def test_a_function_after_the_layer_is_noticed_and_an_added_bias_is_removed():
    network = Squashed(bias=False)
    before = copy.deepcopy(network.state_dict())
    calibrated = Calibrated(network, MAPS["diagonal"][0])
    with pytest.raises(InputError, match=r"differ from the calibrated logits by .* The folding was undone"):
        calibrated.fold(probe=X)
    assert network.fc.bias is None
    assert all(torch.equal(each, before[name]) for name, each in network.state_dict().items())
    assert calibrated.mapping is not None


def tied():
    network = Network()
    network.embeddings = nn.Embedding(K, 8)
    network.embeddings.weight = network.fc.weight
    return network


FOLDING = "The map must be one temperature or an affine function of the logits to be folded into weights, got "
REFUSED = {
    "classes": (
        lambda: Calibrated(Network(), MAPS["classes"][0]).fold(probe=X),
        FOLDING + f"the temperatures of the predicted classes; weights alone cannot express that. Instead, {INSTEAD}",
    ),
    "groups": (
        lambda: Calibrated(Network(), GROUPED).fold(probe=X),
        FOLDING + f"the temperatures of the groups; weights alone cannot express that. Instead, {INSTEAD}",
    ),
    "fallback": (
        lambda: Calibrated(Network(), MAPS["fallback"][0]).fold(probe=X),
        FOLDING + f"an affine map with `preserve_accuracy=True`; weights alone cannot express that. Instead, {INSTEAD}",
    ),
    "mixture": (
        lambda: Calibrated(Network(), MAPS["mixture"][0]).fold(probe=X),
        FOLDING + f"the mixture of probabilities; weights alone cannot express that. Instead, {INSTEAD}",
    ),
    "log-probabilities": (
        lambda: Calibrated(Network(), MAPS["log"][0]).fold(probe=X),
        FOLDING + f"the affine map of log-probabilities; weights alone cannot express that. Instead, {INSTEAD}",
    ),
    "another number of classes": (
        lambda: Calibrated(Network(n_out=4), MAPS["matrix"][0]).fold(),
        "The last layer must have one output per class of the affine map, which has 5, got `fc` with 4. Pass the layer that "
        "computes the logits.",
    ),
    "no probe": (
        lambda: Calibrated(Convolution(), MAPS["matrix"][0]).fold(),
        "`probe` must be passed, some inputs x of the network, got none: without them nothing shows that `head.0` "
        "computes the logits, and that no function follows it. Call `calibrated.fold(probe=x)`; or pass `probe=False`, and "
        "compare the logits before and after folding yourself.",
    ),
    "pixels": (
        lambda: Calibrated(Convolution(nn.Identity()).head[0], MAPS["matrix"][0]).fold(probe=IMAGES),
        "`model` must return logits whose last dimension holds the 5 classes of the map, got 4 in shape (4, 5, 4, 4). If "
        "dimension 1 holds the classes, pass `class_axis=1` to `calibrate` or `Calibrated`.",
    ),
    "a masked class": (
        lambda: Calibrated(masked(), MAPS["matrix"][0]).fold(probe=False),
        f"The weights of `fc` must stay finite, got an overflow of torch.float32 when the affine map is folded in. "
        f"The folding was undone. Fold in a wider dtype; or {INSTEAD}",
    ),
    "tied weights": (
        lambda: Calibrated(tied(), MAPS["matrix"][0]).fold(),
        "The network must not share the weight of its last layer, got one tensor for `fc.weight` and `embeddings.weight`, as "
        f"with tied embeddings: folding would change both. Give the last layer its own copy: "
        "`layer = model.get_submodule('fc'); "
        f"layer.weight = torch.nn.Parameter(layer.weight.detach().clone())`; or {INSTEAD}",
    ),
    "a parametrised layer": (
        lambda: Calibrated(normed(), MAPS["matrix"][0]).fold(),
        "The network must end in a plain linear layer, got `fc` of type ParametrizedLinear: its weights are computed from "
        "other tensors. Make them permanent (`remove_parametrizations`, `remove_weight_norm`, `prune.remove`, ...) first; or "
        f"{INSTEAD}",
    ),
}


def masked():
    network = Network()
    with torch.no_grad():
        network.fc.bias[1] = -torch.inf
    return network


def normed():
    network = Network()
    parametrizations.weight_norm(network.fc)
    return network


@pytest.mark.parametrize(("call", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_folded_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_a_convolution_in_groups_which_cannot_mix_classes_is_refused():
    with pytest.raises(
        InputError, match=r"the output of `head\.0`, but after folding the logits on `probe` differ .* was undone"
    ):
        Calibrated(Convolution(groups=5), MAPS["matrix"][0]).fold(probe=IMAGES)


def test_a_layer_that_was_named_but_not_checked_gives_a_warning():
    network = nn.ModuleDict({"top": nn.Linear(4, K), "last": nn.Linear(4, K)})
    with pytest.warns(InputWarning, match=r"call `Calibrated\(model, map\)\.fold\('top', probe=x\)`, where x"):
        Calibrated(network, MAPS["matrix"][0]).fold("top", probe=False)


def test_a_temperature_is_not_folded_over_a_map_by_mistake():
    network = Calibrated(Network(), MAPS["matrix"][0]).fold(probe=X)
    with pytest.raises(InputError) as error:
        fold_temperature(network, 2.0, probe=X)
    assert str(error.value) == (
        "`T` must be folded only once, got 2 for `fc`, which already has a map folded in. If the new T was found with "
        "the folded weights, call `Calibrated(model, T).fold()`. If the weights were replaced after folding, delete the "
        "attribute `folded_map` of the layer."
    )


def test_a_map_folds_into_a_network_with_a_temperature_of_its_own():
    network = Network()
    network.temperature = 5.0
    calibrated = Calibrated(network, MAPS["number"][0])
    calibrated.fold(probe=X)
    assert calibrated.temperature.item() == 1


def once(folded, still):
    return (
        f"The logits must be calibrated only once, got a network with {folded} folded into `fc`, while its `Calibrated` still "
        f"applies {still}. Use the network itself, `calibrated.model`, or wrap it again: `Calibrated(calibrated.model)`. To "
        "fold and keep the wrapper, call `calibrated.fold()`, which sets its temperature to 1."
    )


OUTSIDE = {
    "a map under a temperature": (MAPS["matrix"][0], 1.7, once("the affine map", "T = 1.7")),
    "a temperature under a map": (1.7, MAPS["matrix"][0], once("T = 1.7", "the affine map")),
    "a map under temperatures": (
        MAPS["matrix"][0],
        MAPS["classes"][0],
        once("the affine map", "the temperatures of the predicted classes"),
    ),
    "a map under a mixture": (
        MAPS["matrix"][0],
        MAPS["mixture"][0],
        once("the affine map", "the mixture of probabilities"),
    ),
    "a temperature under log-probabilities": (
        1.7,
        MAPS["log"][0],
        once("T = 1.7", "the affine map of log-probabilities"),
    ),
}


@pytest.mark.parametrize(("folded", "mine", "message"), OUTSIDE.values(), ids=OUTSIDE)
def test_two_wrappers_of_one_network_notice_each_others_folding(folded, mine, message):
    network = Network()
    other = Calibrated(network, mine)
    Calibrated(network, folded).fold(probe=X)
    with pytest.raises(InputError) as error:
        other(X)
    assert str(error.value) == message


NESTED = {
    "an affine map over a temperature": (1.7, MAPS["matrix"][0], "the affine map", "T = 1.7"),
    "a temperature over an affine map": (MAPS["matrix"][0], 1.7, "T = 1.7", "the affine map"),
    "an affine map over temperatures": (
        MAPS["classes"][0],
        MAPS["matrix"][0],
        "the affine map",
        "the temperatures of the predicted classes",
    ),
}


@pytest.mark.parametrize(("inner", "outer", "folded", "applied"), NESTED.values(), ids=NESTED)
def test_a_map_is_not_folded_below_another_one(inner, outer, folded, applied):
    network = nn.Sequential(Calibrated(Network(), inner))
    before = copy.deepcopy(network.state_dict())
    with pytest.raises(InputError) as error:
        Calibrated(network, outer).fold()
    assert str(error.value) == (
        f"The network must not contain another Calibrated to fold {folded}, got one at `0` that applies {applied} after the "
        f"last layer. Fold that one first, by its own `fold()`; or {INSTEAD}"
    )
    assert all(torch.equal(each, before[name]) for name, each in network.state_dict().items())


def test_a_map_is_folded_below_another_one_that_was_folded():
    inner = Calibrated(Network(), MAPS["diagonal"][0])
    outer = Calibrated(inner, MAPS["matrix"][0])
    expected = affine(MAPS["diagonal"][1](logits(inner.model)), MATRIX)
    inner.fold(probe=X)
    outer.fold(probe=X)
    np.testing.assert_allclose(logits(outer.model), expected, atol=1e-4)


class Saving(Network):
    def save_pretrained(self, path, state_dict=None):
        return path, self.fc


def test_saving_methods_write_a_copy_with_the_map_folded_in():
    calibrated = Calibrated(Saving(), MAPS["matrix"][0])
    before = copy.deepcopy(calibrated.model.state_dict())
    _, layer = calibrated.save_pretrained("folder", probe=X)
    centring = np.eye(K) - 1 / K
    W, b = (before[f"fc.{name}"].double().numpy() for name in ("weight", "bias"))
    np.testing.assert_allclose(layer.weight.detach(), MATRIX @ centring @ W, atol=1e-5)
    np.testing.assert_allclose(layer.bias.detach(), MATRIX @ centring @ b + BIAS, atol=1e-5)
    assert all(torch.equal(each, before[name]) for name, each in calibrated.model.state_dict().items())


SAVING = {
    "groups": (
        lambda: Calibrated(Saving(), GROUPED).save_pretrained("folder"),
        FOLDING + f"the temperatures of the groups; weights alone cannot express that. Instead, {INSTEAD}",
    ),
    "a state dict": (
        lambda: Calibrated(Saving(), MAPS["matrix"][0]).save_pretrained("folder", state_dict={"fc": 1}),
        "`state_dict` must be left out of `save_pretrained`, got one: its weights do not contain the affine map. Call "
        "`calibrated.fold()` first, and pass the state dict of the folded network.",
    ),
    "no bias": (
        lambda: Calibrated(Saving(bias=False), MAPS["matrix"][0]).save_pretrained("folder", probe=X),
        "The last layer must have a bias, or the file would contain a tensor that the class of the network does not know, got "
        "`fc` without one. Call `calibrated.fold(probe=x)` first, which adds one; or save `calibrated.state_dict()`.",
    ),
}


@pytest.mark.parametrize(("call", "message"), SAVING.values(), ids=SAVING)
def test_what_cannot_be_saved_in_the_networks_own_format_is_refused_with_this_message(call, message):
    with pytest.raises(InputError) as error:
        call()
    assert str(error.value) == message


def test_a_copy_with_another_map_inside_is_not_saved():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Calibrated(Network(), 1.7)

        def save_pretrained(self, folder):
            raise AssertionError("must not be saved")

    with pytest.raises(InputError, match=r"another Calibrated to fold the affine map, got one at `inner` that"):
        Calibrated(Outer(), MAPS["matrix"][0]).save_pretrained("folder")
