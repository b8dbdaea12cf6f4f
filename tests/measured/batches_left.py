"""How many batches of rows exist after some measurements, without the help of the garbage collector."""

import gc

import numpy as np
from watching import run

import nishimori
from nishimori._rows.batch import Batch
from nishimori._sums.predictions import Predictions


def main():
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(20_000, 50))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    gc.disable()
    nishimori.temperatures(logits, labels)
    nishimori.temperature_curve(logits, labels, grid=[1.0, 2.0], strategy="quantile")
    nishimori.metrics.ece(logits, labels, of="classwise")
    return sum(type(each) in (Batch, Predictions) for each in gc.get_objects())


run(main)
