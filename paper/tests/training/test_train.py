"""`paper.train` and `paper.logits` from Python: progress."""

import numpy as np
import pytest
import torch

import nishimori_paper as paper
from nishimori_paper import models

STEPS = ["1/3 reading val_images.npy", "2/3 reading test_images.npy"]


@pytest.fixture
def place(tmp_path):
    """A folder with a few images and the weights of a network."""
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    for split, n in (("train", 8), ("val", 4), ("test", 4)):
        np.save(tmp_path / "images" / f"{split}_images.npy", rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8))
        np.save(tmp_path / "images" / f"{split}_labels.npy", rng.integers(0, 10, n))
    torch.save(models.build("resnet20", n_classes=10).state_dict(), tmp_path / "weights.pt")
    return tmp_path


def train(place, **rest):
    given = {"data": place / "images", "epochs": 1, "device": "cpu", "overwrite": True}
    return paper.train("cifar10", "resnet20", place / "new", **given, **rest)


def logits(place, **rest):
    given = {"data": place / "images", "device": "cpu", "overwrite": True}
    return paper.logits(place / "weights.pt", "cifar10", "resnet20", place / "it.npz", **given, **rest)


@pytest.mark.parametrize("work", [train, logits])
def test_progress_is_lines_away_from_a_terminal_only_on_request(place, capsys, work):
    for progress in (None, False):
        work(place, progress=progress)
        assert capsys.readouterr().err == ""
    work(place, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == ["0/3 reading train_images.npy", *STEPS]
    assert [line.partition(":")[0] for line in lines[3:]] == ["0/1 cifar10/resnet20", "1/1 cifar10/resnet20"] * (work is train)
