"""Folding divides the logits of a network by T exactly, or leaves it untouched and says what to do."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

import reference
from nishimori import InputError
from nishimori.paper import models
from nishimori.torch import Calibrated, calibrate, fold_temperature
from nishimori.torch._fold import _tolerance

IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randint(0, 20, (4, 6), generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)
        self.conv2, self.bn2 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)

    def forward(self, x):
        return torch.relu(x + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


class ResNet(nn.Module):
    """As for CIFAR, with its layer called ``linear``."""

    def __init__(self, name="linear"):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.layer1, self.layer2 = Block(8), Block(8)
        self.dropout = nn.Dropout(0.5)
        self.name = name
        self.add_module(name, nn.Linear(8, 10))

    def forward(self, x):
        x = self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x)))))
        return getattr(self, self.name)(self.dropout(x.mean(dim=(2, 3))))


class VGG(nn.Module):
    def __init__(self, *tail):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.classifier = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 10), *tail)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def fully_convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 10, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )


class Encoder(nn.Module):
    """As in transformers: keywords in, an object with logits out, embeddings tied to the head if wanted."""

    def __init__(self, name="classifier", *, tied=False):
        super().__init__()
        self.embeddings = nn.Embedding(20, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.name = name
        self.add_module(name, nn.Linear(16, 20 if tied else 3, bias=not tied))
        if tied:
            getattr(self, name).weight = self.embeddings.weight

    def forward(self, input_ids, attention_mask=None):
        return SimpleNamespace(logits=getattr(self, self.name)(self.encoder(self.embeddings(input_ids)).mean(dim=1)))


class NestedHead(nn.Module):
    """A head with layers of its own, as of RoBERTa."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 8)
        self.classifier = nn.Module()
        self.classifier.dense, self.classifier.out_proj = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.classifier.out_proj(torch.tanh(self.classifier.dense(self.body(x).flatten(1))))


class Lightning(nn.Module):
    """A wrapper with a loss and a network."""

    def __init__(self):
        super().__init__()
        self.loss, self.network = nn.CrossEntropyLoss(), VGG()

    def forward(self, x):
        return self.network(x)


ZOO = {
    "ResNet for CIFAR": (ResNet, IMAGES),
    "ResNet with fc": (lambda: ResNet("fc"), IMAGES),
    "ResNet with head": (lambda: ResNet("head"), IMAGES),
    "Sequential classifier": (VGG, IMAGES),
    "classifier, then dropout": (lambda: VGG(nn.Dropout(0.5), nn.Identity()), IMAGES),
    "1x1 convolution": (fully_convolutional, IMAGES),
    "transformer": (Encoder, {"input_ids": TOKENS}),
    "language model": (lambda: Encoder("lm_head"), TOKENS),
    "nested head": (NestedHead, IMAGES),
    "wrapper": (Lightning, (IMAGES,)),
}
DTYPES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1e-2}
NETWORKS = pytest.mark.parametrize(("make", "probe"), ZOO.values(), ids=ZOO)


def built(make, dtype=torch.float32):
    torch.manual_seed(0)
    return make().to(dtype).eval()


def logits(network, probe, dtype=torch.float32):
    def cast(x):
        return x.to(dtype) if x.is_floating_point() else x

    with torch.no_grad():
        if isinstance(probe, dict):
            output = network(**{name: cast(each) for name, each in probe.items()})
        else:
            output = network(cast(probe[0] if isinstance(probe, tuple) else probe))
    return (output if isinstance(output, torch.Tensor) else output.logits).double()


def deviation(folded, expected):
    return ((folded - expected).abs().max() / expected.abs().max()).item()


@pytest.mark.parametrize("T", [0.37, 1.7, 12.3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@NETWORKS
def test_folded_logits_are_the_logits_divided_by_the_temperature(make, probe, dtype, T):
    network = built(make, dtype)
    before = logits(network, probe, dtype)
    fold_temperature(network, T)
    assert deviation(logits(network, probe, dtype), before / T) <= DTYPES[dtype]


@NETWORKS
def test_the_probe_agrees_with_what_was_folded(make, probe):
    network = built(make)
    before = logits(network, probe)
    layer = fold_temperature(network, torch.tensor(1.7), probe=probe)
    assert layer in list(network.modules())
    assert layer.folded_temperature == pytest.approx(1.7)
    assert deviation(logits(network, probe), before / 1.7) <= 1e-5


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_the_probe_allows_for_the_rounding_of_the_weights(dtype):
    fold_temperature(built(ResNet, dtype), 1.7, probe=IMAGES.to(dtype))


def test_the_probe_allows_for_autocast():
    network = built(VGG)
    network.classifier.register_forward_hook(lambda module, args, output: output.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fold_temperature(network, 1.7, probe=IMAGES)


CONVOLUTIONS = [nn.Conv1d, nn.Conv2d, nn.Conv3d]
POOLS = [nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d]
DROPOUTS = [nn.Dropout1d, nn.Dropout2d, nn.Dropout3d]
FOLLOWING = [
    *((convolution, pool(2)) for convolution, pool in zip(2 * CONVOLUTIONS, POOLS, strict=True)),
    *((convolution, dropout()) for convolution, dropout in zip(CONVOLUTIONS, DROPOUTS, strict=True)),
    *((nn.Conv1d, each) for each in (nn.Dropout(), nn.AlphaDropout(), nn.FeatureAlphaDropout())),
    *((nn.Conv1d, each) for each in (nn.Identity(), nn.Flatten(), nn.Unflatten(1, (2, 2)))),
]


@pytest.mark.parametrize(
    ("convolution", "following"), FOLLOWING, ids=lambda each: getattr(each, "__name__", type(each).__name__)
)
def test_what_averages_moves_or_does_nothing_in_eval_mode_may_follow_the_last_layer(convolution, following):
    network = nn.Sequential(convolution(3, 4, 1), following)
    x = torch.randn(2, 3, *[4] * (CONVOLUTIONS.index(convolution) + 1))
    assert fold_temperature(network, 1.7, probe=x) is network[0]


def cancelling(mean):
    """A layer and its inputs, whose large terms cancel in the logits."""
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(10 * mean, 3, bias=False)
    x = torch.randn(8, 10 * mean, generator=generator)
    with torch.no_grad():
        layer.weight.copy_(mean + torch.randn(layer.weight.shape, generator=generator))
    return layer, x - x.mean(dim=1, keepdim=True)


def test_the_probe_allows_for_terms_that_cancel():
    layer, x = cancelling(100)
    fold_temperature(layer, 1.7, probe=x)


def test_where_rounding_is_too_much_the_error_names_a_remedy_that_works():
    layer, x = cancelling(1000)
    with pytest.raises(InputError, match=r"Rounding in torch\.float32 can do this too: fold in a wider dtype\."):
        fold_temperature(layer, 1.7, probe=x)
    fold_temperature(layer.double(), 1.7, probe=x.double())


def test_the_probe_allows_for_tf32_on_a_gpu_however_its_use_was_asked_for(monkeypatch):
    if hasattr(torch.backends.cudnn, "rnn"):  # then `torch.backends.cudnn.allow_tf32` cannot be read
        monkeypatch.setattr(torch.backends.cudnn.rnn, "fp32_precision", "ieee")
    with FakeTensorMode():
        z = torch.empty(3, device="cuda")
        assert _tolerance(z, z) == _tolerance(z.half(), z.half())


def test_weights_that_would_overflow_are_left_as_they_were():
    layer = lin().half()
    kept = copy.deepcopy(layer)
    with pytest.raises(
        InputError, match=r"must stay finite, got an overflow of torch\.float16 when divided by 1e-07\. The fold"
    ):
        fold_temperature(layer, 1e-7)
    assert same(layer, kept)
    assert not hasattr(layer, "folded_temperature")
    fold_temperature(layer.float(), 1e-7)


def test_a_class_that_is_masked_by_its_bias_stays_so():
    layer = lin()
    with torch.no_grad():
        layer.bias[1] = -torch.inf
    fold_temperature(layer, 2.0, probe=torch.ones(1, 4))
    assert layer.bias[1] == -torch.inf


def test_weights_may_lie_side_by_side_in_one_storage():
    network = Named(body=lin(), fc=lin())
    flat = torch.cat([each.detach().flatten() for each in network.parameters()])
    end = 0
    for each in network.parameters():
        each.data = flat[end : end + each.numel()].view_as(each)
        end += each.numel()
    kept = copy.deepcopy(network)
    fold_temperature(network, 2.0)
    assert torch.equal(network.fc.weight, kept.fc.weight / 2)
    assert same(network.body, kept.body)


def test_a_classifier_of_a_network_whose_language_model_is_capped_folds():
    network = Named(score=lin())
    network.config = SimpleNamespace(final_logit_softcapping=30.0)
    assert fold_temperature(network, 2.0) is network.score


def test_a_language_model_without_a_cap_folds():
    network = Named(lm_head=lin())
    network.config = SimpleNamespace(final_logit_softcapping=None)
    assert fold_temperature(network, 2.0) is network.lm_head


def test_the_layer_itself_may_be_passed():
    network = nn.ModuleDict({"one": nn.Linear(4, 3), "two": nn.Linear(4, 3)})
    before = copy.deepcopy(network)
    assert fold_temperature(network["one"], 2.0, probe=torch.ones(1, 4)) is network["one"]
    assert torch.equal(network["one"].weight, before["one"].weight / 2)
    assert torch.equal(network["one"].bias, before["one"].bias / 2)
    assert torch.equal(network["two"].weight, before["two"].weight)


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda m: torch.compile(m, backend="eager")], ids=["parallel", "compiled"])
def test_wrappers_are_looked_through(wrap):
    network = built(VGG)
    assert fold_temperature(wrap(network), 1.7) is network.classifier[3]


def test_gradients_and_modes_are_as_before():
    network = built(VGG).train()
    network.features.eval()
    fold_temperature(network, 1.7, probe=IMAGES)
    assert network.training
    assert not network.features.training
    assert all(each.requires_grad and each.is_leaf for each in network.parameters())


def test_folding_what_calibrate_found_and_calibrating_again_gives_one():
    z, y = reference.drawn(600, 4)
    network = nn.Sequential(nn.Identity(), nn.Linear(4, 4)).double()
    loader = [(torch.tensor(z), torch.tensor(y))]
    with torch.no_grad():
        network[1].weight.copy_(torch.eye(4))
        network[1].bias.zero_()
    calibrated = calibrate(network, loader)
    before = calibrated(loader[0][0])
    assert calibrated.fold(probe=loader[0][0]) is network
    assert calibrated.temperature.item() == 1
    assert torch.allclose(network(loader[0][0]), before)
    assert torch.allclose(calibrated(loader[0][0]), before)
    assert calibrate(network, loader).temperature.item() == pytest.approx(1, abs=1e-6)


def test_folding_a_calibrated_network_again_changes_nothing():
    calibrated = Calibrated(built(VGG), 1.7)
    calibrated.fold()
    before = calibrated(IMAGES)
    calibrated.fold()
    assert torch.equal(calibrated(IMAGES), before)


def test_a_temperature_found_on_top_of_a_folded_one_multiplies():
    network = built(VGG)
    before = logits(network, IMAGES)
    fold_temperature(network, 2.0)
    Calibrated(network, 3.0).fold()
    assert deviation(logits(network, IMAGES), before / 6) < 1e-6
    assert network.classifier[3].folded_temperature == 6


def same(network, copied):
    return all(torch.equal(a, b) for a, b in zip(network.parameters(), copied.parameters(), strict=True))


class Changed(nn.Module):
    """A network that does something else to its logits in the end."""

    def __init__(self, change):
        super().__init__()
        self.fc, self.change = nn.Linear(4, 3), change

    def forward(self, x):
        return self.change(self.fc(x))


def later(change):
    """Nothing at the first call, ``change`` at the second."""
    calls = []
    return lambda z: calls.append(z) or (change(z) if len(calls) > 1 else z)


def failing(z):
    raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (
            torch.tanh,
            InputError,
            r"must end in `fc`, but after folding its logits on `probe` differ from logits / T by up to 0\.\d+ of",
        ),
        (lambda z: z.log_softmax(dim=1), InputError, "undone"),
        (later(lambda z: z * torch.nan), InputError, "are not finite"),
        (later(failing), RuntimeError, "out of memory"),
    ],
    ids=["tanh", "log-softmax", "NaN", "failing"],
)
def test_a_probe_that_disagrees_undoes_the_folding(change, error, match):
    network = Changed(change)
    kept = copy.deepcopy(network.fc)
    with pytest.raises(error, match=match):
        fold_temperature(network, 1.7, probe=torch.ones(2, 4))
    assert same(network.fc, kept)
    assert not hasattr(network.fc, "folded_temperature")


@pytest.mark.parametrize(("change", "what"), [(lambda z: z * torch.nan, "NaN or"), (lambda z: 0 * z, "only zeros")])
def test_a_probe_that_shows_nothing_is_refused_before_anything_is_folded(change, what):
    network = Changed(change)
    kept = copy.deepcopy(network.fc)
    with pytest.raises(InputError, match=rf"`probe` must give finite logits that are not all zero, got {what}"):
        fold_temperature(network, 1.7, probe=torch.ones(2, 4))
    assert same(network.fc, kept)


def test_a_probe_may_hold_masked_classes():
    mask = torch.tensor([0.0, -torch.inf, 0.0])
    fold_temperature(Changed(lambda z: z + mask), 1.7, probe=torch.ones(2, 4))


class Cosine(nn.Linear):
    def forward(self, x):
        return nn.functional.linear(x, nn.functional.normalize(self.weight), self.bias)


class Adapted(nn.Module):
    """As of peft."""

    def __init__(self):
        super().__init__()
        self.base_layer, self.lora_A = nn.Linear(4, 3), nn.Linear(4, 3)


class Named(nn.Module):
    """Parts with names; it is never called."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


def lin():
    return nn.Linear(4, 3)


def shared():
    layer = lin()
    return Named(body=nn.Sequential(layer), head=layer)


def one_storage():
    """Tied embeddings with a parameter each."""
    network = Named(embeddings=nn.Embedding(3, 4), lm_head=lin())
    network.lm_head.weight.data = network.embeddings.weight.data
    return network


def tied_within(name):
    """A head with layers of its own, the last of them tied, as of language models with masks."""
    head = Named(dense=lin(), decoder=nn.Linear(4, 3, bias=False))
    network = Named(embeddings=nn.Embedding(3, 4), **{name: head})
    head.decoder.weight = network.embeddings.weight
    return network


def capped(name, head):
    network = Named(body=lin(), lm_head=head)
    network.body.config = SimpleNamespace(**{name: 30.0})
    return network


def shared_message(one, two):
    return (
        f"The network must not share the weight of its last layer, got one tensor for `{one}.weight` and `{two}.weight`, as "
        "with tied embeddings: folding would change both. Untie them by giving the last layer its own copy; or use "
        "`nishimori.torch.Calibrated(model, T)`, which divides the logits themselves."
    )


def cap_message(name, path):
    return (
        f"The network must end in its last layer, got a soft cap after `{path}` (`config.{name}` is 30), which does not "
        "commute with a division: use `nishimori.torch.Calibrated(model, T)`, which divides the logits themselves."
    )


def computed_message(kind):
    return (
        f"The network must end in a plain linear layer, got `fc` of type {kind}: its weights are computed from others. Make "
        "them permanent (`remove_weight_norm`, `prune.remove`, ...) first; or use `nishimori.torch.Calibrated(model, T)`, "
        "which divides the logits themselves."
    )


def probabilities_message(kind):
    return (
        f"The network must return logits, got `1` of type {kind} at its end. Take it out: T divides scores before the softmax."
    )


REFUSED = {
    "tied embeddings": (
        lambda: Encoder("lm_head", tied=True),
        shared_message("embeddings", "lm_head"),
    ),
    "tied embeddings with two parameters": (one_storage, shared_message("embeddings", "lm_head")),
    "tied embeddings, and no usual name": (lambda: tied_within("cls"), shared_message("embeddings", "cls.decoder")),
    "tied embeddings, and no usual name within": (
        lambda: tied_within("lm_head"),
        shared_message("embeddings", "lm_head.decoder"),
    ),
    "a layer used twice": (shared, shared_message("body.0", "head")),
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
        "The network must have one last layer, got `head` and `aux_head`. Pass the layer that gives the logits; or use "
        "`nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "two names": (
        lambda: Named(fc=lin(), classifier=lin()),
        "The network must have one last layer, got `fc` and `classifier`. Pass the layer that gives the logits; or use "
        "`nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "a hidden layer with a usual name": (
        lambda: Named(fc=lin(), norm=nn.LayerNorm(3), out=nn.Sequential(nn.Linear(3, 3))),
        "The network must have one last layer, got `fc` and `out`. Pass the layer that gives the logits; or use "
        "`nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "no usual name": (
        lambda: Named(first=lin(), last=lin()),
        "The network must have a last layer with a usual name (fc, classifier, head, heads, lm_head, linear, score), got "
        "Named with the parts ['first', 'last']. Pass the layer itself, perhaps `model.last`; or use "
        "`nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "softmax": (lambda: nn.Sequential(lin(), nn.Softmax(dim=1)), probabilities_message("Softmax")),
    "softmax of pixels": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.Softmax2d()), probabilities_message("Softmax2d")),
    "sigmoid": (lambda: nn.Sequential(lin(), nn.Sigmoid()), probabilities_message("Sigmoid")),
    "log-softmax": (
        lambda: nn.Sequential(lin(), nn.LogSoftmax(dim=1)),
        "The network must end in a linear layer, got `1` of type LogSoftmax. Pass the last linear layer if its outputs "
        "are the logits; or use `nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "an activation": (
        lambda: VGG(nn.ReLU()),
        "The network must end in a linear layer, got `classifier.4` of type ReLU. Pass the last linear layer if its "
        "outputs are the logits; or use `nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "nothing linear": (
        lambda: nn.Sequential(nn.Dropout()),
        "The network must end in a linear layer, got a Sequential without any. Pass the layer itself; or use "
        "`nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "a parametrisation": (
        lambda: Named(body=lin(), fc=parametrizations.weight_norm(lin())),
        "The network must end in a plain linear layer, got `fc` of type ParametrizedLinear: its weights are "
        "parametrised. Call `torch.nn.utils.parametrize.remove_parametrizations` first; or use "
        "`nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
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
        "the adapter into the weights first; or use `nishimori.torch.Calibrated(model, T)`, which divides the logits "
        "themselves.",
    ),
    "another forward": (
        lambda: Named(body=lin(), fc=Cosine(4, 3)),
        "The network must end in a plain linear layer, got `fc` of type Cosine: it does more than multiply by its "
        "weights. If that divides its output, divide its weights and bias yourself; or use "
        "`nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "no weights yet": (
        lambda: Named(body=lin(), fc=nn.LazyLinear(3)),
        "The network must end in a plain linear layer, got `fc` of type LazyLinear: it has no weights yet. Call the "
        "model once first; or use `nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "weights on meta": (
        lambda: Named(body=lin(), fc=nn.Linear(4, 3, device="meta")),
        "The network must end in a plain linear layer, got `fc` of type Linear: its weights are on the meta device. Load "
        "them first; or use `nishimori.torch.Calibrated(model, T)`, which divides the logits themselves.",
    ),
    "a Calibrated inside": (
        lambda: Named(body=lin(), head=nn.Sequential(Calibrated(lin(), 2.0))),
        "`model_or_layer` must be a network or a layer, got one that contains a Calibrated at `head.0`, which would "
        "divide its logits once more. Call `model.head.0.fold()`, which folds its own temperature.",
    ),
    "a Calibrated": (
        lambda: Calibrated(lin(), 2.0),
        "`model_or_layer` must be a network or a layer, got a Calibrated, which would divide its logits once more. Call "
        "its `fold()`, which folds its own temperature.",
    ),
}


@pytest.mark.filterwarnings("ignore:.*torch.nn.utils.weight_norm:FutureWarning")
@pytest.mark.parametrize(("make", "message"), REFUSED.values(), ids=REFUSED)
def test_a_network_that_cannot_be_folded_is_refused_in_these_words(make, message):
    network = make()
    kept = {
        name: each.clone()
        for name, each in network.state_dict().items()
        if not isinstance(each, nn.UninitializedParameter) and not each.is_meta
    }
    with pytest.raises(InputError) as error:
        fold_temperature(network, 2.0)
    assert str(error.value) == message
    assert all(torch.equal(network.state_dict()[name], each) for name, each in kept.items())


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_quantised_layer_is_refused():
    network = torch.ao.quantization.quantize_dynamic(Named(body=lin(), fc=lin()), {nn.Linear})
    with pytest.raises(InputError, match=r"its weights are quantised\. Fold before quantising; or use"):
        fold_temperature(network, 2.0)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_layer_is_plain_again_once_its_norm_is_removed():
    old = nn.utils.remove_weight_norm(weight_norm(lin()))
    new = parametrizations.weight_norm(lin())
    parametrize.remove_parametrizations(new, "weight")
    for layer in (old, new):
        fold_temperature(layer, 2.0, probe=torch.ones(1, 4))


def test_folding_twice_is_refused():
    network = built(VGG)
    fold_temperature(network, 2.0)
    with pytest.raises(InputError) as error:
        fold_temperature(network, 3.0)
    assert str(error.value) == (
        "`T` must be folded once, got 3 for `classifier.3`, which has 2 folded in already. If the new T was found with the "
        "folded weights, call `Calibrated(model, T).fold()`; if the weights were replaced since, delete the attribute "
        "`folded_temperature` of the layer."
    )


@pytest.mark.parametrize("bad", [0, -1.0, float("nan"), float("inf"), "2", True, None])
def test_what_is_no_temperature_is_refused(bad):
    with pytest.raises(InputError, match="`T` must be a finite positive number"):
        fold_temperature(lin(), bad)


def test_names_before_the_last_layer_do_not_make_it_ambiguous():
    network = Named(pre_classifier=lin(), fc_norm=nn.LayerNorm(4), conv_head=nn.Conv2d(3, 4, 1), classifier=lin())
    assert fold_temperature(network, 2.0) is network.classifier


def test_what_is_no_network_is_refused():
    with pytest.raises(InputError, match=r"`model_or_layer` must be a torch\.nn\.Module, got a Tensor\."):
        fold_temperature(torch.ones(3), 2.0)


# In float16 the logits of the deepest networks overflow as long as they have not been trained.
PAPER = [
    pytest.param(name, dtype, id=f"{name}-{dtype}")
    for name in models.names()
    for dtype in (torch.float32, torch.float16, torch.bfloat16)
    if not (dtype == torch.float16 and name.startswith("resnet110"))
]


@pytest.mark.parametrize(("name", "dtype"), PAPER)
def test_the_papers_networks_fold(name, dtype):
    n = 1 if dtype == torch.float16 else 4  # a CPU takes seconds for each image in float16
    probe = torch.randn(n, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    network = built(lambda: models.build(name, n_classes=10), dtype)
    before = logits(network, probe, dtype)
    assert before.isfinite().all()
    fold_temperature(network, 1.7)
    assert deviation(logits(network, probe, dtype), before / 1.7) <= DTYPES[dtype]
