"""Folding is checked on a probe, which decides the layer, or says that it was not checked."""

import re

import pytest
import torch
from small_networks import Named, Returning, X, fold_unchecked, lin
from torch import nn

from nishimori.errors import InputError, InputWarning
from nishimori.torch import Calibrated, fold_temperature


class Misleading(Named):
    """A network whose layer ``b`` computes the logits and whose layer ``a``, defined later, is unused."""

    def __init__(self):
        super().__init__(b=lin(), a=lin())

    def forward(self, x):
        return self.b(x)


class Squashed(Named):
    """A network with a tanh after its last layer."""

    def __init__(self):
        super().__init__(body=lin(), top=nn.Linear(3, 3))

    def forward(self, x):
        return torch.tanh(self.top(self.body(x)))


@pytest.fixture
def calibrated():
    torch.manual_seed(0)
    return Calibrated(Misleading(), 1.7)


@pytest.mark.parametrize("named", [lambda m: "a", lambda m: m.a], ids=["name", "layer"])
def test_a_layer_without_a_probe_gives_a_warning_that_says_how_to_check_it(named, calibrated):
    with pytest.warns(InputWarning) as caught:
        calibrated.fold(named(calibrated.model), probe=False)
    assert [str(each.message) for each in caught] == [
        "It was not checked that `a` computes the logits, because of `probe=False`. If another layer computes them, or a "
        "nonlinear function follows, the logits are now wrong. To check it, load the weights of the network again and call "
        "`Calibrated(model, 1.70000005).fold('a', probe=x)`, where x holds some inputs."
    ]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("layer", ["a", "b"])
def test_the_remedy_in_the_warning_checks_the_layer(layer, calibrated):
    weights = {name: each.clone() for name, each in calibrated.model.state_dict().items()}
    expected = calibrated(X)
    with pytest.warns(InputWarning) as caught:
        model = calibrated.fold(layer, probe=False)
    model.load_state_dict(weights)
    remedy = re.search(r"call `(.+?)`, where", str(caught[0].message))[1]
    if layer == "a":
        with pytest.raises(InputError, match="The folding was undone"):
            eval(remedy, {"Calibrated": Calibrated, "model": model, "x": X})
    else:
        eval(remedy, {"Calibrated": Calibrated, "model": model, "x": X})
        assert torch.allclose(model(X), expected, atol=1e-6)
        assert torch.allclose(calibrated(X), expected, atol=1e-6)


FOLDS = {"fold": lambda m, probe: m.fold(probe=probe), "function": lambda m, probe: fold_temperature(m.model, 1.7, probe=probe)}


@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
@pytest.mark.parametrize("probe", [None, False])
def test_names_alone_do_not_decide_and_the_remedy_in_the_refusal_does(fold, probe, calibrated):
    expected = calibrated(X)
    with pytest.raises(InputError) as error:
        fold(calibrated, probe)
    assert "Its linear layers are 'b', 'a'. " in str(error.value)
    remedy = re.search(r"computes the logits: `(.+?)`", str(error.value))[1]
    folded = eval(remedy, {"Calibrated": Calibrated, "model": calibrated.model, "T": 1.7, "x": X})
    assert torch.allclose(folded(X), expected, atol=1e-6)
    assert hasattr(folded.b, "folded_temperature")
    assert not hasattr(folded.a, "folded_temperature")


@pytest.mark.parametrize("fold", FOLDS.values(), ids=FOLDS)
def test_without_a_probe_nothing_is_folded_in_silence(fold):
    calibrated = Calibrated(Returning(), 1.7)
    before = calibrated(X)
    with pytest.raises(InputError, match=r"^`probe` must be passed, .*that `fc` computes the logits.*or pass `probe=False`"):
        fold(calibrated, None)
    assert torch.equal(calibrated(X), before)


class Renamed(Named):
    """A network whose logits do not come from the layer with a usual name, which it calls too."""

    def __init__(self):
        super().__init__(fc=lin(), pre_logits=lin())

    def forward(self, x):
        return self.pre_logits(x) + 0 * self.fc(x)


def test_the_probe_decides_against_a_usual_name():
    calibrated = Calibrated(Renamed(), 1.7)
    expected = calibrated(X)
    network = calibrated.fold(probe=X)
    assert torch.allclose(network(X), expected, atol=1e-6)
    assert hasattr(network.pre_logits, "folded_temperature")
    assert not hasattr(network.fc, "folded_temperature")


class CastingLinear(nn.Linear):
    """A linear layer with a ``forward`` of its own, as those of timm."""

    def forward(self, x):
        return nn.functional.linear(x, self.weight.to(x.dtype), self.bias.to(x.dtype))


class CosineLinear(nn.Linear):
    """A linear layer whose output does not depend on the length of its weights."""

    def forward(self, x):
        return nn.functional.linear(x, nn.functional.normalize(self.weight), None)


def test_a_subclass_of_a_linear_layer_is_folded_if_the_probe_agrees():
    for layer, agrees in ((CastingLinear(4, 3), True), (CosineLinear(4, 3), False)):
        calibrated = Calibrated(nn.Sequential(nn.Identity(), layer), 1.7)
        expected = calibrated(X)
        if agrees:
            assert torch.allclose(calibrated.fold(probe=X)(X), expected, atol=1e-6)
        else:
            with pytest.raises(InputError, match="The folding was undone"):
                calibrated.fold(probe=X)
        assert torch.allclose(calibrated(X), expected, atol=1e-6)


def test_a_stem_called_base_layer_is_no_adapter():
    network = type("Dla", (Named,), {"forward": lambda self, x: self.fc(self.base_layer(x))})(
        base_layer=nn.Sequential(lin(), nn.ReLU()), fc=nn.Linear(3, 5)
    )
    calibrated = Calibrated(network, 1.7)
    expected = calibrated(X)
    assert torch.allclose(calibrated.fold(probe=X)(X), expected, atol=1e-6)


def test_a_probe_finds_the_layer_before_a_function_that_keeps_factors():
    network = nn.Sequential(nn.Dropout(0.5), nn.Conv2d(3, 4, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    images = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    calibrated = Calibrated(network, 1.7)
    expected = calibrated(images)
    with pytest.raises(InputError, match="`2` of type ReLU: it is another kind of layer"):
        calibrated.fold(probe=False)
    assert torch.allclose(calibrated.fold(probe=images)(images), expected, atol=1e-6)


class Biased(Named):
    """A network that adds a bias of its own to what its last layer returns, as MarianMT."""

    def __init__(self):
        super().__init__(fc=lin())
        self.register_buffer("final_bias", torch.tensor([3.0, 0.0, -3.0]))

    def forward(self, x):
        return self.fc(x) + self.final_bias


def test_a_bias_after_the_last_layer_is_noticed():
    calibrated = Calibrated(Biased(), 1.7)
    expected = calibrated(X)
    with pytest.raises(InputError, match="The folding was undone"):
        calibrated.fold(probe=X)
    assert torch.equal(calibrated(X), expected)


def test_a_nonlinear_function_after_a_named_layer_is_noticed_or_said_to_be_unchecked():
    calibrated = Calibrated(Squashed(), 1.7)
    with pytest.raises(InputError, match="if a nonlinear function follows"):
        calibrated.fold("top", probe=X)
    with pytest.warns(InputWarning, match="or a nonlinear function follows"):
        calibrated.fold("top", probe=False)


def test_a_named_layer_gives_no_warning_where_nothing_is_divided(calibrated):
    calibrated.temperature.fill_(1)
    calibrated.fold("a")


@pytest.mark.parametrize("probe", [torch.ones(2, 5), (X, X, X), "x"], ids=["another shape", "too many", "text"])
def test_a_probe_that_the_network_does_not_accept_changes_nothing(probe):
    calibrated = Calibrated(Returning(), 1.7)
    before = calibrated(X)
    with pytest.raises((RuntimeError, TypeError)):
        calibrated.fold(probe=probe)
    assert torch.equal(calibrated(X), before)


def test_an_attribute_that_is_set_on_the_wrapper_does_not_reach_the_network(calibrated):
    calibrated.foo = 1
    assert calibrated.foo == 1
    assert not hasattr(calibrated.model, "foo")


def test_the_only_submodule_with_weights_is_found_whatever_its_name():
    network = Named(dropout=nn.Dropout(), anything=lin())
    assert fold_unchecked(network, 1.7) is network.anything
