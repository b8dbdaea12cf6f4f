"""What a network sees: images shifted, mirrored and normalised as a plain loop does it."""

import numpy as np
import pytest
import torch
from small_training import CPU, Projected, Stop, all_seen, image_set, images, projected, seen
from torch import nn

from nishimori_paper.training._networks import outputs
from nishimori_paper.training._pixels import Pixels, Views
from nishimori_paper.training._recipes import NORMALISATION, Recipe
from nishimori_paper.training._training import augmented_views, logits


@pytest.mark.parametrize("dataset", NORMALISATION)
def test_every_view_is_the_naive_crop_and_mirror(dataset):
    some = images(3).pixels
    top, left, mirrored = torch.cartesian_prod(torch.arange(9), torch.arange(9), torch.arange(2)).unbind(1)
    views = Views(top, left, mirrored.bool())
    index = torch.arange(162) % 3
    found = Pixels(some, dataset, CPU).batch(index, views)
    assert (found.shape, found.dtype) == ((162, 3, 32, 32), torch.float32)
    assert found.is_contiguous(memory_format=torch.channels_last)
    np.testing.assert_allclose(found, all_seen(some[index], dataset, views), rtol=1e-6, atol=1e-6)


def test_straight_views_are_the_images_themselves():
    some = images(5).pixels
    found = Pixels(some, "svhn", CPU).batch(torch.arange(5), Views.straight(5, CPU))
    np.testing.assert_allclose(found, some.transpose(0, 3, 1, 2) / 255, rtol=1e-6)


def test_random_views_use_every_shift_and_mirror_half_of_the_images():
    views = augmented_views(10_000, 0, CPU)
    for corner in (views.top, views.left):
        assert set(corner.tolist()) == set(range(9))
        assert (corner.bincount() / 10_000 - 1 / 9).abs().max() < 0.02
    assert abs(views.mirrored.float().mean() - 0.5) < 0.03
    assert abs(np.corrcoef(views.top, views.left)[0, 1]) < 0.05


def test_views_follow_from_the_seed():
    one, again, other = (augmented_views(50, seed, CPU) for seed in (1, 1, 2))
    assert torch.equal(one.top, again.top)
    assert torch.equal(one.left, again.left)
    assert torch.equal(one.mirrored, again.mirrored)
    assert not torch.equal(one.top, other.top)


@pytest.mark.parametrize("batch", [1000, 3])
@pytest.mark.parametrize("training", [True, False])
def test_logits_are_of_the_images_as_they_are_and_the_networks_mode_stays(training, batch):
    network, some = Projected().train(training), images(7).pixels
    found = logits(network, Pixels(some, "cifar10", CPU), batch=batch)
    straight = np.stack([seen(each, "cifar10") for each in some])
    np.testing.assert_allclose(found, projected(network, straight), rtol=1e-4, atol=1e-4)
    assert found.dtype == np.float32
    assert all(each.training == training for each in network.modules())


def test_a_network_that_fails_stays_in_its_mode():
    class Failing(nn.Module):
        def forward(self, x):
            raise Stop

    network = Failing().train()
    with pytest.raises(Stop):
        logits(network, Pixels(images(2).pixels, "cifar10", CPU))
    assert network.training


@pytest.mark.parametrize("dataset", ["cifar10", "svhn"])
def test_only_the_augmented_logits_of_cifar10_are_of_shifted_images(dataset):
    of, network = image_set(name=dataset), Projected().eval()
    found = outputs(network, Recipe(dataset, "resnet20"), of, seed=5, device=CPU, how={})
    for kept, some in ((found.validation, of.validation), (found.test, of.test)):
        straight = np.stack([seen(each, dataset) for each in some.pixels])
        np.testing.assert_allclose(kept.logits, projected(network, straight), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(kept.labels, some.labels)
    if dataset == "svhn":
        assert found.augmented is None
        return
    shifted = all_seen(of.validation.pixels, dataset, augmented_views(len(of.validation), 5, CPU))
    np.testing.assert_allclose(found.augmented.logits, projected(network, shifted), rtol=1e-4, atol=1e-4)
    assert np.abs(found.augmented.logits - found.validation.logits).max() > 0.01
