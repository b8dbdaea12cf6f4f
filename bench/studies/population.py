"""Train the population of networks that paper/population.toml declares, and keep their logits.

    python bench/studies/population.py cifar10 --images IMAGES --folder build/cifar10 --pack PACKS

IMAGES is a folder as `nishimori paper train` reads it. Several networks are trained at a time, on one GPU. Networks whose files
are in the folder already are left out, so that a run that was stopped can be repeated; after `--minutes` no more are begun.
Finished networks are also copied to PACKS, in few archives of at most 15 MiB.
Then: python bench/studies/population_results.py PACKS
"""

import argparse
import gc
import os
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # one for each stream, before CUDA starts

import numpy as np
import torch
from torch import nn

from nishimori_paper.training._image_sets import image_set
from nishimori_paper.training._pixels import Pixels, Views
from nishimori_paper.training._recipes import Recipe
from nishimori_paper.training._side_by_side import train_side_by_side
from nishimori_paper.training._training import Settings, Training, logits
from population_measures import DECLARATION, declaration, halved, members, pack, write

# Graphs are compiled once for each shape of a network, and PyTorch would give up after eight.
torch._dynamo.config.cache_size_limit = 64


def log(text, start=time.perf_counter()):  # noqa: B008 - the start of the program
    """Print a line with the seconds since the start."""
    print(f"{time.perf_counter() - start:7.1f} s  {text}", flush=True)


class Notebook:
    """What is kept of a network: logits at some epochs, and numbers about training."""

    def __init__(self, member, training, images, plan):
        self.member, self.training, self.plan = member, training, plan
        self.epochs, self.measured, self.arrays = [], {}, {}
        every = len(images.train) // plan["training_images"] or 1
        some = images.train.at(slice(0, every * plan["training_images"], every))
        self.train_labels = torch.from_numpy(some.labels)
        self.train_pixels = Pixels(some.pixels, images.name, training.device)
        for split, part in (("validation", images.validation), ("test", images.test)):
            self.arrays[f"{split}_labels"] = part.labels.astype(np.uint8)

    def after(self, epoch, loss, accuracy):
        """Write down what belongs to this epoch."""
        self.epochs.append({"epoch": epoch, "loss": loss, "accuracy": accuracy})
        # As for the networks of the paper, in float32 whatever training computes in.
        dataset = self.member.dataset
        last = epoch == self.training.recipe.epochs
        if not last and epoch not in self.plan["epochs"][dataset]:
            return
        self.measured[epoch] = self.on_training_images()
        held = self.training
        test = halved(logits(held.network, held.test.pixels))
        self.arrays[f"test_{epoch}"] = test if last else test[: self.plan["earlier_test_images"][dataset]]
        if last or self.plan["validation_epochs"][dataset] == "all":
            self.arrays[f"validation_{epoch}"] = halved(logits(held.network, held.validation.pixels))
        if last and held.recipe.dropout:
            for split, part in (("validation", held.validation), ("test", held.test)):
                self.arrays[f"passes_{split}_{epoch}"] = halved(passes(held.network, part.pixels, self.plan["dropout_passes"]))

    def on_training_images(self):
        """Accuracy, loss, confidence and scale of the logits on images that the network was trained with."""
        z = torch.from_numpy(logits(self.training.network, self.train_pixels)).double()
        confidence = z.softmax(1).amax(1)
        return {
            "accuracy": float((z.argmax(1) == self.train_labels).double().mean()),
            "loss": float(nn.functional.cross_entropy(z, self.train_labels)),
            "confidence": float(confidence.mean()),
            "scale": float((z - z.mean(1, keepdim=True)).square().mean().sqrt()),
        }

    def write(self, folder, seconds):
        """Write the file of this network."""
        device = self.training.device
        about = {
            "kind": self.member.kind,
            "dataset": self.member.dataset,
            "seed": self.member.seed,
            "recipe": self.training.recipe.settings(),
            "epochs": self.epochs,
            "measured": self.measured,
            "seconds_of_its_group": seconds,
            "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
            "torch": torch.__version__,
        }
        write(folder / f"{self.member.name}.npz", self.arrays, about)


def passes(network, pixels, n, *, batch=1000):
    """The log of the mean probability over passes in which dropout stays on and batch normalisation does not learn."""
    straight, every = Views.straight(len(pixels), pixels.device), torch.arange(len(pixels), device=pixels.device)
    was = network.training
    network.eval()
    for each in network.modules():
        if isinstance(each, nn.Dropout):
            each.train()
    found = []
    with torch.inference_mode():
        for index in torch.split(every, batch):
            images = pixels.batch(index, straight[index])
            drawn = torch.stack([network(images).double().log_softmax(1) for _ in range(n)])
            found.append((drawn.logsumexp(0) - np.log(n)).cpu())
    network.train(was)
    return torch.cat(found).numpy()


def recipe_of(member, epochs=None):
    """The recipe of a network, with fewer epochs for a trial."""
    recipe = Recipe(member.dataset, **member.recipe)
    return recipe if epochs is None else replace(recipe, epochs=epochs, warmup=min(recipe.warmup, epochs - 1))


def train_group(group, images, plan, folder, settings, epochs):
    """Train some networks side by side and write their files."""
    start = time.perf_counter()
    trainings = [Training(recipe_of(each, epochs), images, seed=each.seed, settings=settings) for each in group]
    notebooks = {id(training): Notebook(each, training, images, plan) for each, training in zip(group, trainings, strict=True)}
    last = max(each.recipe.epochs for each in trainings)

    def after(training, epoch, loss, accuracy):
        notebooks[id(training)].after(epoch, loss, accuracy)
        if training is trainings[-1] and epoch in (1, 2, last // 2, last):
            log(f"    epoch {epoch} of {last}, {time.perf_counter() - start:.1f} s of this group")

    train_side_by_side(trainings, after)
    seconds = time.perf_counter() - start
    for member, training in zip(group, trainings, strict=True):
        notebook = notebooks[id(training)]
        notebook.write(folder, seconds)
        end, on_train = notebook.epochs[-1], list(notebook.measured.values())[-1]
        error = (notebook.arrays[f"test_{last}"].argmax(1) != notebook.arrays["test_labels"]).mean()
        log(
            f"  {member.name:24} loss {end['loss']:.4f}, training accuracy {end['accuracy']:.3f} "
            f"({on_train['accuracy']:.4f} in evaluation), test error {error:.3f}"
        )


def cost(member):
    """About how long a network takes, in units of a ResNet20."""
    return member.recipe.get("width", 1)


def train(options):
    """Train the networks of one data set that are not in the folder yet."""
    start = time.perf_counter()
    declared = declaration(options.declaration)
    options.folder.mkdir(parents=True, exist_ok=True)
    pending = [
        each
        for each in members(declared)
        if each.dataset == options.dataset and each.round <= options.round and each.name not in options.skip
    ]
    pending = [each for each in pending if not (options.folder / f"{each.name}.npz").exists()]
    log(f"{len(pending)} networks to train")
    images = image_set(options.dataset, options.images)
    log(f"{images.origin}: {len(images.train)}, {len(images.validation)}, {len(images.test)} images")
    settings = Settings.best(options.device)
    pace = 0.0
    while pending:
        group = pending[: options.side_by_side]
        begun = time.perf_counter()
        if (begun - start) + pace * sum(map(cost, group)) > 60 * options.minutes:
            log(f"no time for {', '.join(each.name for each in pending)}")
            break
        log(f"training {', '.join(each.name for each in group)}")
        train_group(group, images, declared["measurement"], options.folder, settings, options.epochs)
        pace = (time.perf_counter() - begun) / sum(map(cost, group))
        pending = pending[len(group) :]
        if options.pack:
            n = pack(options.folder, options.pack)
            log(f"packed in {n} archives")
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    log(f"{len(pending)} networks left")


def main():
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=["cifar10", "cifar100"])
    parser.add_argument("--images", type=Path, required=True, help="folder with the images")
    parser.add_argument("--folder", type=Path, required=True, help="where a file per network is written")
    parser.add_argument("--pack", type=Path, help="where archives of them are written")
    parser.add_argument("--side-by-side", type=int, default=8, help="networks at a time")
    parser.add_argument("--minutes", type=float, default=1e9, help="when to begin no more networks")
    parser.add_argument("--round", type=int, default=2, help="the last round to train")
    parser.add_argument("--skip", nargs="*", default=[], help="names of networks to leave out")
    parser.add_argument("--epochs", type=int, help="fewer epochs, for a trial")
    parser.add_argument("--declaration", type=Path, default=DECLARATION)
    parser.add_argument("--device", help="a PyTorch device; by default the GPU if there is one")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
