"""A whole calibration of a real network that every installation has: logits in, two temperatures and a picture out."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nishimori import data, plot
from nishimori._curve import temperature_curve
from nishimori._disk import new_file
from nishimori._optional import require
from nishimori._temperatures import Temperatures, temperatures
from nishimori.data import Labelled, Network
from nishimori.metrics import reliability


@dataclass(frozen=True)
class Demo:
    """A network's logits, and the temperatures of those on validation images."""

    network: Network
    found: Temperatures


def run(name: str) -> Demo:
    """Load a bundled network and find both temperatures."""
    network = data.load(name)
    return Demo(network, temperatures(network.validation.logits, network.validation.labels))


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


def draw(demo: Demo, path: Path, *, overwrite: bool) -> None:
    """Reliability before and after on the test images, and the temperature curve of the validation images."""
    pyplot = require("matplotlib.pyplot", extra="plot", for_="The picture")
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 5), width_ratios=(4, 5), layout="constrained")
    try:
        test, validation = demo.network.test, demo.network.validation
        # Orange is EC and blue TS on the right, so neither may stand for anything else on the left.
        for label, temperature, color in (("before", 1.0, "tab:purple"), ("after EC", demo.found.ec, "tab:orange")):
            if temperature is not None:
                curve = reliability(test.logits, test.labels, temperature=temperature)
                plot.reliability_diagram(curve, ax=left, label=label, color=color)
        plot.temperature_curve(temperature_curve(validation.logits, validation.labels), ax=right)
        title = f"{len(test.labels):,} test images (left), {len(validation.labels):,} validation images (right)"
        figure.suptitle(f"{demo.network.name}: {title}", fontsize="medium")
        with new_file(path, overwrite=overwrite) as temporary:
            figure.savefig(temporary, dpi=120)
    finally:
        pyplot.close(figure)
