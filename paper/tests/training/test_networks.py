"""What is stored of a network, and which devices and seeds training accepts."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_training import CPU, RECIPE, Projected, image_set, run

from nishimori.errors import FormatError, InputError
from nishimori_paper import models
from nishimori_paper.training._networks import loaded, outputs, trained, with_weights
from nishimori_paper.training._pixels import Pixels
from nishimori_paper.training._recipes import Recipe
from nishimori_paper.training._training import Epoch, Settings, logits

# What is stored of a trained network.


def test_a_trained_network_says_how_it_came_about():
    of = image_set()
    training = run(replace(RECIPE, epochs=1), of, seed=4)
    found = trained(training, of)
    assert found.name == "cifar10/resnet20"
    assert (
        found.provenance.items() >= {"data": "made here", "seed": 4, "n_train": 40, "n_test": 8, "parameters": 269_722}.items()
    )
    assert found.provenance["recipe"] == training.recipe.settings()
    assert found.provenance["training_loss"] == training.progress.epochs[-1].loss
    assert found.provenance["validation_error"] == 1 - training.progress.epochs[-1].validation_accuracy


@pytest.mark.parametrize("epochs", [2, 12])
def test_the_errors_after_each_of_the_last_ten_epochs_are_kept(epochs):
    of = image_set(8)
    training = run(replace(RECIPE, epochs=1), of)
    numbers = range(1, epochs + 1)
    training.progress.epochs[:] = [Epoch(i, 1.0, 0.5, 1 - i / 100, 1 - i / 50) for i in numbers]
    found = trained(training, of).provenance["last_epochs"]
    assert found["validation_error"] == pytest.approx([i / 100 for i in numbers][-10:])
    assert found["test_error"] == pytest.approx([i / 50 for i in numbers][-10:])


@pytest.mark.parametrize(
    ("n_classes", "fraction", "dtype"), [(10, None, np.float32), (10, 0.5, np.float16), (100, None, np.float16)]
)
def test_kept_logits_are_rounded_to_nearest(n_classes, fraction, dtype):
    of, network = image_set(n_classes=n_classes), Projected(n_classes).eval()
    found = outputs(network, Recipe("cifar10", "resnet20", fraction=fraction), of, seed=0, device=CPU, how={}).test.logits
    exact = logits(network, Pixels(of.test.pixels, "cifar10", CPU))
    assert found.dtype == dtype
    if dtype == np.float16:
        np.testing.assert_array_equal(found, exact.astype(np.float16))
        return
    np.testing.assert_allclose(found, exact, rtol=2.0**-15)  # half of the last of 14 bits after the leading one
    mantissa, _ = np.frexp(found.astype(float))
    np.testing.assert_array_equal(mantissa * 2**15 % 1, 0)


def test_half_of_the_test_images_of_cifar100_are_stored(monkeypatch):
    monkeypatch.setitem(outputs.__globals__["_TEST_ROWS"], "cifar100", 5)
    of, network = image_set(name="cifar100", n_classes=100), Projected(100).eval()
    found = outputs(network, Recipe("cifar100", "vgg19"), of, seed=0, device=CPU, how={})
    order = torch.randperm(8, generator=torch.Generator().manual_seed(42))[:5].numpy()
    np.testing.assert_array_equal(found.test.labels, of.test.labels[order])
    exact = logits(network, Pixels(of.test.pixels, "cifar100", CPU))
    np.testing.assert_array_equal(found.test.logits, exact[order].astype(np.float16))
    assert found.provenance["n_test"] == 8
    assert found.provenance["test_error"] == (exact.argmax(1) != of.test.labels).mean()


def test_weights_from_a_file_give_their_networks_logits(tmp_path):
    of, network = image_set(), models.build("resnet20", n_classes=10)
    torch.save(network.state_dict(), tmp_path / "it.pt")
    found = with_weights(loaded(tmp_path / "it.pt", "resnet20", 10), RECIPE, of, seed=0, device="cpu", whose="a friend's")
    exact = logits(network, Pixels(of.test.pixels, "cifar10", CPU))
    np.testing.assert_allclose(found.test.logits, exact, rtol=1e-4, atol=1e-5)
    assert found.provenance["weights"] == "a friend's"
    assert not {"recipe", "n_train", "seed"} & set(found.provenance)  # which are unknown here
    with pytest.raises(FormatError, match=r"it\.pt does not hold the weights of a resnet56 for 10 classes"):
        loaded(tmp_path / "it.pt", "resnet56", 10)
    (tmp_path / "it.pt").write_bytes(b"weights")
    with pytest.raises(FormatError, match=r"it\.pt is not a PyTorch state dict, or damaged"):
        loaded(tmp_path / "it.pt", "resnet20", 10)
    with pytest.raises(FileNotFoundError):
        loaded(tmp_path / "other.pt", "resnet20", 10)


# Devices and seeds.


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_cuda_without_a_gpu_is_refused(device):
    message = r"^There is no CUDA device here\. Use 'cpu', or a machine with a GPU and PyTorch's CUDA build\.$"
    with pytest.raises(InputError, match=message):
        run(device=device)
    with pytest.raises(InputError, match=message):
        with_weights(models.build("resnet20", n_classes=10), RECIPE, image_set(), seed=0, device=device, whose="a friend's")


def test_an_unknown_device_is_refused():
    with pytest.raises(InputError, match=r"^`device` must be a PyTorch device such as 'cpu' or 'cuda', got 'abacus'\.$"):
        run(device="abacus")


def test_a_negative_seed_is_refused():
    with pytest.raises(InputError, match=r"^`seed` must be 0 or more, got -1\.$"):
        run(seed=-1)


def test_the_best_settings_of_a_cpu_are_plain():
    assert Settings.best("cpu") == Settings("cpu", "float32", compiled=False, repeatable=False)
    assert Settings.best("cpu", repeatable=True).repeatable
