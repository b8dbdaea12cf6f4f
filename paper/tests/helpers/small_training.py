"""Training runs on small generated images, for tests."""

import numpy as np
import pytest
import torch
from torch import nn

from nishimori_paper.training._image_formats import Images
from nishimori_paper.training._image_sets import ImageSet
from nishimori_paper.training._networks import train
from nishimori_paper.training._recipes import NORMALISATION, Recipe
from nishimori_paper.training._training import Settings

CPU = torch.device("cpu")
RECIPE = Recipe("cifar10", "resnet20", epochs=3, batch=16)


def images(n, n_classes=10, seed=0):
    rng = np.random.default_rng(seed)
    return Images(rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), rng.integers(0, n_classes, n))


def image_set(n_train=40, n_validation=8, n_test=8, name="cifar10", n_classes=10, origin="made here"):
    splits = [images(n, n_classes, seed) for seed, n in enumerate((n_train, n_validation, n_test))]
    return ImageSet(name, n_classes, *splits, origin)


def run(a_recipe=RECIPE, of=None, *, seed=0, checkpoint=None, after=lambda _: None, **settings):
    return train(a_recipe, of or image_set(), seed=seed, settings=Settings(**settings), checkpoint=checkpoint, after=after)


def bits(training):
    """The weights, momenta and epochs of a run, without the time it took."""
    state = {**training.network.state_dict(), **{f"momentum {i}": each for i, each in enumerate(training.momenta)}}
    return {name: each.clone() for name, each in state.items()}, list(training.progress.epochs)


def same(one, other):
    return one[1] == other[1] and all(torch.equal(each, other[0][name]) for name, each in one[0].items())


class Stop(Exception):
    """Raised to end a run early."""


def stopped_after(epoch, checkpoint, *args, **options):
    def after(training):
        if len(training.progress.epochs) == epoch:
            raise Stop

    with pytest.raises(Stop):
        run(*args, checkpoint=checkpoint, after=after, **options)


class Projected(nn.Module):
    """Logits that change with any pixel and any shift."""

    def __init__(self, n_classes=10):
        super().__init__()
        self.drop = nn.Dropout()  # so that a network left in training mode gives other logits
        self.linear = nn.Linear(3 * 32 * 32, n_classes)

    def forward(self, x):
        return self.linear(self.drop(x.flatten(1)))


def projected(network, seen_images):
    weight, bias = (each.detach().double().numpy() for each in (network.linear.weight, network.linear.bias))
    return seen_images.reshape(len(seen_images), -1).astype(float) @ weight.T + bias


def seen(pixels, dataset, top=4, left=4, mirrored=False):
    """One image as a data loader gives it that pads by 4 black pixels, crops, mirrors and normalises."""
    framed = np.zeros((40, 40, 3), np.float32)
    framed[4:36, 4:36] = pixels
    window = framed[top : top + 32, left : left + 32]
    if mirrored:
        window = window[:, ::-1]
    mean, std = (np.array(each, np.float32) for each in NORMALISATION[dataset])
    return ((window / np.float32(255) - mean) / std).transpose(2, 0, 1)


def all_seen(some, dataset, views):
    rows = zip(views.top.tolist(), views.left.tolist(), views.mirrored.tolist(), strict=True)
    return np.stack([seen(pixels, dataset, *view) for pixels, view in zip(some, rows, strict=True)])
