"""Logits of the paper authors' networks on corrupted images, block by block, in files from which bench/shift.py continues."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from nishimori_paper.training._image_sets import image_set
from nishimori_paper.training._networks import loaded
from nishimori_paper.training._pixels import Pixels, Views
from shift_conditions import CONDITIONS, corrupted

BLOCK = 1000
BATCH = 250


@dataclass(frozen=True)
class Network:
    """A network of the paper's authors."""

    name: str
    dataset: str
    model: str

    def weights(self, folder):
        """The file of its weights in the data folder."""
        return Path(folder) / "weights" / f"{self.dataset}_{self.model}.pt"


NETWORKS = (
    Network("CIFAR-10 ResNet20", "cifar10", "resnet20"),
    Network("CIFAR-10 ResNet56", "cifar10", "resnet56"),
    Network("SVHN ResNet20", "svhn", "resnet20"),
)


def block_file(folder, network, number):
    """Where the logits of a block are kept."""
    return Path(folder) / f"{network.dataset}-{network.model}-{number:02}.npz"


def compute(data, folder, numbers, names):
    """Write the logits of some blocks of images, of the named networks or of all."""
    torch.set_num_threads(1)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    sets, frozen = {}, {}
    for number in numbers:
        for network in NETWORKS:
            path = block_file(folder, network, number)
            if path.exists() or (names and f"{network.dataset}-{network.model}" not in names):
                continue
            if network.dataset not in sets:
                sets[network.dataset] = image_set(network.dataset, data)
            if network not in frozen:
                frozen[network] = for_inference(loaded(network.weights(data), network.model, 10))
            start = time.perf_counter()
            # Validation and test images are halves of the public test set, so that nothing differs but what is changed here.
            images = sets[network.dataset].test
            index = np.random.default_rng(0).permutation(len(images))[number * BLOCK : (number + 1) * BLOCK]
            chosen = images.at(index)
            found = of_conditions(frozen[network], chosen.pixels, network.dataset, number)
            part = path.with_suffix(".part")
            with part.open("wb") as stream:
                np.savez(stream, logits=found, labels=chosen.labels, index=index)
            part.replace(path)
            print(f"{path.name}: {time.perf_counter() - start:.0f} s", flush=True)


def for_inference(network):
    """The network with batch normalisation folded into its convolutions, which takes a third less time on a CPU."""
    example = torch.zeros(BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    network = network.eval().to(memory_format=torch.channels_last)
    with torch.inference_mode():
        return torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(network, example)))


def of_conditions(network, images, dataset, number):
    """Logits under each of `CONDITIONS`, of shape (conditions, images, classes). The same noise for all networks."""
    found = []
    for i, condition in enumerate(CONDITIONS):
        pixels = Pixels(corrupted(images, condition, [number, i]), dataset, torch.device("cpu"))
        found.append(logits(network, pixels))
    return np.stack(found)


def logits(network, pixels):
    """The logits of a network that is frozen in evaluation mode."""
    views, every = Views.straight(len(pixels), pixels.device), torch.arange(len(pixels))
    with torch.inference_mode():
        return torch.cat([network(pixels.batch(index, views[index])) for index in torch.split(every, BATCH)]).numpy()
