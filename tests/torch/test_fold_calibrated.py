"""`Calibrated.fold` folds and resets T; a `Calibrated` whose network was folded without it says so."""

import copy
import gc
import io
import pickle

import pytest
import reference
import torch
from small_networks import Named, X, lin
from torch import nn

from nishimori.errors import InputError
from nishimori.torch import Calibrated, calibrate, fold_temperature

Z, Y = (torch.tensor(each) for each in reference.drawn(600, 4))


class Net(nn.Module):
    """A network whose last layer has no usual name."""

    def __init__(self):
        super().__init__()
        self.body, self.top = nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 3), nn.Dropout(0.5))

    def forward(self, x):
        return self.top(self.body(x))


@pytest.fixture
def calibrated():
    torch.manual_seed(0)
    return Calibrated(Net(), 1.7).eval()


LAYERS = {
    "a layer": lambda network: network.top[1],
    "its name": lambda network: "top.1",
    "its name in the wrapper": lambda network: "model.top.1",
    "a part that contains it": lambda network: network.top,
    "the name of a part that contains it": lambda network: "top",
}


@pytest.mark.parametrize("named", LAYERS.values(), ids=LAYERS)
def test_the_layer_may_be_passed_or_named(named, calibrated):
    expected = calibrated(X)
    assert calibrated.fold(named(calibrated.model), probe=X) is calibrated.model
    assert calibrated.temperature.item() == 1
    assert torch.allclose(calibrated.model(X), expected, atol=1e-6)
    assert torch.allclose(calibrated(X), expected, atol=1e-6)
    assert calibrated.model.top[1].folded_temperature == pytest.approx(1.7)


def test_without_a_layer_the_error_names_the_candidates(calibrated):
    call = r"`Calibrated\(model, T\)\.fold\(probe=x\)`"
    with pytest.raises(InputError, match=rf"Its linear layers are 'body', 'top\.1'\. .* {call}"):
        calibrated.fold()
    assert calibrated.temperature.item() == pytest.approx(1.7)


@pytest.mark.parametrize(
    ("layer", "got"),
    [
        ("fc", "'fc'"),
        ("model.fc", "'model.fc'"),
        (nn.Linear(4, 3), "a Linear that is not part of it"),
        (3, "a int that is not part of it"),
    ],
    ids=["a name", "a name in the wrapper", "a layer", "a number"],
)
def test_a_layer_that_is_not_in_the_network_is_refused(layer, got, calibrated):
    with pytest.raises(InputError) as error:
        calibrated.fold(layer)
    assert str(error.value) == (
        f"`layer` must be a layer of the network or its name, got {got}. Its linear layers are 'body', 'top.1'."
    )


def test_a_layer_of_a_network_without_linear_layers_is_refused():
    with pytest.raises(InputError, match=r"got 'fc'\. It has no linear layer\."):
        Calibrated(nn.Sequential(nn.ReLU()), 1.7).fold("fc")


def test_the_wrong_layer_is_noticed_with_a_probe(calibrated):
    before = calibrated(X)
    with pytest.raises(InputError, match="The folding was undone"):
        calibrated.fold("body", probe=X)
    assert torch.equal(calibrated(X), before)


def test_a_named_layer_that_is_shared_is_refused():
    network = Named(embeddings=nn.Embedding(3, 4), top=lin())
    network.top.weight = network.embeddings.weight
    with pytest.raises(InputError, match="must not share the weight of its last layer"):
        Calibrated(network, 1.7).fold("top")


def said(T="1.7"):
    return (
        f"The logits must be calibrated only once, got a network with T = {T} folded into the layer, while its `Calibrated` "
        "still applies T = 1.7. Use the network itself, `calibrated.model`, or wrap it again: `Calibrated(calibrated.model)`. "
        "To fold and keep the wrapper, call `calibrated.fold()`, which sets its temperature to 1."
    )


USES = {
    "call": lambda m: m(X),
    "predict_proba": lambda m: m.predict_proba(X),
    "predict": lambda m: m.predict(X),
    "mapped": lambda m: m.mapped(X),
    "fold": lambda m: m.fold("top"),
    "state_dict": lambda m: m.state_dict(),
    "state_dict of a larger module": lambda m: nn.Sequential(m).state_dict(),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_calibrated_whose_layer_was_folded_by_hand_says_so(use, calibrated):
    fold_temperature(calibrated.model.top[1], calibrated.temperature, probe=X)
    with pytest.raises(InputError) as error:
        use(calibrated)
    assert str(error.value) == said()


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "copy", "pickle"]
)
def test_copies_say_so_too_whether_copied_before_or_after_folding(copied, calibrated):
    early = copied(calibrated)
    fold_temperature(early.model.top[1], 1.7, probe=X)
    with pytest.raises(InputError, match="calibrated only once"):
        early(X)
    with pytest.raises(InputError, match="calibrated only once"):
        copied(early)(X)


def test_other_networks_are_not_concerned(calibrated):
    other = copy.deepcopy(calibrated)
    before = other(X)
    fold_temperature(calibrated.model.top[1], 1.7, probe=X)
    fold_temperature(lin(), 3.0, probe=X)
    assert torch.equal(other(X), before)


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_compiled_network_does_not_divide_twice_in_silence(fullgraph, calibrated):
    torch.compiler.reset()
    compiled = torch.compile(calibrated, fullgraph=fullgraph, backend="aot_eager")
    compiled(X)
    fold_temperature(calibrated.model.top[1], 1.7, probe=X)
    with pytest.raises((InputError, torch._dynamo.exc.TorchDynamoException)):
        compiled(X)


REMEDIES = {
    "the network": lambda m: m.model,
    "another wrapper": lambda m: Calibrated(m.model),
    "T set to 1": lambda m: m.temperature.fill_(1) and m,
}


@pytest.mark.parametrize("remedy", REMEDIES.values(), ids=REMEDIES)
def test_the_remedies_divide_once(remedy, calibrated):
    expected = calibrated(X)
    fold_temperature(calibrated.model.top[1], calibrated.temperature, probe=X)
    assert torch.allclose(remedy(calibrated)(X), expected, atol=1e-6)


def test_after_a_remedy_a_new_temperature_can_be_set(calibrated):
    expected = calibrated(X)
    fold_temperature(calibrated.model.top[1], calibrated.temperature, probe=X)
    calibrated.temperature.fill_(1)
    calibrated(X)
    calibrated.temperature.fill_(2)
    assert torch.allclose(calibrated(X), expected / 2, atol=1e-6)


def test_weights_and_temperature_of_a_state_dict_replace_folded_ones(calibrated):
    file = io.BytesIO()
    torch.save(calibrated.state_dict(), file)
    expected = calibrated(X)
    fold_temperature(calibrated.model.top[1], 1.7, probe=X)
    file.seek(0)
    calibrated.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(calibrated(X), expected)


def test_two_wrappers_of_one_network_notice_each_others_folding(calibrated):
    other = Calibrated(calibrated.model, 1.7)
    expected = calibrated(X)
    calibrated.fold("top.1", probe=X)
    assert torch.allclose(calibrated(X), expected, atol=1e-6)
    with pytest.raises(InputError, match=r"with T = 1\.7 folded into `top\.1`, while its `Calibrated` still applies T = 1\.7"):
        other(X)


@pytest.mark.parametrize("inner_folds", [True, False], ids=["inner", "outer"])
def test_a_wrapper_inside_another_may_be_folded(inner_folds, calibrated):
    outer = Calibrated(calibrated, 2.0)
    expected = outer(X)
    (calibrated if inner_folds else outer).fold("top.1" if inner_folds else "model.top.1", probe=X)
    assert torch.allclose(outer(X), expected, atol=1e-6)


def test_a_folded_network_is_calibrated_again_without_complaint():
    network = nn.Sequential(nn.Identity(), nn.Linear(4, 4)).double()
    with torch.no_grad():
        network[1].weight.copy_(torch.eye(4))
        network[1].bias.zero_()
    first = calibrate(network, (Z, Y), method="ec")
    fold_temperature(network, first.temperature, probe=Z)
    again = calibrate(first, (2 * Z, Y), method="ec")
    assert again.temperature.item() == pytest.approx(2, rel=1e-6)
    assert torch.allclose(again(Z), Z / reference.ec_temperature(Z.numpy(), Y.numpy()) / 2, rtol=1e-6)
    again.fold(probe=Z)
    assert calibrate(network, (2 * Z, Y), method="ec").temperature.item() == pytest.approx(1, rel=1e-6)


def test_wrappers_are_not_kept_alive():
    from nishimori.torch._fold import living

    gc.collect()
    before = len(living)
    each = Calibrated(lin(), 2.0)
    assert len(living) == before + 1
    del each
    gc.collect()
    assert len(living) == before
