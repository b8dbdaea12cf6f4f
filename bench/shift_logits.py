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


def image_order(n):
    """The numbers of all test images, in the order of the blocks."""
    return np.random.default_rng(0).permutation(n)


def compute(data, folder, numbers, names=(), device="cpu"):
    """Write the logits of some blocks of images, of the named networks or of all."""
    torch.set_num_threads(1)
    torch.backends.cudnn.allow_tf32 = False
    device = torch.device(device)
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
                frozen[network] = for_inference(loaded(network.weights(data), network.model, 10), device)
            start = time.perf_counter()
            # Validation and test images are halves of the public test set, so that nothing differs but what is changed here.
            images = sets[network.dataset].test
            index = image_order(len(images))[number * BLOCK : (number + 1) * BLOCK]
            chosen = images.at(index)
            found = of_conditions(frozen[network], chosen.pixels, network.dataset, number, device)
            part = path.with_suffix(".part")
            with part.open("wb") as stream:
                np.savez(stream, logits=found, labels=chosen.labels, index=index)
            part.replace(path)
            print(f"{path.name}: {time.perf_counter() - start:.0f} s", flush=True)


def for_inference(network, device):
    """The network in evaluation mode; on a CPU with batch normalisation in its convolutions, which takes a third less time."""
    network = network.eval().to(device, memory_format=torch.channels_last)
    if device.type != "cpu":
        return network
    example = torch.zeros(BATCH, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    with torch.inference_mode():
        return torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(network, example)))


def of_conditions(network, images, dataset, number, device):
    """Logits under each of `CONDITIONS`, of shape (conditions, images, classes). The same noise for all networks."""
    found = []
    for i, condition in enumerate(CONDITIONS):
        pixels = Pixels(corrupted(images, condition, [number, i]), dataset, device)
        found.append(logits(network, pixels))
    return np.stack(found)


def logits(network, pixels):
    """The logits of a network in evaluation mode, which a frozen one is always in."""
    views, every = Views.straight(len(pixels), pixels.device), torch.arange(len(pixels), device=pixels.device)
    with torch.inference_mode():
        return torch.cat([network(pixels.batch(index, views[index])).cpu() for index in torch.split(every, BATCH)]).numpy()
