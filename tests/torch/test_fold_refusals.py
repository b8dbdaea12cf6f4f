"""A network that cannot be folded is left unchanged, and the error says what to do."""

from types import SimpleNamespace

import pytest
import torch
from small_networks import (
    IMAGES,
    VGG,
    Encoder,
    Named,
    built,
    fold_unchecked,
    lin,
)
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

from nishimori.errors import InputError
from nishimori.torch import Calibrated, fold_temperature

WRAP = "keep the calibration in a `nishimori.torch.Calibrated`, which applies it to the logits themselves."
OR_WRAP = f"or {WRAP}"
NAME_ONE = (
    "Pass a probe, some inputs x, which show the layer that computes the logits: `Calibrated(model, T).fold(probe=x)`; or its "
    f"name, `fold(name, probe=x)`; {OR_WRAP}"
)


class Cosine(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, nn.functional.normalize(self.weight), self.bias)


class Adapted(nn.Module):
    """An adapter like those of peft."""

    def __init__(self):
        super().__init__()
        self.base_layer, self.lora_A = nn.Linear(4, 3), nn.Linear(4, 3)


def shared():
    layer = lin()
    return Named(body=nn.Sequential(layer), head=layer)


def one_storage():
    """Tied embeddings: two parameters in the same memory."""
    network = Named(embeddings=nn.Embedding(3, 4), lm_head=lin())
    network.lm_head.weight.data = network.embeddings.weight.data
    return network


def tied_within(name):
    """A head with several layers, the last of them tied, as in masked language models."""
    head = Named(dense=lin(), decoder=nn.Linear(4, 3, bias=False))
    network = Named(embeddings=nn.Embedding(3, 4), **{name: head})
    head.decoder.weight = network.embeddings.weight
    return network


def capped(name, head):
    network = Named(body=lin(), lm_head=head)
    network.body.config = SimpleNamespace(**{name: 30.0})
    return network


def shared_message(one, two, head):
    return (
        f"The network must not share the weight of its last layer, got one tensor for `{one}.weight` and `{two}.weight`, as "
        f"with tied embeddings: folding would change both. Give the last layer its own copy: `layer = model.get_submodule("
        f"{head!r}); layer.weight = torch.nn.Parameter(layer.weight.detach().clone())`; {OR_WRAP}"
    )


def cap_message(name, path):
    return (
        f"The logits of the network must be the output of `{path}`, got a soft cap after it (`config.{name}` is 30): folding "
        f"would not calibrate the logits. Instead, {WRAP}"
    )


def computed_message(kind):
    return (
        f"The network must end in a plain linear layer, got `fc` of type {kind}: its weights are computed from other tensors. "
        f"Make them permanent (`remove_parametrizations`, `remove_weight_norm`, `prune.remove`, ...) first; {OR_WRAP}"
    )


def activated_message(kind):
    return (
        f"The network must end in a plain linear layer, got `1` of type {kind}: it is another kind of layer. Pass the last "
        f"linear layer if its outputs are the logits; {OR_WRAP}"
    )


REFUSED = {
    "tied embeddings": (
        lambda: Encoder("lm_head", tied=True),
        shared_message("embeddings", "lm_head", "lm_head"),
    ),
    "tied embeddings with two parameters": (one_storage, shared_message("embeddings", "lm_head", "lm_head")),
    "tied embeddings, and no usual name": (
        lambda: tied_within("cls"),
        "The last layer of the network must be called fc, classifier, head, heads, lm_head, linear or score, got a Named with "
        "the submodules ['embeddings', 'cls']. Its linear layers are 'cls.dense', 'cls.decoder'. " + NAME_ONE,
    ),
    "tied embeddings, and no usual name within": (
        lambda: tied_within("lm_head"),
        "The last layer of the network must be called fc, classifier, head, heads, lm_head, linear or score, got a Named with "
        "the submodules ['dense', 'decoder']. Its linear layers are 'lm_head.dense', 'lm_head.decoder'. " + NAME_ONE,
    ),
    "a layer used twice": (shared, shared_message("body.0", "head", "head")),
    "a soft cap": (
        lambda: capped("final_logit_softcapping", lin()),
        cap_message("final_logit_softcapping", "lm_head"),
    ),
    "a soft cap after a nested head": (
        lambda: capped("logits_soft_cap", Named(out_proj=lin())),
        cap_message("logits_soft_cap", "lm_head.out_proj"),
    ),
    "a soft cap by its third name": (
        lambda: capped("output_logit_soft_cap", lin()),
        cap_message("output_logit_soft_cap", "lm_head"),
    ),
    "two heads": (
        lambda: Named(body=lin(), head=lin(), aux_head=lin()),
        "The network must have one candidate for its last layer, got 'head' and 'aux_head'. " + NAME_ONE,
    ),
    "two names": (
        lambda: Named(fc=lin(), classifier=lin()),
        "The network must have one candidate for its last layer, got 'fc' and 'classifier'. " + NAME_ONE,
    ),
    "a hidden layer with a usual name": (
        lambda: Named(fc=lin(), norm=nn.LayerNorm(3), out=nn.Sequential(nn.Linear(3, 3))),
        "The network must have one candidate for its last layer, got 'fc' and 'out'. " + NAME_ONE,
    ),
    "no usual name": (
        lambda: Named(first=lin(), last=lin()),
        "The last layer of the network must be called fc, classifier, head, heads, lm_head, linear or score, "
        "got a Named with the submodules ['first', 'last']. Its linear layers are 'first', 'last'. " + NAME_ONE,
    ),
    "no usual name, and many layers": (
        lambda: Named(stack=nn.ModuleList([lin() for _ in range(9)])),
        "The last layer of the network must be called fc, classifier, head, heads, lm_head, linear or score, "
        "got a ModuleList with the submodules ['0', '1', '2', '3', '4', '5', '6', '7', '8']. Its linear layers are ..., "
        "'stack.4', 'stack.5', 'stack.6', 'stack.7', 'stack.8'. " + NAME_ONE,
    ),
    "no usual name, and no linear layer": (
        lambda: Named(embeddings=nn.Embedding(3, 4), norm=nn.LayerNorm(4)),
        "The last layer of the network must be called fc, classifier, head, heads, lm_head, linear or score, "
        "got a Named with the submodules ['embeddings', 'norm']. It has no linear layer. " + NAME_ONE,
    ),
    "no usual name, and one layer": (
        lambda: Named(norm=nn.LayerNorm(4), top=lin()),
        "The last layer of the network must be called fc, classifier, head, heads, lm_head, linear or score, "
        "got a Named with the submodules ['norm', 'top']. Its only linear layer is 'top'. " + NAME_ONE,
    ),
    "softmax": (lambda: nn.Sequential(lin(), nn.Softmax(dim=1)), activated_message("Softmax")),
    "softmax of pixels": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.Softmax2d()), activated_message("Softmax2d")),
    "sigmoid": (lambda: nn.Sequential(lin(), nn.Sigmoid()), activated_message("Sigmoid")),
    "log-softmax": (lambda: nn.Sequential(lin(), nn.LogSoftmax(dim=1)), activated_message("LogSoftmax")),
    "an activation": (
        lambda: VGG(nn.ReLU()),
        "The network must end in a plain linear layer, got `classifier.4` of type ReLU: it is another kind of layer. Pass the "
        "last linear layer if its outputs are the logits; " + OR_WRAP,
    ),
    "nothing linear": (
        lambda: nn.Sequential(nn.Dropout()),
        "The network must end in a plain linear layer, got a Sequential: it has none. Pass the layer itself; " + OR_WRAP,
    ),
    "a parametrisation": (
        lambda: Named(body=lin(), fc=parametrizations.weight_norm(lin())),
        computed_message("ParametrizedLinear"),
    ),
    "spectral norm": (lambda: Named(body=lin(), fc=spectral_norm(lin())), computed_message("Linear")),
    "weight norm": (lambda: Named(body=lin(), fc=weight_norm(lin())), computed_message("Linear")),
    "pruned weights": (
        lambda: Named(body=lin(), fc=prune.l1_unstructured(lin(), "weight", amount=2)),
        computed_message("Linear"),
    ),
    "an adapter": (
        lambda: Named(body=lin(), fc=Adapted()),
        "The network must end in a plain linear layer, got `fc` of type Adapted: an adapter adds to its output. Merge "
        "the adapter into the weights first; " + OR_WRAP,
    ),
    "another forward": (
        lambda: Named(body=lin(), fc=Cosine(4, 3)),
        "The network must end in a plain linear layer, got `fc` of type Cosine: its `forward` is not that of a linear "
        "layer. Pass a probe, some inputs x, so that the result is checked: `fold(probe=x)`; " + OR_WRAP,
    ),
    "no weights yet": (
        lambda: Named(body=lin(), fc=nn.LazyLinear(3)),
        "The network must end in a plain linear layer, got `fc` of type LazyLinear: its weights are not there "
        "yet. Load the weights, or call the model once, before folding; " + OR_WRAP,
    ),
    "weights on meta": (
        lambda: Named(body=lin(), fc=nn.Linear(4, 3, device="meta")),
        "The network must end in a plain linear layer, got `fc` of type Linear: its weights are not there "
        "yet. Load the weights, or call the model once, before folding; " + OR_WRAP,
    ),
    "a Calibrated inside": (
        lambda: Named(body=lin(), head=nn.Sequential(Calibrated(lin(), 2.0))),
        "`model_or_layer` must be a network or a layer, got a Calibrated inside, at `head.0`, which divides its "
        "logits by a temperature of its own. Call its `fold()`, which folds that temperature.",
    ),
    "a Calibrated": (
        lambda: Calibrated(lin(), 2.0),
        "`model_or_layer` must be a network or a layer, got a Calibrated, which divides its logits by a temperature "
        "of its own. Call its `fold()`, which folds that temperature.",
    ),
}


@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.weight_norm:FutureWarning")
@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_a_network_that_cannot_be_folded_is_refused_with_this_message(make, message):
    network = make()
    kept = {
        name: each.clone()
        for name, each in network.state_dict().items()
        if not isinstance(each, nn.UninitializedParameter) and not each.is_meta
    }
    with pytest.raises(InputError) as error:
        fold_temperature(network, 2.0, probe=False)
    assert str(error.value) == message
    assert all(torch.equal(network.state_dict()[name], each) for name, each in kept.items())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_quantised_layer_is_refused():
    network = torch.ao.quantization.quantize_dynamic(Named(body=lin(), fc=lin()), {nn.Linear})
    with pytest.raises(InputError, match=r"its weights are quantised\. Fold before quantising; or keep the calibration in"):
        fold_temperature(network, 2.0)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_layer_can_be_folded_after_its_norm_is_removed():
    old = nn.utils.remove_weight_norm(weight_norm(lin()))
    new = parametrizations.weight_norm(lin())
    parametrize.remove_parametrizations(new, "weight")
    for layer in (old, new):
        fold_temperature(layer, 2.0, probe=torch.ones(1, 4))


def test_folding_twice_is_refused():
    network = built(VGG)
    fold_temperature(network, 2.0, probe=IMAGES)
    with pytest.raises(InputError) as error:
        fold_temperature(network, 3.0, probe=IMAGES)
    assert str(error.value) == (
        "`T` must be folded only once, got 3 for `classifier.3`, which already has a map folded in. If the new T was found "
        "with the folded weights, call `Calibrated(model, T).fold()`. If the weights were replaced after folding, delete the "
        "attribute `folded_temperature` of the layer."
    )


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), "2", True, None])
def test_invalid_temperatures_are_refused(bad):
    with pytest.raises(InputError, match="`T` must be a finite positive number"):
        fold_temperature(lin(), bad)


def test_names_before_the_last_layer_do_not_make_it_ambiguous():
    network = Named(pre_classifier=lin(), fc_norm=nn.LayerNorm(4), conv_head=nn.Conv2d(3, 4, 1), classifier=lin())
    assert fold_unchecked(network, 2.0) is network.classifier


def test_anything_but_a_network_is_refused():
    with pytest.raises(InputError, match=r"`model_or_layer` must be a torch\.nn\.Module, got a Tensor\."):
        fold_temperature(torch.ones(3), 2.0)
