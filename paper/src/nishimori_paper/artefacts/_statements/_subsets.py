"""Test ECE after TS and after EC of few validation samples: means over random subsets of a network's validation images."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from nishimori._evaluation.scorecard import scorecards
from nishimori._fit.temperatures import temperatures_of
from nishimori._rows.entry import open_rows
from nishimori._rows.rows import Rows
from nishimori._support.arrays import HostArray
from nishimori.maps.temperature import Temperature
from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper._measured import network
from nishimori_paper.artefacts._rows import networks_of_tables
from nishimori_paper.artefacts._statements._resamples import error

SIZES = (100, 1000)
_PREFIX = "subsets "
# Steps of 3 %, within which the ECE is nearly straight.
_GRID = np.geomspace(0.2, 10.0, 131)


def subset_pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    """One piece per network."""
    return {f"{_PREFIX}{name}": partial(_piece, name, scale) for name in networks_of_tables()}


def excess(done: Pieces, size: int) -> dict[str, float]:
    """How many points higher the ECE is after EC than after TS with this many samples: mean over networks, standard error."""
    values = [100 * (content[str(size)][1] - content[str(size)][0]) for key, content in done.items() if key.startswith(_PREFIX)]
    return {"mean": float(np.mean(values)), "error": error(values) / len(values) ** 0.5}


def gain(done: Pieces, size: int) -> float:
    """How many points TS with this many samples lowers the ECE: mean over networks."""
    values = [100 * (content["before"] - content[str(size)][0]) for key, content in done.items() if key.startswith(_PREFIX)]
    return float(np.mean(values))


def _piece(name: str, scale: Scale) -> dict[str, Any]:
    """The mean ECEs after TS and after EC, by the number of samples, and the ECE before."""
    loaded = network(name, scale)
    # Networks must not share their subsets, or their errors would not average out.
    generator = np.random.default_rng([scale.seed, *name.encode()])
    ece = _ece_of(open_rows(loaded.test.logits, loaded.test.labels))
    result: dict[str, Any] = {"before": float(ece(np.array([1.0]))[0])}
    for size in SIZES:
        chosen = []
        for _ in range(100 if scale.quick else 400):
            rows = generator.choice(len(loaded.validation.labels), size, replace=False)
            both = temperatures_of(open_rows(loaded.validation.logits[rows], loaded.validation.labels[rows]), warn=False)
            if None not in (both.ts, both.ec):  # as where every answer is right
                chosen.append([both.ts, both.ec])
        result[str(size)] = ece(np.array(chosen)).mean(axis=0).tolist()
    return result


def _ece_of(test: Rows) -> Callable[[HostArray], HostArray]:
    """The ECE as a function of T, interpolated: hundreds of temperatures would take too long one by one."""
    cards = scorecards(test, [Temperature(T) for T in _GRID.tolist()], strategy="quantile")
    values = [card.ece for card in cards]

    def ece(temperatures: HostArray) -> HostArray:
        interpolated: HostArray = np.interp(np.log(temperatures), np.log(_GRID), values)
        return interpolated

    return ece
