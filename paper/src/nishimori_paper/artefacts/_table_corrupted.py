"""The table of the appendix: calibration when the labels of some classes are random."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from nishimori._support.arrays import HostArray
from nishimori.data import Labelled, Network
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper._measured import (
    SANDWICH,
    mean_and_spread,
    network,
    resampled,
    scores_by_kind,
    temperature_errors,
    validations,
)
from nishimori_paper.artefacts._rows import compared_rows, networks_of_tables, sheet_row, trained_networks
from nishimori_paper.artefacts._table_picture import draw_table

# Endings of the columns of error bars, and of their pieces: the standard deviation of one draw of the noise, and the standard
# error of finite sets of images with noisy labels.
_BARS = {"sd": "error bars", "se": "error bars of images"}


class TableCorrupted(Artefact):
    """Table 1 with random labels in a tenth of the classes, for validation and test."""

    name = "table-corrupted"
    where = "Appendix C, table; Section 4, experiments on corrupted data"

    def networks(self) -> Sequence[str]:
        return trained_networks()

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        return {name: partial(noisy_scores, name, scale) for name in networks_of_tables()}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        rows = [{**sheet_row(name, content, _BARS), **validation_only(content)} for name, content in done.items()]
        return {"table": rows}

    def findings(self, done: Pieces) -> Sequence[Finding]:
        return compared_rows(done, self.name)

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        return draw_table(done, self.name, pyplot, bars=_BARS["se"])


def validation_only(content: Mapping[str, Any]) -> Row:
    """ECE in percent with clean test labels, before and after calibration on noisy validation labels."""
    return {f"validation_only_{column}": 100 * content["validation only"][column] for column in ("ece", "ece_ts", "ece_ec")}


def corrupted(labelled: Labelled, generator: np.random.Generator) -> Labelled:
    """Replace the labels of the first tenth of the classes by labels uniform over all classes, the true one included."""
    noise = generator.integers(labelled.logits.shape[1], size=len(labelled.labels))
    return Labelled(labelled.logits, np.where(_is_noisy(labelled), noise, labelled.labels))


def _is_noisy(labelled: Labelled) -> HostArray:
    """Which samples belong to the first tenth of the classes."""
    noisy: HostArray = labelled.labels < labelled.logits.shape[1] // 10
    return noisy


def noisy_scores(name: str, scale: Scale) -> dict[str, Any]:
    """Mean and spread of a network's scores over draws of the noise, and spread if the images are drawn again too."""
    return _of_bundled(name, scale) if scale.networks is None else _noisy(network(name, scale), scale)


@cache
def _of_bundled(name: str, scale: Scale) -> dict[str, Any]:
    """The scores of a bundled network. Cached, because the statements use the same numbers."""
    return _noisy(network(name, scale), scale)


def _noisy(loaded: Network, scale: Scale) -> dict[str, Any]:
    generator, of_images = np.random.default_rng(scale.seed), np.random.default_rng([scale.seed, 1])
    kinds = validations(loaded)
    drawn, again, of_fits, only = [], [], [], []
    for _ in range(4 if scale.quick else 20):
        labels, test = corrupted(loaded.validation, generator).labels, corrupted(loaded.test, generator)
        noisy = {kind: Labelled(part.logits, labels) for kind, part in kinds.items()}
        drawn.append(scores_by_kind(noisy, test))
        again.append(scores_by_kind(noisy, test, **resampled(loaded, of_images), near=drawn[-1]))
        of_fits.append(temperature_errors(noisy))
        only.append(scores_by_kind({"": noisy["clean"]}, loaded.test, near={"": drawn[-1]["clean"]})[""])
    result: dict[str, Any] = {"noisy": float(_is_noisy(loaded.test).mean())}
    # The same noise in the labels that are calibrated on, and none in those that the result is measured with.
    result["validation only"] = mean_and_spread(only)[0]
    for kind in kinds:
        result[kind], result[f"{kind} error bars"] = mean_and_spread([rows[kind] for rows in drawn])
        result[f"{kind} error bars of images"] = mean_and_spread([rows[kind] for rows in again])[1]
        result[f"{kind} {SANDWICH}"] = mean_and_spread([errors[f"{kind} {SANDWICH}"] for errors in of_fits])[0]
    return result
