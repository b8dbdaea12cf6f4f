"""``nishimori demo``: calibrate a real network whose logits are bundled, and show what that does."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

import nishimori
from nishimori import data, plot
from nishimori._evaluation.curve import temperature_curve
from nishimori._evaluation.scorecard import Scorecard, scorecards
from nishimori._fit.temperatures import temperatures
from nishimori._rows.entry import open_rows
from nishimori._support.disk import check_folder, check_target, new_file
from nishimori._support.optional import require
from nishimori.cli._help import ForceOption, JsonOption, epilog
from nishimori.cli._terminal import as_row, note, print_json, print_table
from nishimori.data import Labelled, Network
from nishimori.errors import NishimoriError
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature


@dataclass(frozen=True)
class Demo:
    """A network's logits, the temperatures of its validation images, and the scores of its test images before and after.

    The default method comes first, then both that it lies between, and a temperature with a bias per class where it can be
    fitted. ``errors`` are standard errors of T.
    """

    network: Network
    errors: dict[str, float | None]
    cards: dict[str, Scorecard]


def _networks(incomplete: str) -> list[str]:
    """The bundled networks whose names begin with what was typed, for the completion of the shell."""
    return [name for name in data.names() if name.startswith(incomplete)]


OutputOption = Annotated[Path, typer.Option("--output", "-o", help="Folder for the logits and the picture.", metavar="FOLDER")]
NetworkOption = Annotated[
    str,
    typer.Option(
        help="A bundled network; a name that does not exist lists them all.",
        metavar="NAME",
        autocompletion=_networks,
    ),
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
    result = run(network)
    output.mkdir(parents=True, exist_ok=True)
    for path in (validation, test, picture):
        check_target(path, overwrite=force)
    note(description(result.network))
    table = {name: as_row(card) | {"temperature_se": result.errors.get(name)} for name, card in result.cards.items()}
    if as_json:
        print_json(table)
    else:
        counts = [len(part.labels) for part in (result.network.test, result.network.validation)]
        print_table(table, title="{:,} test images; T from {:,} others".format(*counts))
    save(result.network.validation, validation, overwrite=force)
    save(result.network.test, test, overwrite=force)
    note(f"Wrote {validation} and {test}")
    try:
        draw(result, picture, overwrite=force)
    except ModuleNotFoundError as missing:
        note(str(missing))
    else:
        note(f"Wrote {picture}")


def run(name: str) -> Demo:
    """Load a bundled network, find its temperatures, and biases of classes, and measure what they do."""
    network = data.load(name)
    validation = network.validation.logits, network.validation.labels
    found = temperatures(*validation)
    maps: dict[str, Map] = {"before": Temperature(1.0)}
    errors = {"after EC": found.ec_se, "after TS": found.ts_se}
    with suppress(NishimoriError):
        default = nishimori.calibrator("adaptive").fit(*validation)
        maps["after adaptive"], errors["after adaptive"] = default.map_, default.temperature_se_
    maps |= {when: Temperature(T) for when, T in {"after EC": found.ec, "after TS": found.ts}.items() if T is not None}
    with suppress(NishimoriError):
        maps["after bias"] = nishimori.calibrator("bias").fit(*validation).map_
    cards = scorecards(open_rows(network.test.logits, network.test.labels), list(maps.values()))
    return Demo(network, errors, dict(zip(maps, cards, strict=True)))


def description(network: Network) -> str:
    """What a stored network is, in one line, as far as its file says."""
    told = network.provenance
    parts = [
        f"{told['parameters']:,} parameters" if "parameters" in told else "",
        f"{told['weights']}" if "weights" in told else "",
        f"{told['n_train']:,} training images" if "n_train" in told else "",
        f"data: {told['data']}" if "data" in told else "",
    ]
    return f"{network.name}: {'; '.join(filter(None, parts)) or 'its file says no more'}"


def save(part: Labelled, path: Path, *, overwrite: bool) -> None:
    """Store logits and labels as an .npz file that every command reads."""
    with new_file(path, overwrite=overwrite) as temporary:
        np.savez(temporary, logits=part.logits, labels=part.labels)


def draw(result: Demo, path: Path, *, overwrite: bool) -> None:
    """Reliability before and after on the test images, and the temperature curve of the validation images."""
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
