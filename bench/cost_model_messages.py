"""What travels between machines, in bytes, and how the standard error of T falls with the number of rows."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

import nishimori
from nishimori._rows.entry import open_rows
from nishimori._support.progress import silent

N_ROWS, N_CLASSES, N_CLUSTERS = 20_000, 10, 1000


class Recorded(nishimori.Rows):
    """Rows whose passes and sums are pickled, as they are where they travel."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.clusters = inner.clusters
        self.sent: list[tuple[int, int]] = []

    n_classes = N_CLASSES
    n_rows = N_ROWS

    def gather(self, pass_: Callable[[Any], Any], report: Any = silent) -> Any:
        """The sums, after their size has been noted."""
        sums = self.inner.gather(pass_, report)
        self.sent.append((len(pickle.dumps(pass_)), len(pickle.dumps(sums))))
        return sums

    def sample(self, size: int) -> Any:
        """Too small to count."""
        return self.inner.sample(size)


def messages() -> dict[str, tuple[int, int, int]]:
    """Bytes per task of a fit, a scorecard and a sketch: to the worker, back, and back if rows belong to clusters.

    Of several passes, the largest.
    """
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((N_ROWS, N_CLASSES), np.float32)
    labels = (logits / 1.6 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    documents = rng.integers(N_CLUSTERS, size=N_ROWS)
    found = {}
    for what, run in {"fit": nishimori.temperatures, "evaluate": nishimori.evaluate}.items():
        plain, clustered = (Recorded(open_rows(logits, labels, clusters=clusters)) for clusters in (None, documents))
        run(plain)
        run(clustered)
        there = max(pass_ for pass_, _ in plain.sent)
        found[what] = (there, *(max(sums for _, sums in rows.sent) for rows in (plain, clustered)))
    sketches = [nishimori.Sketch().update(logits, labels, clusters=clusters) for clusters in (None, documents)]
    found["sketch"] = (len(pickle.dumps(nishimori.Sketch()._survey)), *(len(each.to_bytes()) for each in sketches))
    return found


def spread() -> dict[str, tuple[float, float, float]]:
    """The least, the middle and the largest c of the bundled networks, where the standard error of T is c·T/√n."""
    found: dict[str, list[float]] = {"ec": [], "ts": []}
    for name in nishimori.data.names():
        rows = nishimori.data.load(name).validation
        fitted = nishimori.temperatures(rows.logits, rows.labels)
        for method, values in found.items():
            error = getattr(fitted, f"{method}_se")
            values.append(error / getattr(fitted, method) * np.sqrt(len(rows.labels)))
    return {method: (min(values), float(np.median(values)), max(values)) for method, values in found.items()}
