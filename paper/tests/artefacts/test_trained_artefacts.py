"""Artefacts with networks that are trained for the run, on small generated images."""

import json

import numpy as np
import pytest
import reference
import shell
import torch

import nishimori_paper as paper
from nishimori import data
from nishimori._support.progress import silent
from nishimori.errors import InputError
from nishimori_paper import models
from nishimori_paper._artefact import Scale
from nishimori_paper._measured import network
from nishimori_paper.training import _networks, _train
from nishimori_paper.training._recipes import Recipe
from nishimori_paper.training._training import Training


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Images of three classes, a third of them mislabelled, so that networks are better than chance but far from perfect."""
    place = tmp_path_factory.mktemp("images")
    for seed, dataset in enumerate(("cifar10", "svhn")):
        (place / dataset).mkdir()
        rng = np.random.default_rng(seed)
        for split, n in (("train", 96), ("val", 90), ("test", 90)):
            labels = rng.integers(0, 3, n)
            pixels = rng.integers(0, 100, (n, 32, 32, 3))
            pixels[np.arange(n), :, :, labels] += 120
            np.save(place / dataset / f"{split}_images.npy", pixels.astype(np.uint8))
            np.save(place / dataset / f"{split}_labels.npy", np.where(rng.random(n) < 1 / 3, rng.integers(0, 3, n), labels))
    return place


@pytest.fixture(scope="module")
def trainings():
    """A list of the networks trained so far; training is fast, with two epochs and few layers."""
    done, actual, threads = [], _networks.train, torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_train, "recipe", lambda dataset, model: Recipe(dataset, model, epochs=2, batch=32, learning_rate=0.02))
        patch.setattr(
            _networks, "train", lambda recipe, *args, **rest: done.append(recipe.name) or actual(recipe, *args, **rest)
        )
        patch.setitem(models._BUILDERS, "resnet56", models._BUILDERS["resnet20"])
        patch.setattr(torch.cuda, "is_available", lambda: False)  # compiling for a GPU would take longer than the training
        torch.set_num_threads(1)
        yield done
        torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, images, trainings):
    """A folder in which networks were trained for a figure."""
    target = tmp_path_factory.mktemp("trained")
    outcome = paper.run("figure-reliability", target, quick=True, train=True, data=images)
    assert outcome.fresh
    assert trainings == ["svhn/resnet20", "cifar10/resnet56"]
    return target


def test_training_puts_networks_beside_the_figure(trained):
    assert sorted(path.name for path in (trained / "networks").iterdir()) == [
        "cifar10-resnet56.npz",
        "cifar10-resnet56.pt",
        "svhn-resnet20.npz",
        "svhn-resnet20.pt",
    ]


def test_a_figure_shows_the_trained_networks_and_the_authors_bundled_ones(trained, computed):
    folder = computed("figure-reliability")
    ours, bundled = (
        json.loads((each / "figure-reliability.json").read_text(encoding="utf-8"))["pieces"] for each in (trained, folder)
    )
    assert list(ours) == list(bundled)
    for name, each in ours.items():
        assert (each == bundled[name]) == name.endswith("-authors"), name
    part = data.load(trained / "networks" / "svhn-resnet20.npz").test
    expected = 1 - reference.right(part.logits, part.labels).mean()
    assert ours["svhn/resnet20"]["scores"]["error"] == pytest.approx(expected, abs=1e-12)


def test_a_second_run_trains_nothing(trained, images, trainings):
    before = len(trainings)
    line = ("paper", "run", "figure-reliability", "--quick", "--train", "--data", images, "-o", trained)
    code, out, err = shell.nishimori(*line)
    assert (code, out) == (0, "")
    assert err.splitlines()[-1].endswith(f"already in {trained}; --force starts over")
    kept = json.loads((trained / "figure-reliability.json").read_text(encoding="utf-8"))["pieces"]
    assert shell.nishimori(*line, "--force")[0] == 0
    assert json.loads((trained / "figure-reliability.json").read_text(encoding="utf-8"))["pieces"] == kept
    assert len(trainings) == before


def test_the_folder_may_be_called_by_another_name(trained, images, trainings, monkeypatch):
    before = len(trainings)
    monkeypatch.chdir(trained.parent)
    again = paper.run("figure-reliability", trained.name, quick=True, train=True, data=images)
    assert not again.fresh
    assert len(trainings) == before


def test_an_interrupted_training_continues_with_the_same_network(tmp_path, trained, images, trainings, monkeypatch):
    target, step, steps, before = tmp_path / "new", Training._step, [], len(trainings)

    def pressed(training):
        steps.append(1)
        if len(steps) == 10:  # three steps per epoch, two epochs per network: in the second epoch of the second network
            raise KeyboardInterrupt
        step(training)

    line = ("paper", "run", "figure-reliability", "--quick", "--train", "--data", images, "-o", target)
    with monkeypatch.context() as patch:
        patch.setattr(Training, "_step", pressed)
        code, _, err = shell.nishimori(*line)
    assert code == 130
    assert err.splitlines()[-1] == (
        f"Interrupted. The finished part of figure-reliability is in {target}; repeat the command to continue."
    )
    assert {path.name for path in (target / "networks").iterdir()} == {
        "svhn-resnet20.npz",
        "svhn-resnet20.pt",
        "cifar10-resnet56.checkpoint.pt",
    }
    code, _, err = shell.nishimori(*line)
    assert code == 0
    assert "1/2 cifar10/resnet56: loss" not in err
    assert "2/2 cifar10/resnet56: loss" in err
    assert trainings[before:] == ["svhn/resnet20", "cifar10/resnet56", "cifar10/resnet56"]
    found, expected = (data.load(each / "networks" / "cifar10-resnet56.npz") for each in (target, trained))
    np.testing.assert_array_equal(found.test.logits, expected.test.logits)


def test_networks_of_another_seed_are_not_taken_for_this_one(trained, images):
    before = {path: path.read_bytes() for path in trained.glob("*.*")}
    with pytest.raises(
        InputError, match=r"svhn-resnet20\.npz was trained with another seed\. Remove it, or pass another `folder`\."
    ):
        paper.run("figure-reliability", trained, quick=True, seed=1, train=True, data=images, overwrite=True)
    assert {path: path.read_bytes() for path in trained.glob("*.*")} == before


def test_networks_of_another_recipe_are_not_taken_for_the_papers(trained, images, monkeypatch):
    monkeypatch.setattr(_train, "recipe", lambda dataset, model: Recipe(dataset, model, epochs=3, batch=32, learning_rate=0.02))
    with pytest.raises(InputError, match=r"svhn-resnet20\.npz was trained with another recipe\. Remove it"):
        paper.run("figure-reliability", trained, quick=True, train=True, data=images)


def test_every_network_that_an_artefact_asks_for_is_trained_under_its_name(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(_train, "_train", lambda recipe, folder, **rest: asked.setdefault(recipe.name, rest))
    needed = paper.artefact("statements").networks()
    _train.train_missing(needed, tmp_path, data=None, seed=7, device="cpu", report=silent)
    assert list(asked) == list(needed)
    assert len(needed) == 16
    assert all((rest["seed"], rest["settings"].device) == (7, "cpu") for rest in asked.values())
    for name in needed:  # without training, bundled logits are used
        assert network(name, Scale()).name.startswith(name.partition("/")[0])


def test_images_are_refused_where_nothing_is_trained(tmp_path, images):
    assert shell.nishimori("paper", "run", "figure-reliability", "--data", images, "-o", tmp_path / "new") == (
        1,
        "",
        "error: --data is only for training. Pass --train to train, or leave out --data to use the bundled logits.\n",
    )
    assert not (tmp_path / "new").exists()
