"""Fit the affine calibrators of probmetrics to one file.

    PYTHON calibrators_probmetrics.py IN.npz OUT.npz

`calibrators_peers.py` runs this with an interpreter that has probmetrics. IN has ``validation`` and ``test`` (logits in
float64) and ``labels`` (of the validation rows). OUT gets, for each calibrator, its log-probabilities on both and the seconds
that its fit took.
"""

import sys
import time
import warnings

import numpy as np
import torch
from probmetrics.calibrators import get_calibrator
from probmetrics.calibrators.logistic import MatrixScalingCalibrator, VectorScalingCalibrator
from probmetrics.distributions import CategoricalLogits, CategoricalProbs


def as_probabilities(logits: np.ndarray) -> CategoricalProbs:
    """What CalArena passes: probabilities. Their logarithms are scaled."""
    return CategoricalProbs(torch.softmax(torch.from_numpy(logits), dim=1))


def as_centred_logits(logits: np.ndarray) -> CategoricalLogits:
    """Logits minus their mean over classes, on which our affine maps act."""
    return CategoricalLogits(torch.from_numpy(logits - logits.mean(axis=1, keepdims=True)))


CALIBRATORS = {
    "VS, centred logits": (VectorScalingCalibrator, as_centred_logits),
    "MS, centred logits": (MatrixScalingCalibrator, as_centred_logits),
    "VS": (VectorScalingCalibrator, as_probabilities),
    "MS": (MatrixScalingCalibrator, as_probabilities),
    "SVS": (lambda: get_calibrator("svs"), as_probabilities),
    "SMS": (lambda: get_calibrator("sms"), as_probabilities),
}


def log_probabilities(found: object) -> np.ndarray:
    """Those of what a calibrator returns: logits or probabilities."""
    if isinstance(found, CategoricalLogits):
        return torch.log_softmax(found.get_logits(), dim=1).numpy()
    return np.log(np.maximum(found.get_probs().numpy(), np.finfo(np.float64).tiny))


def main() -> None:
    """Fit and write."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    given = np.load(sys.argv[1])
    results: dict[str, np.ndarray] = {}
    get_calibrator("sms").fit_torch(
        as_probabilities(given["validation"][:200]), torch.from_numpy(given["labels"][:200])
    )  # warm up
    # With more parameters than rows, matrix scaling without a penalty separates the classes: its loss has no minimum.
    n, k = given["validation"].shape
    for name, (made, form) in CALIBRATORS.items():
        if name.startswith("MS") and k * (k + 1) > n:
            continue
        start = time.perf_counter()
        calibrator = made().fit_torch(form(given["validation"]), torch.from_numpy(given["labels"]))
        results[f"{name}|seconds"] = np.array(time.perf_counter() - start)
        for part in ("validation", "test"):
            results[f"{name}|{part}"] = log_probabilities(calibrator.predict_proba_torch(form(given[part])))
        print(f"{name}: {float(results[f'{name}|seconds']):.2f} s", flush=True)
    np.savez(sys.argv[2], **results)


if __name__ == "__main__":
    main()
