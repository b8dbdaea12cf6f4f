"""The logits in paper/logits: what a reader can compute from them, beside the numbers of the studies that they belong to.

    python bench/studies/published_logits.py  # bench/results/published_logits.md from paper/logits, half a minute
    python bench/studies/published_logits.py --from NETWORKS BLOCKS   # paper/logits from what population.py and shift.py wrote

Of the population of networks one network per kind was trained again, with the seed of the first one: logits of the networks
behind bench/results/population.md were not kept. Of the study of shift they are the logits of the study, for six of its 25
conditions. All are float16, less the largest of each row.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import nishimori
from population_measures import halved, read, write
from shift_measures import CONDITIONS, NETWORKS, SPLITS, halves

ROOT = Path(__file__).parents[2]
LOGITS = ROOT / "paper" / "logits"
PAGE = ROOT / "bench" / "results" / "published_logits.md"
SHOWN = ("clean", "gaussian noise 3", "defocus blur 5", "fog 3", "contrast 5", "jpeg 3")


def publish(networks, blocks):
    """Write the files of paper/logits."""
    (LOGITS / "population").mkdir(parents=True, exist_ok=True)
    (LOGITS / "shift").mkdir(exist_ok=True)
    for name, (about, arrays) in read(networks).items():
        last = about["recipe"]["epochs"]
        kept = {}
        for split in ("validation", "test"):
            kept |= {f"{split}_logits": arrays[f"{split}_{last}"], f"{split}_labels": arrays[f"{split}_labels"]}
        told = {key: about[key] for key in ("kind", "dataset", "seed", "recipe", "device", "torch")}
        write(LOGITS / "population" / f"{name}.npz", kept, told)
    for network in NETWORKS:
        parts = [np.load(each) for each in sorted(Path(blocks).glob(f"{network.dataset}-{network.model}-*.npz"))]
        logits = np.concatenate([each["logits"] for each in parts], axis=1)
        labels, index = (np.concatenate([each[key] for each in parts]) for key in ("labels", "index"))
        kept = {name.replace(" ", "_"): halved(logits[CONDITIONS.index(name)]) for name in SHOWN}
        kept |= {"labels": labels.astype(np.uint8), "test_image": index.astype(np.uint16)}
        write(LOGITS / "shift" / f"{network.dataset}-{network.model}.npz", kept, {"network": network.name})


def population_rows():
    """A row per network that was trained again, with the means of its kind in the study beside it."""
    study = json.loads((ROOT / "paper" / "population_results.json").read_text(encoding="utf-8"))["kinds"]
    rows = []
    for _, (about, arrays) in sorted(read(LOGITS / "population").items()):
        fitted = nishimori.temperatures(arrays["validation_logits"], arrays["validation_labels"])
        test = arrays["test_logits"], arrays["test_labels"]
        cards = [nishimori.evaluate(*test, temperature=T, strategy="quantile") for T in (1.0, fitted.ec, fitted.ts)]
        known = study[about["kind"]]["values"]
        ratio, means = known["log_ratio"], [np.exp(known[name]["mean"]) for name in ("log_ec", "log_ts")]
        rows.append(
            [
                about["kind"],
                f"{100 * cards[0].error:.1f}",
                f"{fitted.ec:.3f}",
                f"{fitted.ts:.3f}",
                f"{np.log(fitted.ts / fitted.ec):+.3f}",
                " / ".join(f"{100 * card.ece:.2f}" for card in cards),
                f"{means[0]:.3f}",
                f"{means[1]:.3f}",
                f"{ratio['mean']:+.3f} (sd of seeds {ratio['sd']:.3f})",
                " / ".join(f"{known[f'ece {name}']['mean']:.2f}" for name in ("none", "ec", "ts")),
            ]
        )
    return rows


def ece_after_ec(logits, labels, sources):
    """The mean ECE in percent over the splits of the study: without calibration, and with T of EC from each of ``sources``."""
    found = []
    for split in range(SPLITS):
        fit, test = halves(len(labels), split)
        temperatures = [nishimori.temperatures(each[fit], labels[fit]).ec for each in sources]
        found.append([nishimori.metrics.ece(logits[test], labels[test], temperature=T) for T in (1.0, *temperatures)])
    return 100 * np.mean(found, axis=0)


def shift_rows():
    """A row per condition: means over the three networks, and those of the study beside them."""
    study = json.loads((ROOT / "paper" / "shift_results.json").read_text(encoding="utf-8"))["by condition"]
    networks = [arrays for _, arrays in read(LOGITS / "shift").values()]
    rows = []
    for name in SHOWN:
        found, errors = [], []
        for arrays in networks:
            labels, clean, shifted = arrays["labels"], arrays["clean"], arrays[name.replace(" ", "_")]
            found.append(ece_after_ec(shifted, labels, (clean, shifted)))
            errors.append((shifted.argmax(axis=1) != labels).mean())
        known = study[name]
        theirs = (known["clean"]["none"], known["clean"]["ec"], known["matching"]["ec"])
        rows.append(
            [
                name,
                f"{100 * np.mean(errors):.1f}",
                " / ".join(f"{each:.2f}" for each in np.mean(found, axis=0)),
                f"{known['error']:.1f}",
                " / ".join(f"{each['mean']:.2f}" for each in theirs),
            ]
        )
    return rows


def plain_mean(rows):
    """The mean of log T_TS/T_EC over kinds without label smoothing and mixup."""
    return np.mean([float(row[4]) for row in rows if row[0] not in ("c10-smoothing", "c10-mixup")])


def study_mean():
    """The same in the study, by its mixed model."""
    stored = json.loads((ROOT / "paper" / "population_results.json").read_text(encoding="utf-8"))
    return stored["hypotheses"]["H1"]["estimate"]["value"]


def table(headers, rows):
    """A Markdown table."""
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(each)} |" for each in lines)


def page(population, shift):
    """The whole page."""
    measured = ["error %", "T_EC", "T_TS", "log T_TS/T_EC", "ECE % none / EC / TS"]
    study = ["study: T_EC", "T_TS", "log T_TS/T_EC", "ECE %"]
    return f"""# What the published logits give

Written by `python bench/studies/published_logits.py` from the files in [paper/logits](../../paper/logits/README.md).

## Twelve networks, one per kind, trained again

Temperatures are fitted to 5,000 validation images, and everything else is measured on 10,000 test images (ECE: 15 bins of
equal mass, as in the study). Beside each network are the means of its kind in [the study](population.md), whose own logits
were not kept. A GPU rounds differently each time, so that a network with the same seed becomes another one. Over the ten
kinds with plain labels the mean of log T_TS/T_EC is {plain_mean(population):+.3f} here and {study_mean():+.3f} in the study.

{table(["kind", *measured, *study], population)}

## Corrupted images, six of 25 conditions

Means over three networks and {SPLITS} splits of 10,000 images into halves. ECE in percent (15 bins of equal width): without
calibration / after EC with T from clean images / after EC with T from images of the same condition. The study has the same
logits in float32.

{table(["images", "error %", "ECE %", "study: error %", "ECE %"], shift)}
"""


def main():
    """Write the page, or the files that it is about."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", nargs=2, metavar=("NETWORKS", "BLOCKS"), dest="sources", help="write paper/logits from these")
    options = parser.parse_args()
    if options.sources:
        publish(*options.sources)
    else:
        PAGE.write_text(page(population_rows(), shift_rows()), encoding="utf-8")


if __name__ == "__main__":
    main()
