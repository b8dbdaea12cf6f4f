"""Artefacts of networks that are trained for a run, on small generated images."""

import json

import numpy as np
import pytest
import torch

import reference
import shell
from nishimori import data, paper
from nishimori.errors import InputError
from nishimori.paper import models
from nishimori.paper._artefact import Scale
from nishimori.paper._measured import network
from nishimori.paper.training import _networks, _train
from nishimori.paper.training._recipes import Recipe
from nishimori.paper.training._training import Training


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Images of three classes, a third of them mislabelled, so that a network does better than chance and never well."""
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
    """The names of networks as they are trained, in moments, with two epochs each and few layers."""
    done, actual, threads = [], _networks.train, torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_train, "recipe", lambda dataset, model: Recipe(dataset, model, epochs=2, batch=32, learning_rate=0.02))
        patch.setattr(
            _networks, "train", lambda recipe, *args, **rest: done.append(recipe.name) or actual(recipe, *args, **rest)
        )
        patch.setitem(models._BUILDERS, "resnet56", models._BUILDERS["resnet20"])
        patch.setattr(torch.cuda, "is_available", lambda: False)  # a GPU compiles for longer than this trains
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


def test_a_figure_is_of_the_trained_networks_and_of_the_authors_bundled_ones(trained, tmp_path):
    paper.run("figure-reliability", tmp_path, quick=True)
    ours, bundled = (
        json.loads((each / "figure-reliability.json").read_text(encoding="utf-8"))["pieces"] for each in (trained, tmp_path)
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


def test_an_interrupted_training_goes_on_with_the_network_it_was_at(tmp_path, trained, images, trainings, monkeypatch):
    target, step, steps, before = tmp_path / "new", Training._step, [], len(trainings)

    def pressed(training):
        steps.append(1)
        if len(steps) == 10:  # three steps to an epoch, two epochs to a network: in the second epoch of the second one
            raise KeyboardInterrupt
        step(training)

    line = ("paper", "run", "figure-reliability", "--quick", "--train", "--data", images, "-o", target)
    with monkeypatch.context() as patch:
        patch.setattr(Training, "_step", pressed)
        code, _, err = shell.nishimori(*line)
    assert code == 130
    assert err.splitlines()[-1] == f"Interrupted. What figure-reliability had done is in {target}; repeat the command to go on."
    assert {path.name for path in (target / "networks").iterdir()} == {
        "svhn-resnet20.npz",
        "svhn-resnet20.pt",
        "cifar10-resnet56.checkpoint.pt",
    }
    code, _, err = shell.nishimori(*line)
    assert code == 0
    assert "1/2 cifar10/resnet56: loss" not in err
    assert trainings[before:] == ["svhn/resnet20", "cifar10/resnet56", "cifar10/resnet56"]
    found, expected = (data.load(each / "networks" / "cifar10-resnet56.npz") for each in (target, trained))
    np.testing.assert_array_equal(found.test.logits, expected.test.logits)


def test_networks_of_another_seed_are_not_taken_for_this_one(trained, images):
    before = {path: path.read_bytes() for path in trained.glob("*.*")}
    with pytest.raises(InputError, match=r"svhn-resnet20\.npz was trained with another seed\. Remove it"):
        paper.run("figure-reliability", trained, quick=True, seed=1, train=True, data=images, overwrite=True)
    assert {path: path.read_bytes() for path in trained.glob("*.*")} == before


def test_networks_of_another_recipe_are_not_taken_for_the_papers(trained, images, monkeypatch):
    monkeypatch.setattr(_train, "recipe", lambda dataset, model: Recipe(dataset, model, epochs=3, batch=32, learning_rate=0.02))
    with pytest.raises(InputError, match=r"svhn-resnet20\.npz was trained with another recipe\. Remove it"):
        paper.run("figure-reliability", trained, quick=True, train=True, data=images)


def test_every_network_that_an_artefact_asks_for_is_trained_under_its_name(tmp_path, monkeypatch):
    asked = {}
    monkeypatch.setattr(
        _train, "train", lambda dataset, model, folder, *, fraction, **rest: asked.setdefault((dataset, model, fraction), rest)
    )
    needed = paper.artefact("claims").networks()
    _train.train_missing(needed, tmp_path, data=None, seed=7)
    assert len(asked) == len(needed) == 16
    assert [Recipe(dataset, model, fraction=fraction).name for dataset, model, fraction in asked] == list(needed)
    assert all(rest["seed"] == 7 for rest in asked.values())
    for name in needed:  # and is bundled, for those who do not train
        assert network(name, Scale()).name.startswith(name.partition("/")[0])


def test_images_are_refused_where_nothing_is_trained(tmp_path, images):
    assert shell.nishimori("paper", "run", "figure-reliability", "--data", images, "-o", tmp_path / "new") == (
        1,
        "",
        "error: `data` (--data) names images to train on. Add --train, or leave it out to take the bundled logits.\n",
    )
    assert not (tmp_path / "new").exists()
