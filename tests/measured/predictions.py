"""The memory of predictions beyond their own size, for each kind of input and each method, in bytes."""

import numpy as np
from watching import run, traced_peak

import nishimori


def main(inputs, methods):
    arrays, found = np.load(inputs), {}
    for name in arrays:
        kind = "probabilities" if name == "probabilities" else "logits"
        calibrator, few = nishimori.from_temperature(1.7, input=kind), arrays[name]
        many = np.concatenate([few] * 4)  # 34 MB of float32 if there are ten classes
        for method in methods:
            call, kept = getattr(calibrator, method), []
            call(few)  # loads what is loaded once
            peak = traced_peak(lambda call=call, kept=kept, many=many: kept.append(call(many)))
            assert len(kept[0]) == len(many)
            found[f"{name}, {method}"] = peak - kept[0].nbytes
    return found


run(main)
