"""Folding T into the last layer divides the logits by T; on any error the weights stay as they were."""

import copy
from types import SimpleNamespace

import pytest
import reference
import torch
from small_networks import (
    DTYPES,
    IMAGES,
    NETWORKS,
    VGG,
    Named,
    ResNet,
    built,
    cast,
    deviation,
    fold_unchecked,
    lin,
    logits,
    same,
)
from torch import nn
from torch._subclasses import FakeTensorMode

from nishimori.errors import InputError
from nishimori.torch import Calibrated, calibrate, fold_temperature
from nishimori.torch._fold import tolerance


@pytest.mark.parametrize("T", [0.37, 1.7, 12.3])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@NETWORKS
def test_folded_logits_are_the_logits_divided_by_the_temperature(make, probe, dtype, T):
    network = built(make, dtype)
    before = logits(network, probe, dtype)
    fold_temperature(network, T, probe=cast(probe, dtype))
    assert deviation(logits(network, probe, dtype), before / T) <= DTYPES[dtype]


@NETWORKS
def test_folding_with_a_probe_notes_the_temperature_in_the_layer(make, probe):
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
def test_pooling_reshaping_and_dropout_may_follow_the_last_layer(convolution, following):
    network = nn.Sequential(convolution(3, 4, 1), following)
    x = torch.randn(2, 3, *[4] * (CONVOLUTIONS.index(convolution) + 1))
    assert fold_temperature(network, 1.7, probe=x) is network[0]


def cancelling(mean):
    """A layer and inputs for which large terms cancel in the logits."""
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(10 * mean, 3, bias=False)
    x = torch.randn(8, 10 * mean, generator=generator)
    with torch.no_grad():
        layer.weight.copy_(mean + torch.randn(layer.weight.shape, generator=generator))
    return layer, x - x.mean(dim=1, keepdim=True)


def test_the_probe_allows_for_terms_that_cancel():
    layer, x = cancelling(100)
    fold_temperature(layer, 1.7, probe=x)


def test_if_rounding_errors_are_too_large_the_error_names_a_remedy_that_works():
    layer, x = cancelling(1000)
    with pytest.raises(InputError, match=r"Rounding in torch\.float32 can also cause this: fold in a wider dtype\."):
        fold_temperature(layer, 1.7, probe=x)
    fold_temperature(layer.double(), 1.7, probe=x.double())


def test_the_probe_allows_for_tf32_on_a_gpu_whatever_the_precision_settings(monkeypatch):
    if hasattr(torch.backends.cudnn, "rnn"):  # then `torch.backends.cudnn.allow_tf32` cannot be read
        monkeypatch.setattr(torch.backends.cudnn.rnn, "fp32_precision", "ieee")
    with FakeTensorMode():
        z = torch.empty(3, device="cuda")
        assert tolerance(z, z) == tolerance(z.half(), z.half())


def test_weights_that_would_overflow_are_restored():
    layer = lin().half()
    kept = copy.deepcopy(layer)
    with pytest.raises(
        InputError, match=r"must stay finite, got an overflow of torch\.float16 when T = 1e-07 is folded in\. The fold"
    ):
        fold_temperature(layer, 1e-7, probe=torch.ones(1, 4).half())
    assert same(layer, kept)
    assert not hasattr(layer, "folded_temperature")
    fold_temperature(layer.float(), 1e-7, probe=torch.ones(1, 4))


def test_a_class_that_is_masked_by_its_bias_stays_masked():
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
    fold_unchecked(network, 2.0)
    assert torch.equal(network.fc.weight, kept.fc.weight / 2)
    assert same(network.body, kept.body)


def test_a_soft_cap_for_language_models_does_not_concern_a_classifier():
    network = Named(score=lin())
    network.config = SimpleNamespace(final_logit_softcapping=30.0)
    assert fold_unchecked(network, 2.0) is network.score


def test_a_language_model_without_a_cap_folds():
    network = Named(lm_head=lin())
    network.config = SimpleNamespace(final_logit_softcapping=None)
    assert fold_unchecked(network, 2.0) is network.lm_head


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
    assert fold_temperature(wrap(network), 1.7, probe=IMAGES) is network.classifier[3]


def test_folding_keeps_gradients_and_modes():
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
    calibrated.fold(probe=IMAGES)
    before = calibrated(IMAGES)
    calibrated.fold()  # which has nothing to check
    assert torch.equal(calibrated(IMAGES), before)


def test_a_temperature_found_on_top_of_a_folded_one_multiplies():
    network = built(VGG)
    before = logits(network, IMAGES)
    fold_temperature(network, 2.0, probe=IMAGES)
    Calibrated(network, 3.0).fold(probe=IMAGES)
    assert deviation(logits(network, IMAGES), before / 6) < 1e-6
    assert network.classifier[3].folded_temperature == 6


class Changed(nn.Module):
    """A network that changes the output of its last layer."""

    def __init__(self, change):
        super().__init__()
        self.fc, self.change = nn.Linear(4, 3), change

    def forward(self, x):
        return self.change(self.fc(x))


def later(change):
    """Returns its input at the first call, and ``change`` of it afterwards."""
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
            r"must be the output of `fc`, but after folding the logits on `probe` differ from the calibrated logits by 0\.\d+ "
            r"of the largest \(0\.0001 is allowed\)\. The folding was undone",
        ),
        (lambda z: z.log_softmax(dim=1), InputError, "undone"),
        (later(lambda z: z * torch.nan), InputError, "differ from the calibrated logits by nan of the largest"),
        (later(failing), RuntimeError, "out of memory"),
    ],
    ids=["tanh", "log-softmax", "NaN", "failing"],
)
def test_folding_is_undone_if_the_logits_on_the_probe_are_wrong(change, error, match):
    network = Changed(change)
    kept = copy.deepcopy(network.fc)
    with pytest.raises(error, match=match):
        fold_temperature(network, 1.7, probe=torch.ones(2, 4))
    assert same(network.fc, kept)
    assert not hasattr(network.fc, "folded_temperature")


@pytest.mark.parametrize("change", [lambda z: z * torch.nan, lambda z: 0 * z], ids=["NaN", "zeros"])
def test_a_probe_without_usable_logits_is_refused_and_folding_undone(change):
    network = Changed(change)
    kept = copy.deepcopy(network.fc)
    with pytest.raises(InputError, match="differ from the calibrated logits by nan of the largest"):
        fold_temperature(network, 1.7, probe=torch.ones(2, 4))
    assert same(network.fc, kept)


def test_a_probe_needs_a_network_that_returns_logits():
    network = Changed(lambda z: (z, z))
    with pytest.raises(InputError) as error:
        fold_temperature(network, 1.7, probe=torch.ones(2, 4))
    assert str(error.value) == (
        "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got tuple "
        "(tensor float32 (2, 3), tensor float32 (2, 3)). Pass `probe=False`, and compare the logits before and after folding "
        "yourself."
    )
    assert fold_unchecked(network, 1.7) is network.fc


def test_a_probe_may_have_masked_classes():
    mask = torch.tensor([0.0, -torch.inf, 0.0])
    fold_temperature(Changed(lambda z: z + mask), 1.7, probe=torch.ones(2, 4))
