"""How much the numbers of the paper's tables vary: with other seeds of the training, and other draws of the augmentation.

    python bench/studies/spreads.py train OUT --data FOLDER                    # the networks and seeds of paper/RESULTS.md
    python bench/studies/spreads.py train OUT --data FOLDER cifar10/resnet20:1,2 --at-a-time 2    # others
    python bench/studies/spreads.py draw DRAWS.json --weights FOLDER --data FOLDER    # views of the validation images
    python bench/studies/spreads.py numbers OUT DRAWS.json > paper/src/nishimori_paper/spreads.toml

`train` trains each network in a process of its own, which ends in OUT/NAME-seed-N. A run that was interrupted continues when it
is repeated. On a GPU, CUDA's multi-process service lets the processes share it. The first network of a model compiles it, and
the others of that model wait for its first epoch, so that they find it in the cache of PyTorch's compiler.

`draw` calibrates the authors' CIFAR-10 networks on many random views of the validation images, as the paper did on one. FOLDER
of the weights holds cifar10_resnet20.pt and cifar10_resnet56.pt as the authors published them. Each draw shifts and mirrors the
5,000 validation images at random; test images are never augmented, and their logits are the bundled ones. With label noise (the
table of the appendix), the numbers of a draw are means over 20 draws of the noise. Draws that are in DRAWS.json already are not
computed again. On one core a draw takes about 7 s for ResNet20 and 17 s for ResNet56.

`numbers` turns both into a file that comes with the package: numbers of the paper's tables, as fractions and not in percent,
computed by the code that computes the tables.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from nishimori import data
from nishimori.data import Labelled
from nishimori_paper import train
from nishimori_paper._artefact import Scale
from nishimori_paper._measured import mean_and_spread, scores, scores_by_kind, validations
from nishimori_paper._names import NetworkName
from nishimori_paper.artefacts._rows import COLUMNS
from nishimori_paper.artefacts._table_corrupted import _noisy, corrupted
from nishimori_paper.training._image_sets import image_set
from nishimori_paper.training._networks import loaded
from nishimori_paper.training._pixels import Pixels
from nishimori_paper.training._training import augmented_views, logits

# Cheapest first, so that an interrupted run has finished most of them. Seed 0 is that of the bundled networks.
NETWORKS = (
    *("cifar10/resnet20:1,2,3,4,5", "cifar10/resnet56:1,2,3"),
    *("cifar10/densenet121:1", "cifar10/densenet121-linear:1"),
    *("cifar10/densenet121:2", "cifar10/densenet121-linear:2"),
    *("cifar10/densenet121:3", "cifar10/densenet121-linear:3"),
)


@dataclass
class Job:
    """One network and one seed."""

    name: NetworkName
    seed: int
    out: Path
    process: subprocess.Popen | None = field(default=None, repr=False)

    @property
    def folder(self):
        """Where its files are written."""
        return self.out / f"{str(self.name).replace('/', '-')}-seed-{self.seed}"

    @property
    def done(self):
        """Whether its logits are there."""
        return (self.folder / self.name.file).exists()

    @property
    def compiled(self):
        """Whether its first epoch is over."""
        return self.done or (self.folder / self.name.file).with_suffix(".checkpoint.pt").exists()

    @property
    def running(self):
        """Whether its process has started and not ended."""
        return self.process is not None and self.process.poll() is None

    def start(self, data):
        """Train in a process of its own."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, __file__, "train", str(self.out), f"{self.name}:{self.seed}", "--data", data, "--here"]
        with (self.folder / "log.txt").open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)  # noqa: S603 - this script


def jobs(texts, out):
    """The networks and seeds that were asked for, in their order."""
    found = []
    for text in texts:
        name, _, seeds = text.partition(":")
        found += [Job(NetworkName.parse(name), int(seed), out) for seed in seeds.split(",")]
    return found


def may_start(job, every):
    """Whether no network of the same model is being compiled by another process."""
    same = [each for each in every if each.name.model == job.name.model and (each.running or each.done)]
    return not same or any(each.compiled for each in same)


def schedule(every, data, at_a_time):
    """Train all, ``at_a_time`` at a time, and print what starts and ends."""
    began = time.perf_counter()
    waiting, running = [each for each in every if not each.done], []

    def tell(what, job):
        print(f"{time.perf_counter() - began:7.1f} s  {what} {job.name} with seed {job.seed}", flush=True)

    while waiting or running:
        for job in [each for each in running if not each.running]:
            running.remove(job)
            tell("finished" if job.done else "FAILED", job)
        for job in list(waiting):
            if len(running) < at_a_time and may_start(job, every):
                waiting.remove(job)
                running.append(job)
                job.start(data)
                tell("started ", job)
        time.sleep(0.5)
    return all(each.done for each in every)


def train_all(chosen):
    """Train, in this process or in others."""
    every = jobs(chosen.networks, chosen.out)
    if not chosen.here:
        sys.exit(0 if schedule(every, chosen.data, chosen.at_a_time) else 1)
    for job in every:
        train(job.name.dataset, job.name.model, job.folder, data=chosen.data, seed=job.seed, progress=True)


HEADER = """\
# How much the numbers of the paper's tables vary. `trainings`: networks trained again with other seeds, one entry per seed.
# Seed 0 is that of the bundled logits and not in the lists. `augmentations`: the authors' networks, calibrated on validation
# images that are shifted and mirrored at random, one entry per draw. Everything except temperatures is a fraction, not percent.
# With noisy labels, each entry is the mean over 20 draws of the noise. Written by bench/studies/spreads.py.
"""


def columns(rows, names):
    """One line of TOML per column."""
    return [f"{name} = [{', '.join(f'{row[name]:.6g}' for row in rows)}]" for name in names]


def training_lines(networks):
    """The numbers of one network with several seeds, and how it was trained."""
    first = networks[0].provenance
    name = str(NetworkName.parse(networks[0].name))
    recipe = ", ".join(f"{key} = {json.dumps(value)}" for key, value in first["recipe"].items() if value is not None)
    versions = ", ".join(f"{key} = {json.dumps(value)}" for key, value in first["versions"].items())
    lines = [
        f'\n[trainings."{name}"]',
        f"seeds = {[each.provenance['seed'] for each in networks]}",
        f"recipe = {{ {recipe} }}",
        f"data = {json.dumps(first['data'])}",
        f"device = {json.dumps(first['device'] + ', several runs at a time')}",
        f"settings = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in first['settings'].items())} }}",
        f"versions = {{ {versions} }}",
    ]
    for split in ("test", "validation"):
        epochs = [[round(error, 4) for error in each.provenance["last_epochs"][f"{split}_error"]] for each in networks]
        lines += [f"last_epochs_{split}_error = [", *(f"    {each}," for each in epochs), "]"]
    noisy = [_noisy(each, Scale()) for each in networks]
    clean = [scores_by_kind(validations(each), each.test) for each in networks]
    for kind in clean[0]:
        lines += [f'\n[trainings."{name}".clean_labels.{kind}]', *columns([each[kind] for each in clean], COLUMNS)]
    for kind in clean[0]:
        lines += [f'\n[trainings."{name}".noisy_labels.{kind}]', *columns([each[kind] for each in noisy], COLUMNS)]
    return lines


def augmentation_lines(name, draws):
    """The calibrated columns of the authors' network; the others do not depend on the draw."""
    calibrated = [each for each in COLUMNS if each.endswith(("_ts", "_ec"))]
    lines = [f'\n[augmentations."{name}"]', f"draws = {len(draws)}"]
    for labels in ("clean", "noisy"):
        lines += [f'\n[augmentations."{name}".{labels}_labels]']
        lines += columns([each[f"{labels} labels"] for each in draws.values()], calibrated)
    return lines


def print_numbers(chosen):
    """Print the file."""
    groups = {}
    for path in sorted(chosen.out.glob("*/*.npz")):
        network = data.load(path)
        groups.setdefault(network.name, []).append(network)
    lines = [HEADER.rstrip()]
    for networks in groups.values():
        lines += training_lines(sorted(networks, key=lambda each: each.provenance["seed"]))
    for name, draws in json.loads(chosen.draws.read_text()).items():
        lines += augmentation_lines(name, draws)
    print("\n".join(lines))


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


def draw_views(chosen):
    """Compute the missing draws of each network and write them all."""
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


def main():
    """Train, draw or print numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    training = verbs.add_parser("train")
    training.add_argument("out", type=Path, metavar="OUT")
    training.add_argument("networks", nargs="*", default=NETWORKS, metavar="NAME:SEED,...")
    training.add_argument("--data", required=True, metavar="FOLDER", help="a folder with the images")
    training.add_argument("--at-a-time", type=int, default=7, help="number of processes")
    training.add_argument("--here", action="store_true", help="one network, in this process")
    training.set_defaults(run=train_all)
    drawing = verbs.add_parser("draw")
    drawing.add_argument("out", type=Path, metavar="DRAWS.json")
    drawing.add_argument("--weights", required=True, type=Path, metavar="FOLDER")
    drawing.add_argument("--data", required=True, metavar="FOLDER", help="a folder with CIFAR-10")
    drawing.add_argument("--draws", type=int, default=16)
    drawing.set_defaults(run=draw_views)
    printing = verbs.add_parser("numbers")
    printing.add_argument("out", type=Path, metavar="OUT")
    printing.add_argument("draws", type=Path, metavar="DRAWS.json")
    printing.set_defaults(run=print_numbers)
    chosen = parser.parse_args()
    chosen.run(chosen)


if __name__ == "__main__":
    main()
