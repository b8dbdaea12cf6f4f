"""Files of arrays in each format that the shell reads, for tests."""

import numpy as np
import pytest
from optional import safetensors, torch

from nishimori._files.arrays.files import open_arrays
from nishimori.errors import FormatError

ROWS = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
LABELS = np.arange(10) % 3


def saved(path, **arrays):
    """A file with those arrays; a .npy file gets the first."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        with path.open("wb") as file:
            np.savez(file, **arrays)
    elif suffix == ".npy":
        with path.open("wb") as file:
            np.save(file, next(iter(arrays.values())))
    elif suffix == ".safetensors":
        safetensors.numpy.save_file({name: np.array(each, order="C") for name, each in arrays.items()}, path)
    else:
        torch.save({name: torch.from_numpy(each) for name, each in arrays.items()}, path)
    return path


def named(path):
    return "" if path.suffix.lower() == ".npy" else "logits"


def blocks(path, n_rows, name=None):
    return list(open_arrays(path).array(named(path) if name is None else name).blocks(n_rows))


def whole(path, name=None):
    return np.array(open_arrays(path).array(named(path) if name is None else name).whole())


def refused(path, match, use=whole):
    with pytest.raises(FormatError, match=match) as caught:
        use(path)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    assert message.endswith((".", ")."))
    assert len(message) < 400
    return message
