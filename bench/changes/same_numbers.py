"""Whether a change of the code changed a number: fits and metrics of two versions, on bundled and other real logits.

    python bench/changes/same_numbers.py --write before.json  with the old version of nishimori on the path
    python bench/changes/same_numbers.py --write after.json   with the new one
    python bench/changes/same_numbers.py before.json after.json  lists temperatures and parameters that differ by more than 1e-9
                                                          of their value, and metrics and their errors by more than 1e-12

The logits are those of the networks in `nishimori.data` and, if the environment variable ``NISHIMORI_DATA`` names a folder, the
files ``logits/*.npz`` in it. Each is fitted by every method, plain, with weights, counts, clusters, groups and masks, in three
dtypes, as probabilities, from a sketch and from batches.
"""

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import nishimori

FIT_TOLERANCE = 1e-9
METRIC_TOLERANCE = 1e-12

# Many classes make these slow, and their code does not depend on the number of classes.
SLOW = {"matrix", "dirichlet"}


def data_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Logits and labels by name: the validation part of bundled networks, and the files that the user has."""
    found = {}
    for name in nishimori.data.names():
        part = nishimori.data.load(name).validation
        found[name] = (np.asarray(part.logits), np.asarray(part.labels))
    if "NISHIMORI_DATA" in os.environ:
        for path in sorted((Path(os.environ["NISHIMORI_DATA"]) / "logits").glob("*.npz")):
            with np.load(path, allow_pickle=False) as file:
                found[path.stem] = (file["logits"], file["labels"])
    return found


def method_names() -> dict[str, str]:
    """The names of methods in the result, and what this version calls them."""
    names = {name: name for name in nishimori.methods()}
    if "auto" in names:  # what "adaptive" was called before
        names["adaptive"] = names.pop("auto")
    return names


def variants(logits: np.ndarray, labels: np.ndarray) -> dict[str, dict]:
    """What can be said about the same rows, as arguments of `temperatures` and `evaluate`."""
    rng = np.random.default_rng(0)
    n = len(logits)
    weights = rng.exponential(size=n)
    masked = logits.copy()
    masked[rng.random(logits.shape) < 0.1] = -np.inf
    masked[np.arange(n), labels] = logits[np.arange(n), labels]
    ignored = np.where(rng.random(n) < 0.2, -100, labels)
    shifted = logits - logits.max(axis=1, keepdims=True)
    probabilities = np.exp(shifted.astype(np.float64))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    return {
        "plain": {"logits": logits, "labels": labels},
        "weights": {"logits": logits, "labels": labels, "sample_weight": weights},
        "counts": {"logits": logits, "labels": labels, "sample_weight": rng.integers(0, 5, n).astype(float), "counts": True},
        "clusters": {"logits": logits, "labels": labels, "clusters": rng.integers(n // 5, size=n)},
        "masks": {"logits": masked, "labels": labels},
        "ignored": {"logits": logits, "labels": ignored, "ignore_index": -100},
        "float64": {"logits": logits.astype(np.float64), "labels": labels},
        "float16": {"logits": logits.astype(np.float16), "labels": labels},
        "probabilities": {"logits": probabilities, "labels": labels, "input": "probabilities", "floor": None},
        "batches": {"logits": [(logits[i : i + 700], labels[i : i + 700]) for i in range(0, n, 700)]},
    }


def numbers_in(found: object, names: tuple[str, ...]) -> dict[str, float]:
    """Attributes of a result as plain numbers; what is absent is left out."""
    values = {name: getattr(found, name, None) for name in names}
    return {name: float(value) for name, value in values.items() if isinstance(value, float | int | np.floating)}


def measure(logits: np.ndarray, labels: np.ndarray) -> dict[str, dict[str, float]]:
    """All numbers of one data set: fits under names that begin with "fit", metrics under others."""
    found: dict[str, dict[str, float]] = {}

    def note(key: str, compute: Callable[..., dict[str, float]], *arguments: Any, **options: Any) -> None:
        try:
            found[key] = compute(*arguments, **options)
        except nishimori.errors.NishimoriError as error:
            found[key] = {type(error).__name__: 0.0}

    for name, given in variants(logits, labels).items():
        note(f"fit {name}", temperatures, **given)
        for strategy in ("uniform", "quantile"):
            note(f"metric {name} {strategy}", metrics, **given, strategy=strategy)
    groups = np.array(["a", "b", "c"])[np.arange(len(logits)) % 3]
    weights = np.random.default_rng(1).exponential(size=len(logits))
    for name, spelled in method_names().items():
        if name in SLOW and logits.shape[1] > 10:
            continue
        note(f"fit method {name}", fitted, nishimori.calibrator(spelled), logits, labels)
        note(f"fit weighted {name}", fitted, nishimori.calibrator(spelled), logits, labels, sample_weight=weights)
    note("fit method groups", fitted, nishimori.GroupConsistency(by="groups"), logits, labels, groups=groups)
    sketch = nishimori.Sketch()
    for start in range(0, len(logits), 1000):
        sketch.update(logits[start : start + 1000], labels[start : start + 1000])
    note("fit sketch", temperatures, sketch)
    note("metric sketch", metrics, sketch)
    note("metric predicted classes", gaps, logits, labels)
    return found


def temperatures(*arguments: Any, **options: Any) -> dict[str, float]:
    """Numbers of `nishimori.temperatures`."""
    return numbers_in(nishimori.temperatures(*arguments, **options), ("ec", "ts", "ec_se", "ts_se", "accuracy", "n_samples"))


def metrics(*arguments: Any, **options: Any) -> dict[str, float]:
    """Numbers of `nishimori.evaluate`."""
    names = tuple(f"{each}{end}" for each in ("error", "confidence", "gap", "ece", "brier", "nll") for end in ("", "_se"))
    return numbers_in(nishimori.evaluate(*arguments, **options, temperature=1.3), names)


def gaps(*arguments: Any) -> dict[str, float]:
    """Confidence minus accuracy of each predicted class."""
    return {str(each.name): float(each.gap) for each in nishimori.group_gaps(*arguments).groups}


def fitted(calibrator: Any, logits: np.ndarray, labels: np.ndarray, **given: Any) -> dict[str, float]:
    """Some probabilities of a calibrator that is fitted here, and its temperature with the standard error."""
    if type(calibrator).__name__ in ("Platt", "Beta", "Quadratic"):  # for two classes
        logits, labels = logits[:, :2], (labels == 1).astype(int)
    made = calibrator.fit(logits, labels, **given)
    here = {"groups": given["groups"][:5]} if "groups" in given else {}
    probabilities = np.asarray(made.predict_proba(logits[:5], **here), dtype=float)
    found = {f"p{i}{k}": float(p) for i, row in enumerate(probabilities) for k, p in enumerate(row[:3])}
    return found | numbers_in(made, ("temperature_", "temperature_se_"))


def compare(before: dict, after: dict) -> int:
    """Print what differs, and return how many numbers do."""
    n_numbers, differing = 0, []
    for data, computed in before.items():
        for key, old in computed.items():
            new = after.get(data, {}).get(key)
            if new is None or set(old) != set(new):
                differing.append(f"{data}: {key}: {sorted(old)} became {None if new is None else sorted(new)}")
                continue
            tolerance = FIT_TOLERANCE if key.startswith("fit") else METRIC_TOLERANCE
            for name, value in old.items():
                n_numbers += 1
                change = abs(new[name] - value) / max(abs(value), 1e-300) if new[name] != value else 0.0
                # Standard errors follow from sums of squares, whose rounding is that of a fit.
                if change > (FIT_TOLERANCE if name.endswith("_se") else tolerance):
                    differing.append(f"{data}: {key}: {name} {value!r} became {new[name]!r} ({change:.1e})")
    print("\n".join(differing))
    print(f"{n_numbers} numbers of {len(before)} data sets, {len(differing)} differ")
    return len(differing)


def main() -> int:
    """Compute all numbers, or compare those of two files; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="two files that --write made")
    parser.add_argument("--write", help="compute all numbers with this version, and write them")
    given = parser.parse_args()
    if given.write is None:
        before, after = (json.loads(Path(each).read_text(encoding="utf-8")) for each in given.files)
        return min(1, compare(before, after))
    warnings.simplefilter("ignore")
    found = {}
    for name, (logits, labels) in data_sets().items():
        start = time.time()
        found[name] = measure(logits, labels)
        print(f"{name}: {sum(map(len, found[name].values()))} numbers, {time.time() - start:.0f} s", file=sys.stderr)
    Path(given.write).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
