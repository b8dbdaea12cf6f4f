"""Candidates of "best" on the bundled networks: validation images to fit to and to choose by, test images to measure on."""

from pathlib import Path

import numpy as np

from best_contestants import CANDIDATES, Measures, Pooled, suits
from nishimori import data

QUICK = ("cifar10/resnet20",)


def load_network(name: str, cache: Path) -> Measures:
    """What rules need to know about one network, from fits if the folder ``cache`` does not have it."""
    path = cache / "networks" / f"{name.replace('/', '__')}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part.npz")
        np.savez(unfinished, **_measure(name))
        unfinished.replace(path)
    with np.load(path) as arrays:
        candidates = arrays["candidates"].tolist()
        return Measures([], np.zeros((0, 0)), candidates, arrays["held_out"], arrays["on_test"], arrays["seconds"])


def _measure(name: str) -> dict[str, np.ndarray]:
    network = data.load(name)
    pooled = Pooled(network.validation.logits.astype(float), network.validation.labels)
    test, labels = network.test.logits.astype(float), network.test.labels
    candidates = [*(each for each in CANDIDATES if suits(each, test.shape[1])), "none"]
    held_out, seconds = pooled.held_out(candidates)
    on_test = np.stack([pooled.log_true(each, test, labels) for each in candidates], axis=1)
    return {
        "candidates": np.array(candidates),
        "held_out": held_out.astype(np.float32),
        "on_test": on_test[None].astype(np.float32),
        "seconds": seconds,
    }
