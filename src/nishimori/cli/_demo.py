"""``nishimori demo``: calibrate a real network whose logits are bundled, and show what that does."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import nishimori
from nishimori import data, plot
from nishimori._evaluation.curve import temperature_curve
from nishimori._evaluation.scorecard import Scorecard, scorecards
from nishimori._fit.temperatures import temperatures
from nishimori._rows.entry import open_rows
from nishimori._support.disk import check_folder, check_target, new_file
from nishimori._support.formatting import number_text, percent, percent_with_error, points_with_error, value_with_error
from nishimori._support.optional import require
from nishimori._support.progress import begin_step, show_progress
from nishimori._support.tables import Tabular
from nishimori.cli._help import ForceOption, JsonOption, epilog, option
from nishimori.cli._terminal import as_row, note, print_json, print_tabular, print_text
from nishimori.data import Network
from nishimori.errors import NishimoriError
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

_BEST = "after best"


@dataclass(frozen=True)
class Demo:
    """A network's logits, the temperatures of its validation images, and the scores of its test images before and after.

    The default method comes first, then both that it lies between, and the method best where it can be fitted. ``errors`` are
    standard errors of T. ``chosen`` is what best chose, and ``changed`` the share of test images that it predicts otherwise.
    """

    network: Network
    errors: dict[str, float | None]
    cards: dict[str, Scorecard]
    chosen: str = ""
    changed: float = 0.0

    def sentences(self) -> list[str]:
        """What one temperature is for, and what the method best would do."""
        lines = ["One temperature closes the gap, confidence − accuracy; no prediction changes."]
        if (card := self.cards.get(_BEST)) is not None:
            changes = f"{percent(self.changed, 1)} of predictions change" if self.changed else "no prediction changes"
            numbers = f"error {percent(card.error, 1)}, NLL {number_text(card.nll, 3)}"
            lines.append(f"best would take {self.chosen}: {numbers}; {changes}.")
        return lines


def _networks(incomplete: str) -> list[str]:
    """The bundled networks whose names begin with what was typed, for the completion of the shell."""
    return [name for name in data.names() if name.startswith(incomplete)]


OutputOption = Annotated[Path, option("Folder for the logits and the picture.", "FOLDER", "--output", "-o", shows=True)]
NetworkOption = Annotated[
    str,
    option("A bundled network; a name that does not exist lists them all.", "NAME", shows=True, autocompletion=_networks),
]

EPILOG = epilog("nishimori demo", "nishimori demo -o first --json")


def demo(
    output: OutputOption = Path("nishimori-demo"),
    network: NetworkOption = "cifar10/resnet20",
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Calibrate a real network from its bundled logits."""
    check_folder(output, for_="the demo needs")
    validation, test, picture = output / "val.npz", output / "test.npz", output / "demo.png"
    with show_progress(None):
        result = run(network)
    output.mkdir(parents=True, exist_ok=True)
    for path in (validation, test, picture):
        check_target(path, overwrite=force)
    note(description(result.network))
    if as_json:
        errors = result.errors
        print_json({name: as_row(card) | {"temperature_se": errors.get(name)} for name, card in result.cards.items()})
    else:
        n_test, n_validation = (len(part.labels) for part in (result.network.test, result.network.validation))
        error = percent(result.cards["before"].error, 1)
        print_text(f"{n_test:,} test images, error {error}; T from {n_validation:,} others")
        print_tabular(_table(result))
        for sentence in result.sentences():
            print_text(sentence)
    for part, path in ((result.network.validation, validation), (result.network.test, test)):
        with new_file(path, overwrite=force) as temporary:
            np.savez(temporary, logits=part.logits, labels=part.labels)
    note(f"Wrote {validation} and {test}")
    try:
        draw(result, picture, overwrite=force)
    except ModuleNotFoundError as missing:
        note(str(missing))
    else:
        note(f"Wrote {picture}")


def run(name: str) -> Demo:
    """Load a bundled network, find its temperatures, fit the method best, and measure what they do."""
    network = data.load(name)
    validation = network.validation.logits, network.validation.labels
    matched = temperatures(*validation)
    maps: dict[str, Map] = {"before": Temperature(1.0)}
    errors = {"after EC": matched.ec_se, "after TS": matched.ts_se}
    with suppress(NishimoriError):
        default = nishimori.calibrator("adaptive").fit(*validation)
        maps["after adaptive"], errors["after adaptive"] = default.map_, default.temperature_se_
    maps |= {when: Temperature(T) for when, T in {"after EC": matched.ec, "after TS": matched.ts}.items() if T is not None}
    chosen, changed = "", 0.0
    with suppress(NishimoriError):
        begin_step("Fitting best")
        best: Any = nishimori.calibrator("best").fit(*validation)
        maps[_BEST], chosen = best.map_, best.chosen_
        changed = float(np.mean(best.predict(network.test.logits) != network.test.logits.argmax(axis=1)))
    cards = scorecards(open_rows(network.test.logits, network.test.labels), list(maps.values()))
    return Demo(network, errors, dict(zip(maps, cards, strict=True)), chosen, changed)


def _table(result: Demo) -> Tabular:
    """The numbers that one temperature is for."""
    rows = [
        (
            name,
            "" if card.temperature is None else value_with_error(card.temperature, result.errors.get(name)),
            f"{points_with_error(card.gap, card.gap_se)} %",
            percent_with_error(card.ece, card.ece_se),
            value_with_error(card.nll, card.nll_se),
        )
        for name, card in result.cards.items()
        if name != _BEST
    ]
    return Tabular(("", "T", "gap", "ECE", "NLL"), rows)


def description(network: Network) -> str:
    """What a stored network is, in one line, as far as its file says."""
    provenance = network.provenance
    parts = [
        f"{provenance['parameters']:,} parameters" if "parameters" in provenance else "",
        f"{provenance['weights']}" if "weights" in provenance else "",
        f"{provenance['n_train']:,} training images" if "n_train" in provenance else "",
        f"data: {provenance['data']}" if "data" in provenance else "",
    ]
    return f"{network.name}: {'; '.join(filter(None, parts)) or 'its file says no more'}"


def draw(result: Demo, path: Path, *, overwrite: bool) -> None:
    """Draw reliability before and after on the test images, and the temperature curve of the validation images."""
    pyplot = require("matplotlib.pyplot", extra="plot", for_="The picture")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 5), width_ratios=(4, 5), layout="constrained")
    try:
        test, validation = result.network.test, result.network.validation
        names = {"before": "before", "after adaptive": "after"}
        plot.reliability_diagram({names[when]: card for when, card in result.cards.items() if when in names}, ax=left)
        plot.temperature_curve(temperature_curve(validation.logits, validation.labels), ax=right)
        title = f"{len(test.labels):,} test images (left), {len(validation.labels):,} validation images (right)"
        figure.suptitle(f"{result.network.name}: {title}", fontsize="medium")
        with new_file(path, overwrite=overwrite) as temporary:
            figure.savefig(temporary, dpi=120)
    finally:
        pyplot.close(figure)
