"""Calibrate the authors' CIFAR-10 networks on many random views of the validation images, as the paper did on one.

    python bench/augmentation.py OUT.json --weights FOLDER --data FOLDER

FOLDER of the weights holds cifar10_resnet20.pt and cifar10_resnet56.pt as the authors published them. Each draw shifts and
mirrors the 5,000 validation images at random; test images are never augmented, and their logits are the bundled ones. With
label noise (the table of the appendix), the numbers of a draw are means over 20 draws of the noise. Draws that are in OUT.json
already are not computed again. On one core a draw takes about 7 s for ResNet20 and 17 s for ResNet56.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from nishimori import data
from nishimori.data import Labelled
from nishimori_paper._measured import mean_and_spread, scores
from nishimori_paper.artefacts._table_corrupted import corrupted
from nishimori_paper.training._image_sets import image_set
from nishimori_paper.training._networks import loaded
from nishimori_paper.training._pixels import Pixels
from nishimori_paper.training._training import augmented_views, logits

MODELS = ("resnet20", "resnet56")


def under_noise(validation, test):
    """The table's row with label noise, which is drawn as for table-corrupted."""
    generator = np.random.default_rng(0)
    return mean_and_spread([scores(corrupted(validation, generator), corrupted(test, generator)) for _ in range(20)])[0]


def draws(model, weights, images, numbers):
    """For each number of a draw, the table's rows without and with label noise."""
    cpu = torch.device("cpu")
    network = loaded(weights / f"cifar10_{model}.pt", model, 10).to(memory_format=torch.channels_last)
    validation = Pixels(images.validation.pixels, "cifar10", cpu)
    test = data.load(f"cifar10/{model}-authors").test
    for number in numbers:
        views = augmented_views(len(validation), number, cpu)
        augmented = Labelled(logits(network, validation, views), images.validation.labels)
        yield number, {"clean labels": scores(augmented, test), "noisy labels": under_noise(augmented, test)}


def main():
    """Compute the missing draws of each network and write them all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT.json")
    parser.add_argument("--weights", required=True, type=Path, metavar="FOLDER")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="a folder with CIFAR-10")
    parser.add_argument("--draws", type=int, default=16)
    chosen = parser.parse_args()
    found = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    images = image_set("cifar10", chosen.data)
    for model in MODELS:
        done = found.setdefault(f"cifar10/{model}-authors", {})
        missing = [number for number in range(chosen.draws) if str(number) not in done]
        for number, rows in draws(model, chosen.weights, images, missing):
            done[str(number)] = rows
            chosen.out.write_text(json.dumps(found, indent=1))
            row = rows["clean labels"]
            print(f"{model}, draw {number}: T of TS {row['temperature_ts']:.3f}, of EC {row['temperature_ec']:.3f}", flush=True)


if __name__ == "__main__":
    main()
