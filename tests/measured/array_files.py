"""The memory of reading an array from one file and writing it to another, a block at a time, and the array's size, in bytes."""

from pathlib import Path

import numpy as np
from watching import run, traced_peak

from nishimori._files.arrays.files import open_arrays
from nishimori._files.arrays.new_arrays import new_arrays


def main(path, name, target):
    n_found = 0
    path, target = Path(path), Path(target)
    with new_arrays(target.with_stem("first"), (1, 8), np.float32, overwrite=False) as new:  # loads what is loaded once
        new.write(np.zeros((1, 8), np.float32))

    def work():
        nonlocal n_found
        file = open_arrays(path)
        stored = file.array(name)
        with new_arrays(target, stored.shape, np.float32, overwrite=False) as new:
            for block in stored.blocks(1000):
                new.write(block)
                n_found += len(block)

    return traced_peak(work), n_found


run(main)
