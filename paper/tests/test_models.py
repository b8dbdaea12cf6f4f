"""The paper's networks: number of parameters, shapes, and names of parameters as in the authors' files."""

import copy
import os
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from nishimori.errors import InputError
from nishimori_paper import models
from nishimori_paper.training._pixels import Pixels
from nishimori_paper.training._training import logits

DATA = Path(os.environ["NISHIMORI_DATA"]) if "NISHIMORI_DATA" in os.environ else None
WEIGHTS = sorted((DATA / "weights").glob("*.pt")) if DATA else []
NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


# Size and shape.


def by_hand(depth, n_classes, *, conv):
    """Weights of the 3 × 3 convolutions, two numbers per normalised channel, and the linear layer."""
    blocks = (depth - 2) // 6
    total = 3 * 16 * 9 + 2 * 16
    for entering, channels in ((16, 16), (16, 32), (32, 64)):
        total += (entering + (2 * blocks - 1) * channels) * channels * 9 + 2 * blocks * 2 * channels
        if conv and entering != channels:
            total += entering * channels + 2 * channels
    return total + 64 * n_classes + n_classes


@pytest.mark.parametrize("n_classes", [10, 100])
@pytest.mark.parametrize("shortcut", ["pad", "conv"])
@pytest.mark.parametrize("depth", [20, 32, 44, 56, 110])
def test_a_resnet_has_as_many_parameters_as_counted_by_hand(depth, shortcut, n_classes):
    network = models.build(f"resnet{depth}{'-conv' * (shortcut == 'conv')}", n_classes=n_classes)
    assert models.n_parameters(network) == by_hand(depth, n_classes, conv=shortcut == "conv")


# Millions: Table 6 of arXiv:1512.03385 for the ResNets of ten classes, the counts that the public CIFAR-100 networks are
# published with for those of a hundred, and DenseNet-121 without the larger stem and head of the ImageNet network.
PUBLISHED = {
    ("resnet20", 10): (269_722, 0.27),
    ("resnet32", 10): (464_154, 0.46),
    ("resnet44", 10): (658_586, 0.66),
    ("resnet56", 10): (853_018, 0.85),
    ("resnet110", 10): (1_727_962, 1.73),
    ("densenet121", 10): (6_956_298, 6.96),
    ("densenet121-linear", 10): (6_956_298, 6.96),
    ("resnet20-conv", 100): (278_324, 0.28),
    ("resnet56-conv", 100): (861_620, 0.86),
    ("vgg19", 100): (20_612_004, 20.61),
    ("repvgg-a2", 100): (26_942_500, 26.94),
}


@pytest.mark.parametrize(("name", "n_classes"), PUBLISHED)
def test_parameters_are_as_many_as_published(name, n_classes):
    exact, millions = PUBLISHED[name, n_classes]
    found = models.n_parameters(models.build(name, n_classes=n_classes))
    assert found == exact
    assert round(found / 1e6, 2) == millions


def test_a_wider_resnet_has_multiples_of_the_channels():
    network = models.build("resnet20", n_classes=10, width=3)
    assert [network.get_parameter(f"layer{i}.0.conv2.weight").shape[0] for i in (1, 2, 3)] == [48, 96, 192]
    assert network(drawn(2, 3, 32, 32)).shape == (2, 10)


def test_dropout_is_in_every_block_and_before_the_linear_layer_in_training_only():
    network = models.build("resnet20", n_classes=10, dropout=0.3)
    assert sum(isinstance(each, nn.Dropout) for each in network.modules()) == 10
    assert list(network.state_dict()) == list(models.build("resnet20", n_classes=10).state_dict())
    images = drawn(2, 3, 32, 32)
    with torch.inference_mode():
        network.train()
        assert not torch.equal(network(images), network(images))
        network.eval()
        assert torch.equal(network(images), network(images))
    block = network.layer1[0]
    seen = []
    block.conv2.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    network.train()(images)
    kept = seen[0][seen[0] > 0]
    block.drop.eval()
    network(images)
    assert 0.2 < 1 - len(kept) / (seen[1] > 0).sum() < 0.4


def test_a_variation_is_refused_where_there_is_none():
    with pytest.raises(InputError, match="Only ResNets have a width, but 'vgg19' is not a ResNet"):
        models.build("vgg19", n_classes=10, width=2)
    with pytest.raises(InputError, match="`width` must be a whole number of at least 1"):
        models.build("resnet20", n_classes=10, width=0)
    with pytest.raises(InputError, match="`dropout` must lie between 0 and 1"):
        models.build("resnet20", n_classes=10, dropout=1.5)


@pytest.mark.parametrize("n_classes", [2, 100])
@pytest.mark.parametrize("name", models.names())
def test_every_network_gives_a_row_of_finite_logits_for_each_image(name, n_classes):
    network = models.build(name, n_classes=n_classes).eval()
    with torch.inference_mode():
        found = network(drawn(2, 3, 32, 32))
    assert (found.shape, found.dtype) == ((2, n_classes), torch.float32)
    assert found.isfinite().all()
    assert not torch.equal(found[0], found[1])


def test_fresh_weights_follow_from_pytorchs_seed():
    def weights(seed):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return models.build("resnet20", n_classes=10).conv1.weight

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


# Shortcuts.


@pytest.mark.parametrize(("stage", "channels"), [("layer2", 16), ("layer3", 32)])
def test_a_padded_shortcut_keeps_every_second_pixel_between_channels_of_zeros(stage, channels):
    block = getattr(models.build("resnet20", n_classes=10), stage)[0]
    x = drawn(2, channels, 8, 8)
    expected = np.zeros((2, 2 * channels, 4, 4), np.float32)
    for row in range(4):
        for column in range(4):
            expected[:, channels // 2 : channels // 2 + channels, row, column] = x[:, :, 2 * row, 2 * column]
    np.testing.assert_array_equal(block.shortcut(x), expected)
    assert not list(block.shortcut.parameters())
    nn.init.zeros_(block.bn2.weight)  # so that only the shortcut remains of the block
    np.testing.assert_array_equal(block.eval()(x).detach(), np.maximum(expected, 0))


def test_a_convolved_shortcut_is_a_normalised_matrix_at_every_second_pixel():
    shortcut = models.build("resnet20-conv", n_classes=10).layer2[0].shortcut
    x = drawn(4, 16, 8, 8)
    mixed = torch.einsum("oi,nihw->nohw", shortcut[0].weight[:, :, 0, 0], x[:, :, ::2, ::2])
    mean, variance = mixed.mean((0, 2, 3), keepdim=True), mixed.var((0, 2, 3), keepdim=True, correction=0)
    torch.testing.assert_close(shortcut(x), (mixed - mean) / torch.sqrt(variance + 1e-5), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shortcut", ["pad", "conv"])
def test_without_a_change_of_shape_the_shortcut_is_the_input_itself(shortcut):
    network = models.ResNet(20, 10, shortcut=shortcut)
    x = drawn(1, 16, 8, 8)
    assert network.layer1[0].shortcut(x) is x


# Names of parameters.


def authors_names(blocks, *, conv=False):
    names = ["conv1.weight", *(f"bn1.{each}" for each in NORM)]
    for stage in (1, 2, 3):
        for block in range(blocks):
            for i in (1, 2):
                names.append(f"layer{stage}.{block}.conv{i}.weight")
                names += [f"layer{stage}.{block}.bn{i}.{each}" for each in NORM]
            if conv and stage > 1 and block == 0:
                names.append(f"layer{stage}.0.shortcut.0.weight")
                names += [f"layer{stage}.0.shortcut.1.{each}" for each in NORM]
    return [*names, "linear.weight", "linear.bias"]


@pytest.mark.parametrize(("depth", "blocks"), [(20, 3), (56, 9), (110, 18)])
def test_parameters_are_named_as_in_the_authors_files(depth, blocks):
    assert list(models.build(f"resnet{depth}", n_classes=10).state_dict()) == authors_names(blocks)
    assert list(models.build(f"resnet{depth}-conv", n_classes=10).state_dict()) == authors_names(blocks, conv=True)


@pytest.mark.parametrize("path", WEIGHTS, ids=lambda path: path.stem)
@pytest.mark.skipif(not WEIGHTS, reason="NISHIMORI_DATA does not name a folder with weights/*.pt")
def test_the_authors_weights_load_without_a_name_left_over(path):
    weights = torch.load(path, map_location="cpu", weights_only=True)
    network = models.build(path.stem.partition("_")[2], n_classes=10)
    assert list(weights) == list(network.state_dict())
    network.load_state_dict(weights)
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())


@pytest.mark.parametrize("model", ["resnet20", "resnet56"])
@pytest.mark.skipif(
    not DATA or not (DATA / "unpack.py").exists() or not WEIGHTS,
    reason="NISHIMORI_DATA does not name a folder with weights, logits and mosaics",
)
def test_the_authors_weights_give_the_logits_that_were_computed_elsewhere(model, monkeypatch):
    Image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)  # which the script changes
    tiles = runpy.run_path(str(DATA / "unpack.py"))["tiles"](DATA / "cifar10" / "test-00.webp")[:100]
    network = models.build(model, n_classes=10)
    network.load_state_dict(torch.load(DATA / "weights" / f"cifar10_{model}.pt", weights_only=True))
    found = logits(network, Pixels(tiles, "cifar10", torch.device("cpu")))
    with np.load(DATA / "logits" / f"ecpaper__cifar10__{model}.npz", allow_pickle=False) as file:
        np.testing.assert_allclose(found, file["logits"][:100], atol=1e-3)


# DenseNet.


@pytest.mark.parametrize(("name", "sign"), [("densenet121", "positive"), ("densenet121-linear", "any")])
def test_only_transitions_of_the_published_densenet_cut_off_negative_numbers(name, sign):
    transition = models.build(name, n_classes=10).eval().layers[6]
    x = drawn(2, 256, 4, 4)
    seen = x.clamp(min=0) if sign == "positive" else x  # batch normalisation with fresh statistics divides by √(1 + 1e-5)
    mixed = torch.einsum("oi,nihw->nohw", transition.conv.weight[:, :, 0, 0], seen / np.sqrt(1 + 1e-5))
    expected = mixed.reshape(2, 128, 2, 2, 2, 2).mean((3, 5))  # of squares of four pixels
    torch.testing.assert_close(transition(x), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["densenet121", "densenet121-linear"])
def test_a_densenet_has_the_authors_stem_blocks_and_widths(name):
    network = models.build(name, n_classes=10)
    assert network.stem.weight.shape == (64, 3, 3, 3)
    assert network.stem.stride == (1, 1)
    lengths, widths = [0], []
    for layer in network.layers:
        if hasattr(layer, "conv2"):
            lengths[-1] += 1
            assert layer.conv1.weight.shape[0] == layer.conv2.weight.shape[1] == 4 * 32
            assert layer.conv2.weight.shape[0] == 32
        else:
            lengths.append(0)
            widths.append(layer.conv.weight.shape[:2])
    assert lengths == [6, 12, 24, 16]
    assert widths == [(128, 256), (256, 512), (512, 1024)]  # half of what enters
    assert network.classifier.weight.shape == (10, 1024)


# RepVGG.


@pytest.fixture(scope="module")
def worn():
    """A RepVGG in float64 with batch normalisation as after some training."""
    network = models.build("repvgg-a2", n_classes=10).double().eval()
    generator = torch.Generator().manual_seed(0)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for each, low, high in (
                (module.weight.data, 0.2, 1.0),
                (module.bias.data, -0.5, 0.5),
                (module.running_mean, -1.0, 1.0),
                (module.running_var, 0.5, 2.0),
            ):
                each.uniform_(low, high, generator=generator)
    return network


def test_a_merged_repvgg_is_the_same_function(worn):
    x = drawn(2, 3, 32, 32, dtype=torch.float64)
    with torch.inference_mode():
        expected = worn(x)
        found = worn.merge()(x)
    assert expected.abs().min() > 0
    assert (found - expected).abs().max() <= 1e-10 * expected.abs().max()


def test_merging_leaves_one_convolution_per_block_and_does_not_change_the_original(worn):
    before, was = copy.deepcopy(worn.state_dict()), worn.training
    worn.train()
    merged = worn.merge()
    assert worn.training
    worn.train(was)
    after = worn.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert not merged.training
    convolutions = [each for each in merged.modules() if isinstance(each, nn.Conv2d)]
    assert len(convolutions) == len(worn.blocks) == 22
    assert not any(isinstance(each, nn.BatchNorm2d) for each in merged.modules())
    kept = {each.data_ptr() for each in worn.parameters()}
    assert not any(each.data_ptr() in kept for each in merged.parameters())
    assert all(each.dtype == torch.float64 for each in merged.parameters())


# Refusals.


@pytest.mark.parametrize("name", ["resnet18", "ResNet20", ""])
def test_an_unknown_network_is_refused_with_the_list(name):
    with pytest.raises(InputError, match=f"There is no network {name!r}; there are resnet20, .*, repvgg-a2"):
        models.build(name, n_classes=10)


@pytest.mark.parametrize("depth", [18, 21, 2, 0, -4])
def test_a_depth_that_does_not_divide_into_blocks_is_refused(depth):
    with pytest.raises(InputError, match=rf"^`depth` must be 6 n \+ 2, such as 20 or 56, got {depth}\.$"):
        models.ResNet(depth, 10)


def test_an_unknown_shortcut_is_refused():
    with pytest.raises(InputError, match=r"^`shortcut` must be 'pad' or 'conv', got 'identity'\.$"):
        models.ResNet(20, 10, shortcut="identity")
