"""``nishimori paper train`` on a disk that is full: one line, and nothing half-written."""

import resource
import sys

import numpy as np
import pytest
import shell

pytest.importorskip("torch")


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    for split, n in {"train": 20, "val": 4, "test": 4}.items():
        np.save(tmp_path / f"{split}_images.npy", rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8))
        np.save(tmp_path / f"{split}_labels.npy", rng.integers(0, 10, n))
    return tmp_path


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_training_on_a_full_disk_ends_in_one_line(images):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        code, out, err = shell.nishimori(
            "paper train --data . --dataset cifar10 --model resnet20 --device cpu --epochs 1 -o new", place=images
        )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == "error: File too large: new/cifar10-resnet20.checkpoint.pt."
    assert "Traceback" not in err
    assert list((images / "new").iterdir()) == []
