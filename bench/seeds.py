"""Train networks of the paper again with other seeds, several at a time, and keep their logits.

    python bench/seeds.py OUT --data FOLDER                                     # the networks and seeds of docs/paper.md
    python bench/seeds.py OUT --data FOLDER cifar10/resnet20:1,2 --at-a-time 2    # others

Each network is trained by a process of its own and ends in OUT/NAME-seed-N. A run that was interrupted continues when it is
repeated. On a GPU, CUDA's multi-process service lets the processes share it. The first network of a model compiles it, and the
others of that model wait for its first epoch, so that they find it in the cache of PyTorch's compiler.
`bench/seed_numbers.py OUT` turns the logits into the numbers that come with the package.
"""

import argparse
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from nishimori_paper import train
from nishimori_paper._names import NetworkName

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
        command = [sys.executable, __file__, str(self.out), "--data", data, "--here", f"{self.name}:{self.seed}"]
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


def main():
    """Train, in this process or in others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("networks", nargs="*", default=NETWORKS, metavar="NAME:SEED,...")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="a folder with the images")
    parser.add_argument("--at-a-time", type=int, default=7, help="number of processes")
    parser.add_argument("--here", action="store_true", help="one network, in this process")
    chosen = parser.parse_intermixed_args()
    every = jobs(chosen.networks, chosen.out)
    if not chosen.here:
        sys.exit(0 if schedule(every, chosen.data, chosen.at_a_time) else 1)
    for job in every:
        train(job.name.dataset, job.name.model, job.folder, data=chosen.data, seed=job.seed, progress=True)


if __name__ == "__main__":
    main()
