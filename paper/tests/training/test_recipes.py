"""Recipes of the paper's networks, and the images that they train on."""

import math
from dataclasses import replace

import numpy as np
import pytest
from small_training import RECIPE, image_set, images, run

from nishimori.errors import InputError
from nishimori_paper import models
from nishimori_paper.training._image_formats import Images
from nishimori_paper.training._image_sets import ImageSet
from nishimori_paper.training._networks import trained
from nishimori_paper.training._recipes import Recipe, is_in_paper, recipe, recipes
from nishimori_paper.training._training import part

# Recipes.


@pytest.mark.parametrize(("steps", "epochs"), [(1, 1), (7, 3)])
def test_a_constant_learning_rate_is_the_same_at_every_step(steps, epochs):
    assert Recipe("cifar10", "resnet20", epochs=epochs, learning_rate=0.3).learning_rates(steps) == [0.3] * (steps * epochs)


def test_a_cosine_rises_for_its_warm_up_and_falls_to_nearly_zero():
    found = Recipe("cifar100", "vgg19", epochs=3, learning_rate=0.2, schedule="cosine", warmup=1).learning_rates(4)
    by_hand = [0.05, 0.1, 0.15, 0.2]
    by_hand += [0.1 * (1 + math.cos(math.pi * eighth / 8)) for eighth in range(8)]
    assert found == pytest.approx(by_hand)
    assert found[4] == 0.2
    assert found[8] == pytest.approx(0.1)


@pytest.mark.parametrize("warmup", [0, 1, 5])
def test_a_cosine_has_a_rate_for_every_step_and_ends_near_zero(warmup):
    long = Recipe("cifar100", "vgg19", epochs=100, learning_rate=0.1, schedule="cosine", warmup=warmup)
    found = np.array(long.learning_rates(351))
    rise = 351 * warmup
    assert len(found) == 35_100
    assert found.max() == 0.1
    assert (np.diff(found[:rise]) > 0).all()
    assert (np.diff(found[rise:]) < 0).all()
    assert 0 < found[-1] < 1e-8


def test_the_recipes_are_those_of_the_papers_code():
    for name in ("svhn/resnet20", "cifar10/resnet20", "cifar10/resnet56", "cifar10/densenet121", "cifar10/densenet121-linear"):
        dataset, model = name.split("/")
        assert recipe(dataset, model) == Recipe(
            dataset,
            model,
            epochs=50,
            batch=128,
            learning_rate=0.01 if model.startswith("densenet121") else 0.1,
            momentum=0.9,
            nesterov=False,
            weight_decay=1e-4,
            schedule="constant",
            warmup=0,
            augment=dataset == "cifar10",
            fraction=None,
        )


def test_settings_of_the_papers_networks_are_those_that_their_files_hold():
    """Files of logits written before there was label smoothing must still be recognised."""
    old = {"dataset", "model", "epochs", "batch", "learning_rate", "momentum", "nesterov", "weight_decay"}
    old |= {"schedule", "warmup", "augment", "fraction"}
    assert all(set(each.settings()) == old for each in recipes())
    other = replace(recipe("cifar10", "resnet20"), mixup=0.2, width=2)
    assert set(other.settings()) == old | {"mixup", "width"}
    assert other.variation == {"width": 2}


def test_every_recipe_names_a_network_that_there_is():
    assert len(recipes()) == 9
    for each in recipes():
        assert each.model in models.names()
        assert recipe(each.dataset, each.model) == each
        assert is_in_paper(each.dataset, each.model)


def test_another_network_takes_the_recipe_of_the_data_sets_resnet20():
    assert recipe("cifar10", "vgg19") == replace(recipe("cifar10", "resnet20"), model="vgg19")
    assert not is_in_paper("cifar10", "vgg19")
    with pytest.raises(InputError, match="There is no data set 'mnist'; there are svhn, cifar10, cifar100"):
        recipe("mnist", "resnet20")


# Parts of the training images.


def test_a_fraction_counts_validation_images_and_holds_none_of_them():
    numbered = Images(np.arange(90), np.arange(90))
    of = ImageSet("cifar10", 10, numbered, Images(np.arange(90, 100), np.arange(90, 100)), images(1), "made here")
    assert part(of, None) is of.train
    before = set()
    for fraction, n in ((0.01, 1), (0.1, 10), (0.25, 25), (0.5, 50), (0.9, 90)):
        found = part(of, fraction)
        np.testing.assert_array_equal(found.pixels, found.labels)
        chosen = set(found.labels.tolist())
        assert len(found.labels) == len(chosen) == n
        assert before <= chosen <= set(range(90))
        before = chosen


@pytest.mark.parametrize("fraction", [0.0, -0.1, 0.001, 0.91, 1.0, 90, math.inf, math.nan])
def test_a_fraction_out_of_range_is_refused(fraction):
    of = ImageSet("cifar10", 10, images(90), images(10), images(1), "made here")
    with pytest.raises(InputError, match=rf"^`fraction` must be above 0 and at most 0\.9, .* got {fraction}\.$"):
        part(of, fraction)


def test_a_run_on_a_fraction_trains_on_that_part_only():
    of = image_set(40, 10)
    training = run(replace(RECIPE, epochs=1, batch=4, fraction=0.2), of)
    assert (len(training.pixels), training.steps) == (10, 2)
    np.testing.assert_array_equal(training.labels, of.train.labels[:10])
    found = trained(training, of)
    assert found.name == "cifar10/resnet20-fraction-0.2"
    assert found.provenance["n_train"] == 10
    assert found.augmented is None
