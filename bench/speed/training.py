"""Time of a training step for each of the paper's networks, with fastest and with repeatable arithmetic.

    python bench/speed/training.py                     # all networks, on the GPU if there is one
    python bench/speed/training.py cifar10/resnet20    # some

Images are random, with the usual size and batch. The first epoch, which compiles and captures the step, is timed separately.
"""

import argparse
import time
from dataclasses import replace

import numpy as np

from nishimori_paper._names import NetworkName
from nishimori_paper.training._image_formats import Images
from nishimori_paper.training._image_sets import ImageSet
from nishimori_paper.training._recipes import recipe, recipes
from nishimori_paper.training._training import Settings, Training


def images(n, n_classes, seed):
    """Random pixels and labels."""
    rng = np.random.default_rng(seed)
    return Images(rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8), rng.integers(0, n_classes, n))


def timed(name, steps, *, repeatable):
    """Seconds of the first epoch, milliseconds per step of the later ones, and the device."""
    network = NetworkName.parse(name)
    short = replace(recipe(network.dataset, network.model), epochs=4, warmup=0)
    n_classes = 100 if short.dataset == "cifar100" else 10
    splits = [images(n, n_classes, seed) for seed, n in enumerate((steps * short.batch, 100, 100))]
    training = Training(
        short,
        ImageSet(short.dataset, n_classes, *splits, "random"),
        seed=0,
        settings=Settings.best(repeatable=repeatable),
    )
    ends = [time.perf_counter()]
    training.run(lambda _: ends.append(time.perf_counter()))
    first, *later = np.diff(ends)
    return first, 1000 * np.array(later) / steps, training.settings.device


def main():
    """Print one line per network and kind of arithmetic."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=[each.name for each in recipes()], metavar="NAME")
    parser.add_argument("--steps", type=int, default=100, help="steps per epoch")
    chosen = parser.parse_args()
    print(f"{'network':24} {'bits':>11} {'first epoch':>12} {'ms per step (later epochs)':>30}")
    for name in chosen.names:
        fastest = None
        for repeatable in (False, True):
            first, later, device = timed(name, chosen.steps, repeatable=repeatable)
            fastest = fastest or later.min()
            runs = " ".join(f"{each:.2f}" for each in later)
            ratio = f"  {later.min() / fastest:.2f} of the above" if repeatable else f"  on {device}"
            print(f"{name:24} {'repeatable' if repeatable else 'fastest':>11} {first:10.1f} s {runs:>30}{ratio}", flush=True)


if __name__ == "__main__":
    main()
