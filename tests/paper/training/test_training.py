"""Training on small generated images: the steps of a plain loop, bits that repeat, and runs that go on after a stop."""

import os
import shutil
import sysconfig
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from nishimori.errors import FormatError, InputError
from nishimori.paper import models
from nishimori.paper.training import _training
from nishimori.paper.training._image_formats import Images
from nishimori.paper.training._image_sets import ImageSet
from nishimori.paper.training._networks import outputs, trained
from nishimori.paper.training._pixels import Pixels, Views
from nishimori.paper.training._recipes import NORMALISATION, Recipe
from nishimori.paper.training._training import Settings, Training, augmented_views, logits
from small_training import CPU, RECIPE, Projected, Stop, bits, image_set, images, projected, run, same, stopped_after


@pytest.fixture(scope="module")
def unstopped():
    return bits(run())


# What a network sees.


def seen(pixels, dataset, top=4, left=4, mirrored=False):
    """One image as a loader would show it that pads by 4 black pixels, crops, mirrors and normalises."""
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


# Steps.


@pytest.mark.parametrize(
    "a_recipe",
    [
        Recipe("svhn", "resnet20", epochs=2, batch=16, augment=False, learning_rate=0.02),
        Recipe("cifar10", "resnet20", epochs=2, batch=16, learning_rate=0.02, weight_decay=0.1),
        Recipe("cifar100", "resnet20-conv", epochs=2, batch=8, nesterov=True, schedule="cosine", warmup=1, learning_rate=0.02),
    ],
    ids=lambda each: each.name,
)
def test_training_is_a_plain_loop(a_recipe):
    of = image_set(38, name=a_recipe.dataset)
    training = Training(a_recipe, of, seed=3, settings=Settings())
    network = models.build(a_recipe.model, n_classes=10)
    network.load_state_dict(training.network.state_dict())
    shown = []
    training.run(
        lambda at: shown.append(
            (at.order.clone(), Views(at.views.top.clone(), at.views.left.clone(), at.views.mirrored.clone()))
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
    for (order, views), epoch in zip(shown, training.progress.epochs, strict=True):
        assert order.shape == (steps, a_recipe.batch)
        network.train()
        losses, right = [], []
        for index in order:
            x = torch.from_numpy(all_seen(of.train.pixels[index], a_recipe.dataset, views[index]))
            y = torch.from_numpy(of.train.labels[index])
            optimiser.param_groups[0]["lr"] = next(rates)
            found = network(x)
            loss = functional.cross_entropy(found, y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            right.append((found.argmax(1) == y).float().mean().item())
        assert epoch.loss == pytest.approx(np.mean(losses), rel=1e-4)
        assert epoch.train_accuracy == pytest.approx(np.mean(right), abs=1.5 / 38)
        straight = torch.from_numpy(np.stack([seen(each, a_recipe.dataset) for each in of.validation.pixels]))
        with torch.inference_mode():
            answers = network.eval()(straight).argmax(1).numpy()
        assert epoch.validation_accuracy == pytest.approx((answers == of.validation.labels).mean(), abs=1.5 / 8)
    assert next(rates, None) is None
    expected = network.state_dict()  # a few steps amplify the last bits of float32
    for name, each in training.network.state_dict().items():
        torch.testing.assert_close(each, expected[name], rtol=1e-3, atol=1e-4, msg=lambda text, name=name: f"{name}: {text}")


def test_an_epoch_shows_every_image_once_but_for_an_incomplete_batch():
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

    of = ImageSet("cifar10", 3, coloured(96, 0), coloured(60, 1), coloured(3, 2), "made here")
    epochs = run(replace(RECIPE, learning_rate=0.02), of).progress.epochs
    assert [each.number for each in epochs] == [1, 2, 3]
    assert epochs[-1].loss < 0.3 * epochs[0].loss
    assert epochs[-1].train_accuracy > 0.9
    assert all(0 <= each.validation_accuracy <= 1 for each in epochs)


def test_bfloat16_is_of_the_activations_and_weights_stay_float32():
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
    """One normalised convolution: enough for a compiler to do its work, which for a ResNet takes it half a minute."""

    def __init__(self, n_classes):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.linear = nn.Linear(8, n_classes)

    def forward(self, x):
        return self.linear(functional.relu(self.norm(self.conv(x))).mean((2, 3)))


@pytest.mark.skipif(not COMPILER, reason="torch.compile needs a C++ compiler and Python's headers")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch's own use of its older compiler
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
        training.validation_accuracy()
        trained(training, image_set())
        assert all(each.training == mode for each in training.network.modules())


# Checkpoints.


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_stopped_run_ends_with_the_bits_of_one_that_was_not(tmp_path, unstopped, epoch):
    path = tmp_path / "it.pt"
    stopped_after(epoch, path)
    numbers = []
    resumed = run(checkpoint=path, after=lambda at: numbers.append(len(at.progress.epochs)))
    assert numbers == list(range(epoch + 1, 4))
    assert same(bits(resumed), unstopped)
    assert [each.name for each in tmp_path.iterdir()] == ["it.pt"]


def test_a_run_stopped_within_an_epoch_goes_on_from_the_one_before(tmp_path, unstopped, monkeypatch):
    path, steps, step = tmp_path / "it.pt", [], Training._step

    def failing(training):
        steps.append(1)
        if len(steps) == 4:  # two to an epoch
            raise KeyboardInterrupt
        step(training)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "_step", failing)
        with pytest.raises(KeyboardInterrupt):
            run(checkpoint=path)
    assert same(bits(run(checkpoint=path)), unstopped)


def test_dropout_repeats_itself_and_resumes_exactly(tmp_path):
    dropping = Recipe("cifar10", "vgg19", epochs=2, batch=4, learning_rate=0.01)
    of = image_set(8, 2)
    whole = bits(run(dropping, of))
    stopped_after(1, tmp_path / "it.pt", dropping, of)
    assert same(bits(run(dropping, of, checkpoint=tmp_path / "it.pt")), whole)


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        ({"a_recipe": replace(RECIPE, epochs=4)}, "recipe"),
        ({"a_recipe": replace(RECIPE, model="resnet20-conv")}, "recipe"),
        ({"a_recipe": replace(RECIPE, fraction=0.5)}, "recipe"),
        ({"seed": 1}, "seed"),
        ({"of": image_set(n_train=41)}, "images"),
        ({"precision": "bfloat16"}, "settings"),
        ({"seed": 1, "of": image_set(n_train=41)}, "seed, images"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused_and_stays(tmp_path, other, differs):
    path = tmp_path / "it.pt"
    stopped_after(1, path)
    before = path.read_bytes()
    with pytest.raises(InputError, match=rf"it\.pt is the checkpoint of another run \(it differs in: {differs}\)\. Remove it"):
        run(checkpoint=path, **other)
    assert path.read_bytes() == before


def test_a_truncated_checkpoint_is_refused_and_stays(tmp_path):
    path = tmp_path / "it.pt"
    stopped_after(1, path)
    whole = path.read_bytes()
    for length in (0, 1, 100, len(whole) // 2, len(whole) - 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError, match=r"it\.pt is no checkpoint, or damaged \(\w+\)\. Remove it to start over\."):
            run(checkpoint=path)
        assert path.read_bytes() == whole[:length]


@pytest.mark.parametrize("content", [[1, 2], {"network": {}}, {"progress": 1}], ids=str)
def test_a_file_of_something_else_is_no_checkpoint(tmp_path, content):
    path = tmp_path / "it.pt"
    torch.save(content, path)
    before = path.read_bytes()
    with pytest.raises(FormatError, match=r"it\.pt is no checkpoint of `nishimori paper train`"):
        run(checkpoint=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("epoch", [1, 2])
def test_no_half_written_checkpoint_remains(tmp_path, monkeypatch, unstopped, epoch):
    path, whole = tmp_path / "it.pt", []

    def full(content, target):
        Path(target).write_bytes(b"half of it")
        raise OSError("No space left on device")

    def after(training):
        whole.append(path.read_bytes())
        if len(whole) == epoch - 1:
            patched.setattr(torch, "save", full)

    with monkeypatch.context() as patched:
        if epoch == 1:
            patched.setattr(torch, "save", full)
        with pytest.raises(OSError, match="No space left"):
            run(checkpoint=path, after=after)
    assert [each.read_bytes() for each in tmp_path.iterdir()] == whole
    assert len(whole) == epoch - 1
    if epoch == 2:
        assert same(bits(run(checkpoint=path)), unstopped)


def test_a_checkpoint_that_cannot_be_written_is_refused_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr(Training, "_epoch", lambda *_: pytest.fail("training began"))
    with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere to write it\.pt to"):
        run(checkpoint=tmp_path / "nowhere" / "it.pt")
    with pytest.raises(FileExistsError, match="is no plain file"):
        run(checkpoint=tmp_path)
