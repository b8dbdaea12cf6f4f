"""Folding into a layer that the user names is checked on a probe, or says that it was not checked."""

import re

import pytest
import torch
from small_networks import Named, Returning, X, lin
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
def test_a_layer_named_without_a_probe_gives_a_warning_that_says_how_to_check_it(named, calibrated):
    with pytest.warns(InputWarning) as caught:
        calibrated.fold(named(calibrated.model))
    assert [str(each.message) for each in caught] == [
        "It was not checked that `a` computes the logits, because `probe` was not passed. If another layer computes them, or a "
        "nonlinear function follows, the logits are now wrong. To check it, load the weights of the network again and call "
        "`Calibrated(model, 1.70000005).fold('a', probe=x)`, where x holds some inputs."
    ]
    assert caught[0].filename == __file__


@pytest.mark.parametrize("layer", ["a", "b"])
def test_the_remedy_in_the_warning_checks_the_layer(layer, calibrated):
    weights = {name: each.clone() for name, each in calibrated.model.state_dict().items()}
    expected = calibrated(X)
    with pytest.warns(InputWarning) as caught:
        model = calibrated.fold(layer)
    model.load_state_dict(weights)
    remedy = re.search(r"call `(.+?)`, where", str(caught[0].message))[1]
    if layer == "a":
        with pytest.raises(InputError, match="The folding was undone"):
            eval(remedy, {"Calibrated": Calibrated, "model": model, "x": X})
    else:
        eval(remedy, {"Calibrated": Calibrated, "model": model, "x": X})
        assert torch.allclose(model(X), expected, atol=1e-6)
        assert torch.allclose(calibrated(X), expected, atol=1e-6)


@pytest.mark.parametrize("fold", [lambda m: m.fold(), lambda m: fold_temperature(m.model, 1.7)], ids=["fold", "function"])
def test_the_remedy_in_the_refusal_accepts_only_the_layer_that_computes_the_logits(fold, calibrated):
    expected = calibrated(X)
    with pytest.raises(InputError) as error:
        fold(calibrated)
    assert "Its linear layers are 'b', 'a'. " in str(error.value)
    remedy = re.search(r"is checked: `(.+?)`", str(error.value))[1]
    known = {"Calibrated": Calibrated, "calibrated": calibrated, "model": calibrated.model, "T": 1.7, "x": X}
    with pytest.raises(InputError, match="The folding was undone"):
        eval(remedy, {**known, "name": "a"})
    folded = eval(remedy, {**known, "name": "b"})
    assert torch.allclose(folded(X), expected, atol=1e-6)


def test_a_nonlinear_function_after_a_named_layer_is_noticed_or_said_to_be_unchecked():
    calibrated = Calibrated(Squashed(), 1.7)
    with pytest.raises(InputError, match="if a nonlinear function follows"):
        calibrated.fold("top", probe=X)
    with pytest.warns(InputWarning, match="or a nonlinear function follows"):
        calibrated.fold("top")


def test_a_named_layer_that_the_search_finds_too_gives_no_warning():
    Calibrated(Returning(), 1.7).fold("fc")


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
    assert fold_temperature(network, 1.7) is network.anything
