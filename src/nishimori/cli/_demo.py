"""``nishimori demo``: calibrate a real network whose logits are bundled, and show what that does."""

from pathlib import Path
from typing import Annotated

import numpy as np

import nishimori
from nishimori import data, plot
from nishimori._evaluation.comparison import Comparison
from nishimori._evaluation.curve import temperature_curve
from nishimori._support.disk import check_folder, check_target, new_file
from nishimori._support.optional import require
from nishimori._support.progress import show_progress
from nishimori.cli._help import ForceOption, JsonOption, epilog, option
from nishimori.cli._terminal import as_row, note, print_json, print_tabular, print_text
from nishimori.data import Network

_METHODS = {"none": "before", "adaptive": "after adaptive", "ec": "after EC", "ts": "after TS", "best": "after best"}
"""The compared methods, and their names in the JSON."""


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
        shown = data.load(network)
        parts = shown.validation, shown.test
        comparison = nishimori.compare(*(array for part in parts for array in (part.logits, part.labels)), methods=[*_METHODS])
    output.mkdir(parents=True, exist_ok=True)
    for path in (validation, test, picture):
        check_target(path, overwrite=force)
    note(description(shown))
    if as_json:
        fitted = {_METHODS[row.method]: row for row in comparison if row.scorecard is not None}
        print_json({name: as_row(row.card) | {"temperature_se": row.temperature_se} for name, row in fitted.items()})
    else:
        print_text(f"{len(shown.test.labels):,} test images, T from {len(shown.validation.labels):,} others")
        for name in ("calibration", "scores"):
            print_tabular(comparison.tables[name])
        for sentence in comparison.recommendation.sentences:
            print_text(sentence)
    for part, path in zip(parts, (validation, test), strict=True):
        with new_file(path, overwrite=force) as temporary:
            np.savez(temporary, logits=part.logits, labels=part.labels)
    note(f"Wrote {validation} and {test}")
    try:
        draw(shown, comparison, picture, overwrite=force)
    except ModuleNotFoundError as missing:
        note(str(missing))
    else:
        note(f"Wrote {picture}")


def description(network: Network) -> str:
    """A stored network in one line, as far as its file describes it."""
    words = {"parameters": "{:,} parameters", "weights": "{}", "n_train": "{:,} training images", "data": "data: {}"}
    details = (text.format(network.provenance[key]) for key, text in words.items() if key in network.provenance)
    return f"{network.name}: {'; '.join(details) or 'its file says no more'}"


def draw(network: Network, comparison: Comparison, path: Path, *, overwrite: bool) -> None:
    """Draw reliability before and after on the test images, and the temperature curve of the validation images."""
    figure = require("matplotlib.figure", extra="plot", for_="The picture").Figure(figsize=(10, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(4, 5))
    test, validation = network.test, network.validation
    named = (("before", comparison["none"].scorecard), ("after", comparison["adaptive"].scorecard))
    plot.reliability_diagram({name: card for name, card in named if card is not None}, ax=left)
    plot.temperature_curve(temperature_curve(validation.logits, validation.labels), ax=right)
    title = f"{len(test.labels):,} test images (left), {len(validation.labels):,} validation images (right)"
    figure.suptitle(f"{network.name}: {title}", fontsize="medium")
    with new_file(path, overwrite=overwrite) as temporary:
        figure.savefig(temporary, dpi=120)
