"""The memory of a metric of tokens, some of which are ignored, and the size of their logits, in bytes."""

import numpy as np
from watching import run, traced_peak

import nishimori


def main(cut):
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((64, 65, 4000), dtype=np.float32)  # 66 MB
    if cut:
        logits = logits[:, :-1]
    labels = rng.integers(0, 4000, logits.shape[:2])
    labels[:, ::3] = -100
    return traced_peak(lambda: nishimori.metrics.nll(logits, labels, ignore_index=-100)), logits.nbytes


run(main)
