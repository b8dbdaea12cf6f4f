"""The memory of a fit of each of some numbers of rows of 50 classes, beyond the logits themselves, in bytes."""

import numpy as np
from watching import run, traced_peak

import nishimori
from nishimori._support import arrays


def main(sizes):
    arrays._HOST_BLOCK = 2**14  # many blocks
    rng = np.random.default_rng(0)
    logits = 3 * rng.standard_normal((max(sizes), 50), np.float32)
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    nishimori.temperatures(logits[: min(sizes)], labels[: min(sizes)])  # loads what is loaded once
    return [traced_peak(lambda n=n: nishimori.temperatures(logits[:n], labels[:n])) for n in sizes]


run(main)
