"""How much private memory grows while the rows of a file are evaluated, in bytes."""

import numpy as np
from watching import private_memory, private_peak, run

import nishimori


def main(logits, labels):
    y = np.load(labels)

    def work():  # no search for a temperature, which starts with a sample of up to a sixteenth of the rows
        nishimori.evaluate(logits, y)
        nishimori.evaluate(np.load(logits, mmap_mode="r"), y)

    work()  # loads what is loaded once
    before = private_memory()
    return private_peak(work) - before


run(main)
