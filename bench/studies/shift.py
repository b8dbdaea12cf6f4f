"""When calibrating hurts: corrupted images and wrong labels in validation data, test data or both.

    python bench/studies/shift.py logits DATA --folder build/shift --device cuda      # DATA: folders cifar10, svhn and weights
    python bench/studies/shift.py study --folder build/shift
    python bench/studies/shift.py shares                                              # needs no data but the bundled networks

`logits` computes the logits of the paper authors' networks on corrupted images, in blocks of 1,000 images; blocks whose files
are in the folder already are left out. On one core of a CPU it takes about half an hour. `study` measures what the blocks
allow, and writes bench/results/shift.md, paper/shift_results.json and docs/images/shift.png. Scores of a network that were
computed before are read from the folder. `shares` measures again at which share of wrong labels calibration stops paying: this
is about clean images, on which logits of the same networks are bundled. It takes half a minute.
"""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from nishimori import data
from nishimori_paper.training._image_sets import image_set
from nishimori_paper.training._networks import loaded
from nishimori_paper.training._pixels import Pixels, Views
from shift_measures import (
    CLEAN,
    CONDITIONS,
    NETWORKS,
    SHARE_SPLITS,
    SPLITS,
    Scores,
    break_even,
    by_condition,
    by_network,
    corrupted,
    counts,
    curves,
    measure,
    measure_shares,
    situations,
    summary,
)
from shift_tables import draw, page

# Logits of the paper authors' networks on corrupted images, block by block, in files.

BLOCK = 1000
BATCH = 250


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


ROOT = Path(__file__).parents[2]
BLOCKS = 10  # all test images of CIFAR-10


def blocks(folder, network):
    """The blocks of a network that are complete, as far as none is missing."""
    found = []
    while (path := block_file(folder, network, len(found))).exists():
        found.append(path)
    return found


def measured(folder, network, n_blocks):
    """The scores of a network, from the first blocks of its images."""
    path = Path(folder) / f"scores-{network.dataset}-{network.model}-{n_blocks}-{SPLITS}.npz"
    if not path.exists():
        parts = [np.load(each) for each in blocks(folder, network)[:n_blocks]]
        logits, labels = (
            np.concatenate([each["logits"] for each in parts], axis=1),
            np.concatenate([each["labels"] for each in parts]),
        )
        np.savez(path, **asdict(measure(logits, labels)))
    with np.load(path) as content:
        return Scores(**content)


def shares():
    """Where calibration stops paying, from the networks' bundled logits on the same clean images, in the same order."""
    found = {}
    for network in NETWORKS:
        test = data.load(f"{network.dataset}/{network.model}-authors").test
        index = image_order(len(test.labels))[: BLOCKS * BLOCK]
        logits, labels = test.logits[index], test.labels[index].astype(np.int64)
        found[network.name] = measure_shares(logits, labels), float((logits.argmax(axis=1) != labels).mean())
    return {"splits": SHARE_SPLITS, "networks": break_even(found)}


def results(networks, n_images):
    """Everything that is published, from the scores of each network by name."""
    names, scores = list(networks), list(networks.values())
    return {
        "images": n_images,
        "splits": scores[0].shifted.shape[2],
        "conditions": list(CONDITIONS),
        "without temperature": float(np.mean([np.isnan(each.logs).mean() for each in scores])),
        "situations": {name: asdict(each) | summary(scores, each) for name, each in situations().items()},
        "counts": {
            name: counts(scores, each) for name, each in situations().items() if each.rates and each.conditions == (CLEAN,)
        },
        "curves": curves(scores),
        "break even": shares(),
        "networks": by_network(scores, names),
        "by condition": by_condition(scores),
    }


def study(options):
    """Measure all networks and write page, numbers and picture."""
    n_blocks = min(len(blocks(options.folder, each)) for each in NETWORKS)
    networks = {each.name: measured(options.folder, each, n_blocks) for each in NETWORKS}
    draw(write(results(networks, n_blocks * BLOCK), options), options.picture)


def study_shares(options):
    """Measure the shares again, and write page and numbers."""
    found = json.loads(options.numbers.read_text(encoding="utf-8"))
    write(found | {"break even": shares()}, options)


def write(found, options):
    """Write numbers and page, and return the numbers as they are written."""
    options.numbers.write_text(json.dumps(rounded(found), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    found = json.loads(options.numbers.read_text(encoding="utf-8"))
    options.page.write_text(page(found), encoding="utf-8")
    return found


def rounded(value, digits=5):
    """Numbers with five significant digits."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items() if key != "conditions" or not isinstance(each, tuple)}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def main():
    """Read the options and compute logits, or measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True)
    logits = verbs.add_parser("logits", help="compute logits on corrupted images")
    logits.add_argument("data", type=Path, help="folder with the folders cifar10, svhn and weights")
    logits.add_argument("--blocks", type=int, default=BLOCKS, help="how many blocks of 1,000 images")
    logits.add_argument("--networks", nargs="*", help="such as cifar10-resnet20; by default all")
    logits.add_argument("--device", default="cpu", help="a PyTorch device")
    logits.set_defaults(run=lambda o: compute(o.data, o.folder, range(o.blocks), o.networks, o.device))
    measuring = verbs.add_parser("study", help="measure, and write page, numbers and picture")
    measuring.add_argument("--picture", type=Path, default=ROOT / "docs" / "images" / "shift.png")
    measuring.set_defaults(run=study)
    sharing = verbs.add_parser("shares", help="measure again where calibration stops paying, and write page and numbers")
    sharing.set_defaults(run=study_shares)
    for each in (measuring, sharing):
        each.add_argument("--page", type=Path, default=ROOT / "bench" / "results" / "shift.md")
        each.add_argument("--numbers", type=Path, default=ROOT / "paper" / "shift_results.json")
    for each in (logits, measuring):
        each.add_argument("--folder", type=Path, default=ROOT / "build" / "shift", help="where blocks are kept")
    chosen = parser.parse_args()
    chosen.run(chosen)


if __name__ == "__main__":
    main()
