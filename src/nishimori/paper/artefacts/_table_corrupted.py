"""The table of the appendix: calibration when the labels of some classes are random."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from nishimori._array import HostArray
from nishimori.data import Labelled, Network
from nishimori.paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori.paper._measured import mean_and_spread, network, scores_by_kind, validations
from nishimori.paper.artefacts._rows import compared_rows, draw_rows, networks_of_tables, sheet_row, trained_networks


class TableCorrupted(Artefact):
    """Table 1 with random labels in a tenth of the classes, for validation and test."""

    name = "table-corrupted"
    where = "Appendix C, table; Section 4, experiments on corrupted data"

    def networks(self) -> Sequence[str]:
        return trained_networks()

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        return {name: partial(noisy_scores, name, scale) for name in networks_of_tables()}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        return {"table": [sheet_row(name, content, "sd") for name, content in done.items()]}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        return compared_rows(done, self.name)

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        return draw_rows(done, self.name, pyplot)


def corrupted(labelled: Labelled, generator: np.random.Generator) -> Labelled:
    """Replace the labels of the first tenth of the classes by labels uniform over all classes, the true one included."""
    noise = generator.integers(labelled.logits.shape[1], size=len(labelled.labels))
    return Labelled(labelled.logits, np.where(_is_noisy(labelled), noise, labelled.labels))


def _is_noisy(labelled: Labelled) -> HostArray:
    """Which samples belong to the first tenth of the classes."""
    noisy: HostArray = labelled.labels < labelled.logits.shape[1] // 10
    return noisy


def noisy_scores(name: str, scale: Scale) -> dict[str, Any]:
    """Mean and spread of a network's scores over draws of the noise."""
    return _of_bundled(name, scale) if scale.networks is None else _noisy(network(name, scale), scale)


@cache
def _of_bundled(name: str, scale: Scale) -> dict[str, Any]:
    """The scores of a bundled network. Cached, because the claims use the same numbers."""
    return _noisy(network(name, scale), scale)


def _noisy(found: Network, scale: Scale) -> dict[str, Any]:
    generator = np.random.default_rng(scale.seed)
    kinds = validations(found)
    drawn = []
    for _ in range(4 if scale.quick else 20):
        labels, test = corrupted(found.validation, generator).labels, corrupted(found.test, generator)
        drawn.append(scores_by_kind({kind: Labelled(part.logits, labels) for kind, part in kinds.items()}, test))
    result: dict[str, Any] = {"noisy": float(_is_noisy(found.test).mean())}
    for kind in kinds:
        result[kind], result[f"{kind} error bars"] = mean_and_spread([rows[kind] for rows in drawn])
    return result
