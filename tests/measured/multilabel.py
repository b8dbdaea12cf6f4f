"""The memory of a fit of each label of a file of scores, and the size of the scores, in bytes."""

import numpy as np
from watching import run, traced_peak

from nishimori._calibrators.multilabel import decisions
from nishimori._rows import stored_rows
from nishimori.multilabel import MultilabelCalibrator


def main(path):
    rng = np.random.default_rng(0)
    logits = 4 * rng.normal(size=(60_000, 64))  # 31 MB
    labels = (logits + rng.logistic(size=logits.shape) > 0).astype(np.int8)
    np.save(path, logits)
    size = logits.nbytes
    del logits
    stored_rows.rows_per_piece = lambda _: 1000
    decisions._MOST_SCORES = 4 * len(labels)
    calibrator = MultilabelCalibrator("none", parameters="per_label")
    return traced_peak(lambda: calibrator.fit(path, labels)), size


run(main)
