"""Networks that are trained side by side: each becomes what it becomes alone."""

from dataclasses import replace

import pytest
import torch
from small_training import RECIPE, bits, image_set, run

from nishimori.errors import InputError
from nishimori_paper.training._recipes import Recipe
from nishimori_paper.training._side_by_side import train_side_by_side
from nishimori_paper.training._training import Settings, Training

RECIPES = [
    RECIPE,
    replace(RECIPE, epochs=2, batch=8, mixup=0.3, label_smoothing=0.1),
    Recipe("svhn", "resnet20-conv", epochs=1, augment=False, width=2, batch=16),
]


def test_each_network_becomes_what_it_becomes_alone():
    of = [image_set(name=each.dataset) for each in RECIPES]
    trainings = [Training(each, of[i], seed=i, settings=Settings()) for i, each in enumerate(RECIPES)]
    told = []
    train_side_by_side(trainings, lambda *about: told.append(about))
    for i, training in enumerate(trainings):
        expected, epochs = bits(run(RECIPES[i], of[i], seed=i))
        assert all(torch.equal(each, expected[name]) for name, each in bits(training)[0].items())
        mine = [(epoch, loss, accuracy) for which, epoch, loss, accuracy in told if which is training]
        assert mine == [(each.number, each.loss, each.train_accuracy) for each in epochs]


def test_no_network_is_refused():
    with pytest.raises(InputError, match="`trainings` must be at least one"):
        train_side_by_side([])
