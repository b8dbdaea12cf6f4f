"""The population of networks: its declaration, a run at a tiny size, and its files."""

import json
import sys

import numpy as np
import pytest
import torch
from small_training import images
from torch import nn

from nishimori_paper import models
from nishimori_paper.training._pixels import Pixels
from nishimori_paper.training._recipes import Recipe

TINY = """
[training]
model = "resnet20"
epochs = 3
batch = 16
learning_rate = 0.01
schedule = "cosine"
warmup = 1

[measurement]
epochs = { cifar10 = [1, 3], cifar100 = [1, 3] }
earlier_test_images = { cifar10 = 6, cifar100 = 5 }
validation_epochs = { cifar10 = "all", cifar100 = "last" }
training_images = 10
dropout_passes = 3

[[kinds]]
name = "first"
dataset = "cifar10"
seeds = [[1], [2]]

[[kinds]]
name = "dropping"
dataset = "cifar10"
seeds = [[1], []]
recipe = { dropout = 0.2, schedule = "constant", warmup = 0 }

[[kinds]]
name = "other"
dataset = "cifar100"
seeds = [[1], []]
"""


@pytest.fixture
def study():
    import population

    return population


@pytest.fixture
def files():
    import population_measures

    return population_measures


def arrays_of_images(folder, n_classes):
    folder.mkdir(parents=True)
    for seed, (split, n) in enumerate({"train": 40, "val": 9, "test": 8}.items()):
        of = images(n, n_classes, seed)
        np.save(folder / f"{split}_images.npy", of.pixels)
        np.save(folder / f"{split}_labels.npy", of.labels)


def trained(study, monkeypatch, tmp_path, dataset, *more):
    line = ["population", dataset, "--images", str(tmp_path), "--folder", str(tmp_path / "found" / dataset)]
    line += ["--declaration", str(tmp_path / "tiny.toml"), "--device", "cpu", "--side-by-side", "2"]
    monkeypatch.setattr(sys, "argv", [*line, *more])
    study.main()


def test_the_declaration_names_about_24_networks_that_can_be_trained(files):
    declared = files.declaration()
    found = files.members(declared)
    assert len({each.name for each in found}) == len(found)
    assert 20 <= sum(each.round == 1 for each in found) <= 30
    assert [each.round for each in found] == sorted(each.round for each in found)
    for each in found:
        recipe = Recipe(each.dataset, **each.recipe)
        models.build(recipe.model, n_classes=10, **recipe.variation)
        assert recipe.epochs == declared["measurement"]["epochs"][each.dataset][-1]
    by_kind = {each.kind: each.recipe for each in found}
    assert by_kind["c10-mixup"]["mixup"] == 0.2
    assert by_kind["c10-cosine"]["schedule"] == "cosine" != by_kind["c10-constant"]["schedule"]
    assert len({each["id"] for each in declared["hypotheses"]}) == len(declared["hypotheses"])


def test_a_run_writes_the_logits_of_each_network_and_is_not_repeated(study, files, monkeypatch, tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY, encoding="utf-8")
    arrays_of_images(tmp_path / "cifar10", 10)
    trained(study, monkeypatch, tmp_path, "cifar10", "--pack", str(tmp_path / "packs"))
    found = files.read(tmp_path / "packs")
    assert set(found) == {"first-1", "first-2", "dropping-1"}
    labels = np.load(tmp_path / "cifar10" / "test_labels.npy")
    for name, (about, arrays) in found.items():
        assert about["seed"] == int(name[-1])
        assert [each["epoch"] for each in about["epochs"]] == [1, 2, 3]
        assert set(about["measured"]) == {"1", "3"}
        np.testing.assert_array_equal(arrays["test_labels"], labels)
        assert arrays["test_1"].shape == (6, 10)
        assert arrays["test_3"].shape == (8, 10)
        assert arrays["validation_1"].shape == arrays["validation_3"].shape == (9, 10)
        assert (arrays["test_3"].max(axis=1) == 0).all()
        assert ("passes_test_3" in arrays) == (name == "dropping-1")
    assert not np.array_equal(found["first-1"][1]["test_3"], found["first-2"][1]["test_3"])
    capsys.readouterr()
    trained(study, monkeypatch, tmp_path, "cifar10")
    assert " 0 networks to train" in capsys.readouterr().out


def test_of_a_hundred_classes_less_is_kept_and_after_the_time_no_network_is_begun(study, files, monkeypatch, tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(TINY, encoding="utf-8")
    arrays_of_images(tmp_path / "cifar100", 100)
    trained(study, monkeypatch, tmp_path, "cifar100", "--minutes", "0")
    assert "no time for other-1" in capsys.readouterr().out
    trained(study, monkeypatch, tmp_path, "cifar100", "--epochs", "1")
    ((about, arrays),) = files.read(tmp_path / "found").values()
    assert about["recipe"]["epochs"] == 1
    assert set(arrays) == {"test_labels", "validation_labels", "test_1", "validation_1"}
    assert arrays["test_1"].shape == (8, 100)


def test_the_mean_over_passes_is_that_of_probabilities(study):
    device = torch.device("cpu")
    pixels = Pixels(images(5).pixels, "cifar10", device)
    batch = pixels.batch(torch.arange(5), study.Views.straight(5, device))
    n_inputs = batch[0].numel()
    network = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(n_inputs), nn.Dropout(0.5), nn.Linear(n_inputs, 4)).train()
    torch.manual_seed(0)
    found = study.passes(network, pixels, 3)
    assert all(each.training for each in network.modules())
    network.eval()
    network[2].train()
    torch.manual_seed(0)
    drawn = torch.stack([network(batch).detach().double().softmax(1) for _ in range(3)])
    assert (drawn.std(0) > 0.01).any()
    np.testing.assert_allclose(np.exp(found), drawn.mean(0), rtol=1e-6)


def test_the_passes_of_a_resnet_differ_and_leave_it_as_it_was(study):
    network = models.build("resnet20", n_classes=4, dropout=0.5).eval()
    pixels = Pixels(images(5).pixels, "cifar10", torch.device("cpu"))
    plain = network(pixels.batch(torch.arange(5), study.Views.straight(5, torch.device("cpu")))).detach()
    drawn = [study.passes(network, pixels, 1) for _ in range(2)]
    assert not np.allclose(*drawn)
    assert not any(each.training for each in network.modules())
    for each in network.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
    np.testing.assert_allclose(study.passes(network, pixels, 2), plain.double().log_softmax(1), atol=1e-5)


def test_archives_stay_small_and_hold_everything(files, monkeypatch, tmp_path):
    monkeypatch.setattr(files, "PACK_BYTES", 6000)
    rng = np.random.default_rng(0)
    (tmp_path / "some").mkdir()
    logits = {f"network-{i}": 20 * rng.normal(size=(100, 10)) for i in range(5)}
    for name, each in logits.items():
        files.write(tmp_path / "some" / f"{name}.npz", {"test_1": files.halved(each)}, {"name": name})
    assert files.pack(tmp_path / "some", tmp_path / "packs") == 3
    assert max(path.stat().st_size for path in (tmp_path / "packs").iterdir()) < 7000
    found = files.read(tmp_path / "packs")
    assert set(found) == set(logits)
    for name, (about, arrays) in found.items():
        assert about == json.loads(json.dumps({"name": name}))
        exact = logits[name] - logits[name].max(axis=1, keepdims=True)
        np.testing.assert_allclose(arrays["test_1"], exact, rtol=2**-10, atol=1e-6)
