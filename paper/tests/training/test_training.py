"""Training on small generated images: the steps of a plain loop, compilation, and bits that repeat."""

import os
import shutil
import sysconfig
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import beta, kstest
from small_training import CPU, RECIPE, all_seen, bits, image_set, run, same, seen
from torch import nn
from torch.nn import functional

from nishimori_paper import models
from nishimori_paper.training import _training
from nishimori_paper.training._image_formats import Images
from nishimori_paper.training._image_sets import ImageSet
from nishimori_paper.training._networks import trained
from nishimori_paper.training._pixels import Views
from nishimori_paper.training._recipes import Recipe
from nishimori_paper.training._training import Settings, Training, augmented_views


@pytest.fixture(scope="module")
def unstopped():
    return bits(run())


# Steps.


@pytest.mark.parametrize(
    "a_recipe",
    [
        Recipe("svhn", "resnet20", epochs=2, batch=16, augment=False, learning_rate=0.02),
        Recipe("cifar10", "resnet20", epochs=2, batch=16, learning_rate=0.02, weight_decay=0.1),
        Recipe("cifar100", "resnet20-conv", epochs=2, batch=8, nesterov=True, schedule="cosine", warmup=1, learning_rate=0.02),
        Recipe("svhn", "resnet20", epochs=2, batch=16, learning_rate=0.02, label_smoothing=0.3, width=2),
        Recipe("cifar10", "resnet20-conv", epochs=1, batch=16, learning_rate=0.02, label_smoothing=0.1, mixup=0.5),
    ],
    ids=lambda each: f"{each.name}-{each.mixup}",
)
def test_training_is_a_plain_loop(a_recipe):
    of = image_set(38, name=a_recipe.dataset)
    training = Training(a_recipe, of, seed=3, settings=Settings())
    network = models.build(a_recipe.model, n_classes=10, **a_recipe.variation)
    network.load_state_dict(training.network.state_dict())
    shown = []
    training.run(
        lambda at: shown.append(
            (
                at.order.clone(),
                Views(at.views.top.clone(), at.views.left.clone(), at.views.mirrored.clone()),
                at.shares.tolist(),
            )
        )
    )

    optimiser = torch.optim.SGD(
        network.parameters(),
        lr=1.0,
        momentum=a_recipe.momentum,
        nesterov=a_recipe.nesterov,
        weight_decay=a_recipe.weight_decay,
        fused=False,
        foreach=False,
    )
    steps = 38 // a_recipe.batch
    rates = iter(a_recipe.learning_rates(steps))
    for (order, views, shares), epoch in zip(shown, training.progress.epochs, strict=True):
        assert order.shape == (steps, a_recipe.batch)
        network.train()
        losses, right = [], []
        assert len(set(shares)) == (steps if a_recipe.mixup else 1)
        for index, share in zip(order, shares, strict=True):
            x = torch.from_numpy(all_seen(of.train.pixels[index], a_recipe.dataset, views[index]))
            y = torch.from_numpy(of.train.labels[index])
            target = (1 - a_recipe.label_smoothing) * functional.one_hot(y, 10) + a_recipe.label_smoothing / 10
            x, target = (share * each + (1 - share) * torch.flip(each, (0,)) for each in (x, target))
            optimiser.param_groups[0]["lr"] = next(rates)
            found = network(x)
            loss = -(target * found.log_softmax(1)).sum(1).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            right.append((found.argmax(1) == y).float().mean().item())
        assert epoch.loss == pytest.approx(np.mean(losses), rel=1e-4)
        assert epoch.train_accuracy == pytest.approx(np.mean(right), abs=1.5 / 38)
        for found, part in ((epoch.validation_accuracy, of.validation), (epoch.test_accuracy, of.test)):
            straight = torch.from_numpy(np.stack([seen(each, a_recipe.dataset) for each in part.pixels]))
            with torch.inference_mode():
                answers = network.eval()(straight).argmax(1).numpy()
            assert found == pytest.approx((answers == part.labels).mean(), abs=1.5 / 8)
    assert next(rates, None) is None
    expected = network.state_dict()  # a few steps amplify the last bits of float32
    for name, each in training.network.state_dict().items():
        torch.testing.assert_close(each, expected[name], rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


def test_shares_of_a_mixture_follow_the_beta_distribution():
    training = Training(replace(RECIPE, batch=1, mixup=0.4), image_set(2000), seed=0, settings=Settings())
    training._replay = training._step  # no step is needed
    training.begin_epoch(0)
    shares = training.shares.numpy().copy()
    assert len(shares) == 2000
    assert shares.min() >= 0.5
    # The larger of the two shares is at most t with the probability that Beta gives to the interval from 1 − t to t.
    found = kstest(shares, lambda t: 2 * beta.cdf(t, 0.4, 0.4) - 1)
    assert found.pvalue > 0.001
    training.begin_epoch(1)
    assert not np.array_equal(training.shares.numpy(), shares)


def test_an_epoch_shows_every_image_once_except_an_incomplete_batch():
    orders, tops = [], []
    run(after=lambda at: (orders.append(at.order.flatten().tolist()), tops.append(at.views.top.tolist())))
    assert all(len(each) == len(set(each)) == 32 for each in orders)  # two batches of 16 from 40 images
    assert all(set(each) <= set(range(40)) for each in orders)
    assert len({tuple(each) for each in orders}) == len({tuple(each) for each in tops}) == 3


def test_a_batch_is_no_larger_than_the_data():
    training = run(replace(RECIPE, epochs=1, batch=128), image_set(12))
    assert (training.batch, training.steps) == (12, 1)


def test_without_augmentation_every_view_is_straight():
    straight = Views.straight(40, CPU)

    def after(training):
        assert torch.equal(training.views.top, straight.top)
        assert torch.equal(training.views.left, straight.left)
        assert not training.views.mirrored.any()

    run(replace(RECIPE, epochs=1, augment=False), after=after)


def test_the_loss_falls_on_images_whose_class_is_their_colour():
    def coloured(n, seed):
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 3, n)
        pixels = rng.integers(0, 100, (n, 32, 32, 3))
        pixels[np.arange(n), :, :, labels] += 120
        return Images(pixels.astype(np.uint8), labels)

    validation = coloured(60, 1)
    mislabelled = Images(validation.pixels, (validation.labels + 1) % 3)
    of = ImageSet("cifar10", 3, coloured(96, 0), validation, mislabelled, "made here")
    epochs = run(replace(RECIPE, learning_rate=0.02), of).progress.epochs
    assert [each.number for each in epochs] == [1, 2, 3]
    assert epochs[-1].loss < 0.3 * epochs[0].loss
    assert epochs[-1].train_accuracy > 0.9
    assert epochs[-1].validation_accuracy > 0.5  # chance is 1/3
    assert epochs[-1].test_accuracy <= 1 - epochs[-1].validation_accuracy  # the same images, every label another one


def test_bfloat16_applies_to_activations_and_weights_stay_float32():
    full, brief = (
        Training(replace(RECIPE, epochs=1), image_set(), seed=0, settings=Settings(precision=each))
        for each in ("float32", "bfloat16")
    )
    full.run()
    brief.run()
    assert all(each.dtype == torch.float32 for each in (*brief.network.parameters(), *brief.momenta))
    assert not same(bits(full), bits(brief))
    assert brief.progress.epochs[0].loss == pytest.approx(full.progress.epochs[0].loss, rel=0.1)
    assert trained(brief, image_set()).test.logits.dtype == np.float32


# Compilation.

COMPILER = (shutil.which(os.environ.get("CXX", "")) or shutil.which("g++") or shutil.which("clang++")) and (
    Path(sysconfig.get_paths()["include"]) / "Python.h"
).exists()


class Small(nn.Module):
    """One normalised convolution: enough to test compilation, which takes half a minute for a ResNet."""

    def __init__(self, n_classes):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, n_classes)

    def forward(self, x):
        return self.linear(functional.relu(self.norm(self.conv(x))).mean((2, 3)))


@pytest.mark.skipif(not COMPILER, reason="torch.compile needs a C++ compiler and Python's headers")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # PyTorch uses deprecated functions of its own
def test_a_compiled_run_is_the_plain_one_to_rounding(tmp_path, monkeypatch):
    from torch._inductor import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(models._BUILDERS, "small", Small)
    small = replace(RECIPE, model="small", epochs=2)
    with config.patch(compile_threads=1):
        found, _ = bits(run(small, compiled=True))
    torch._dynamo.reset()
    expected, _ = bits(run(small))
    assert list(tmp_path.rglob("*.cpp")), "nothing was compiled"
    for name, each in found.items():
        torch.testing.assert_close(each, expected[name], rtol=1e-3, atol=1e-5)


# Bits.


def test_the_same_seed_gives_the_same_bits_and_another_does_not(unstopped):
    assert same(bits(run()), unstopped)
    assert not same(bits(run(seed=1)), unstopped)


def test_what_pytorch_drew_before_does_not_matter(unstopped):
    with torch.random.fork_rng():
        torch.manual_seed(12345)
        assert same(bits(run(after=lambda _: torch.rand(3))), unstopped)


def test_no_two_draws_of_a_run_share_a_seed(monkeypatch):
    asked, actual = [], _training._seed
    monkeypatch.setattr(_training, "_seed", lambda *path: asked.append(path) or actual(*path))
    training = run(replace(RECIPE, epochs=2))
    augmented_views(3, training.seed, CPU)
    assert len(asked) >= 4
    assert len({actual(*path) for path in asked}) == len(asked)


@pytest.mark.parametrize("deterministic", [True, False])
def test_training_leaves_pytorch_as_it_was(deterministic):
    was = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(deterministic)
    try:
        before = torch.get_rng_state()
        training = run(replace(RECIPE, epochs=1), repeatable=not deterministic)
        trained(training, image_set())
        assert torch.equal(torch.get_rng_state(), before)
        assert torch.are_deterministic_algorithms_enabled() == deterministic
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
        assert not torch.is_autocast_enabled("cpu")
    finally:
        torch.use_deterministic_algorithms(was)


def test_validation_and_logits_leave_the_networks_mode_as_it_was():
    training = run(replace(RECIPE, epochs=1))
    for mode in (True, False):
        training.network.train(mode)
        training.accuracy(training.validation)
        trained(training, image_set())
        assert all(each.training == mode for each in training.network.modules())
