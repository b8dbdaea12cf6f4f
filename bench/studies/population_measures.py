"""What is measured of one network of the population: point estimates, and the same for bootstrap samples of the images.

Every quantity is an array of 1 + `RESAMPLES` numbers; the first is the estimate. The estimates of scores are computed by the
library. Those of bootstrap samples are computed here for all samples at once, on a grid of temperatures.
"""

import io
import json
import tomllib
import warnings
import zipfile
from dataclasses import dataclass
from math import exp, sqrt
from pathlib import Path

import numpy as np

import nishimori
from many_fits import Pool
from nishimori._evaluation.scorecard import scorecards
from nishimori._fit.adaptive import kept_share
from nishimori._rows.entry import open_rows
from nishimori.maps.temperature import Temperature
from nishimori_paper.artefacts._coincidence import Distances, decomposition, profile, root_mean_square, roots

# The declaration of the population of networks, and the files in which their logits travel from a GPU to the analysis.

DECLARATION = Path(__file__).parents[2] / "paper" / "population.toml"
PACK_BYTES = 15 << 20


@dataclass(frozen=True)
class Member:
    """One network of the population; networks of round 1 are trained first."""

    kind: str
    dataset: str
    seed: int
    round: int
    recipe: dict

    @property
    def name(self):
        return f"{self.kind}-{self.seed}"


def declaration(path=DECLARATION):
    """The declaration as a dictionary."""
    return tomllib.loads(Path(path).read_text(encoding="utf-8"))


def members(declared):
    """All networks, in the order in which they are trained."""
    found = [
        Member(kind["name"], kind["dataset"], seed, number, declared["training"] | kind.get("recipe", {}))
        for kind in declared["kinds"]
        for number, seeds in enumerate(kind["seeds"], 1)
        for seed in seeds
    ]
    return sorted(found, key=lambda each: each.round)


def halved(logits):
    """Logits in half precision, less the largest one of each row: exact where it matters, near the top."""
    below = np.asarray(logits, dtype=np.float32)
    below = below - below.max(axis=1, keepdims=True)
    assert below.min() > np.finfo(np.float16).min, "beyond the range of float16"
    return below.astype(np.float16)


def write(path, arrays, about):
    """Write a network's arrays and what is known about it; a file with this name is complete."""
    stream = io.BytesIO()
    np.savez_compressed(stream, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **arrays)
    part = path.with_suffix(".part")
    part.write_bytes(stream.getvalue())
    part.replace(path)


def pack(folder, target):
    """Copy the networks' files in a folder to few archives of at most 15 MiB each (or one file, if that is larger)."""
    target.mkdir(parents=True, exist_ok=True)
    groups, size = [], PACK_BYTES
    for path in sorted(folder.glob("*.npz")):
        length = path.stat().st_size
        if size + length > PACK_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(path)
        size += length
    for number, paths in enumerate(groups):
        with zipfile.ZipFile(target / f"{folder.name}-{number}.zip", "w", zipfile.ZIP_STORED) as archive:
            for path in paths:
                archive.write(path, path.name)
    return len(groups)


def read(folder):
    """By name, what is known about each network, and its arrays, from the files and archives in a folder."""
    found = {}
    for path in sorted(Path(folder).rglob("*.zip")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                found[Path(name).stem] = _content(io.BytesIO(archive.read(name)))
    for path in sorted(Path(folder).rglob("*.npz")):
        found[path.stem] = _content(path)
    return found


def _content(file):
    with np.load(file) as arrays:
        content = {key: arrays[key] for key in arrays.files}
    return json.loads(content.pop("about").tobytes()), content


RESAMPLES = 200
BINS = 15
ONE_TEMPERATURE = ("none", "ts", "ec", "adaptive")
OTHERS = ("best", "vector", "vector+ec", "matrix", "matrix+ec")
FEW, DRAWS = 100, 50
LOGS = np.linspace(-1.5, 2.0, 71)  # log T at which bootstrap samples of the test images are scored


def resampled(n, seed):
    """How often each image is drawn, for each bootstrap sample."""
    rng = np.random.default_rng([seed, n])
    return np.stack([np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(RESAMPLES)])


@dataclass(frozen=True)
class Held:
    """Logits and labels of the validation and the test images."""

    validation: np.ndarray
    validation_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


class Resamples:
    """The bootstrap samples of a data set's images: the same for all of its networks."""

    def __init__(self, n_validation, n_test, seed):
        self.validation, self.test = resampled(n_validation, seed), resampled(n_test, seed + 1)
        # The numbers of the images in each sample, and the sample that is all images once.
        every = np.arange(n_validation)
        self.drawn = np.stack([every, *(np.repeat(every, counts) for counts in self.validation)])


def weighted_bins(order, counts, *columns):
    """Sums of columns in 15 bins of equal mass, for each row of counts; ``order`` sorts the samples.

    A sample that was drawn several times may belong to two bins in parts.
    """
    weights = counts[:, order]
    masses = np.cumsum(weights, axis=1, dtype=np.float64)
    found = []
    for column in columns:
        sums = np.cumsum(weights * column[order], axis=1)
        ends = [np.interp(np.arange(1, BINS + 1) * x[-1] / BINS, x, y) for x, y in zip(masses, sums, strict=True)]
        found.append(np.diff(np.stack(ends), axis=1, prepend=0))
    return found


def ece_of_samples(confidence, right, counts):
    """ECE in percent of each bootstrap sample."""
    (gaps,) = weighted_bins(np.argsort(confidence, kind="stable"), counts, confidence - right)
    return 100 * np.abs(gaps).sum(axis=1) / counts.sum(axis=1)


class Curves:
    """ECE and NLL of every bootstrap sample of test images, on a grid of temperatures."""

    def __init__(self, logits, labels, counts):
        z = np.asarray(logits, dtype=np.float64)
        z = z - z.max(axis=1, keepdims=True)
        right, at_label = z.argmax(axis=1) == labels, z[np.arange(len(z)), labels]
        ece, nll = [], []
        for T in np.exp(LOGS):
            total = np.exp(z / T).sum(axis=1)
            ece.append(ece_of_samples(1 / total, right, counts))
            nll.append(counts @ (np.log(total) - at_label / T) / counts.sum(axis=1))
        self.ece, self.nll = np.stack(ece, axis=1), np.stack(nll, axis=1)

    def at(self, logs):
        """ECE and NLL of each sample, at a log T of its own."""
        pairs = list(zip(logs, self.ece, self.nll, strict=True))
        return (np.array([np.interp(log, LOGS, row[which]) for log, *row in pairs]) for which in (0, 1))


def adapted(fits):
    """Log T of "adaptive" for many validation sets."""
    return fits.logs[:, 1] + kept_share(fits.delta, fits.variance) * fits.delta


def temperatures(pool, labels, drawn):
    """Log T of EC, TS and adaptive, for each row of numbers of validation images."""
    fits = pool.fits(drawn, labels[drawn])
    return {"ec": fits.logs[:, 0], "ts": fits.logs[:, 1], "adaptive": adapted(fits)}


def scores(network, resamples, others=OTHERS):
    """Scores of methods, fitted to all validation images and measured on the test images."""
    validation, labels = network.validation, network.validation_labels
    test, truth = open_rows(network.test, network.test_labels), network.test_labels
    maps, about = {"none": Temperature(1.0)}, {}
    for method in (*ONE_TEMPERATURE[1:], *others):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = nishimori.calibrator(method).fit(validation, labels)
        maps[method] = fitted.map_
        if method == "best":
            about["chosen"] = fitted.chosen_
    cards = dict(zip(maps, scorecards(test, list(maps.values()), strategy="quantile"), strict=True))
    logs = {name: np.log(maps[name].temperature) for name in ONE_TEMPERATURE[1:]}
    pool = Pool(validation)
    refitted = temperatures(pool, labels, resamples.drawn[1:]) | {"none": np.zeros(RESAMPLES)}
    curves = Curves(network.test, truth, resamples.test)
    found = {"log_ratio": np.array([logs["ts"] - logs["ec"], *(refitted["ts"] - refitted["ec"])])}
    for name in ("ec", "ts"):
        found[f"log_{name}"] = np.array([logs[name], *refitted[name]])
    for name in ONE_TEMPERATURE:
        ece, nll = curves.at(refitted[name])
        found[f"ece {name}"], found[f"nll {name}"] = np.array([100 * cards[name].ece, *ece]), np.array([cards[name].nll, *nll])
    for name in ("ts", *others):
        p = np.asarray(maps[name].probabilities(network.test), dtype=np.float64)
        at_label = np.log(np.maximum(p[np.arange(len(p)), truth], np.finfo(np.float64).tiny))
        ece = ece_of_samples(p.max(axis=1), p.argmax(axis=1) == truth, resamples.test)
        nll = -(resamples.test @ at_label) / len(p)
        key = f"{name}, same map" if name == "ts" else name
        found[f"ece {key}"], found[f"nll {key}"] = np.array([100 * cards[name].ece, *ece]), np.array([cards[name].nll, *nll])
    found |= few(network, pool, resamples, curves)
    return found, about | {"error": cards["none"].error, "classes": class_gaps(network, exp(-logs["ec"]))}


def few(network, pool, resamples, curves):
    """Mean ECE of EC and adaptive over draws of few validation images, of all images and of each bootstrap sample."""
    rng = np.random.default_rng(0)
    every = Curves(network.test, network.test_labels, np.ones((1, len(network.test)), dtype=int))
    found = {"ec": [], "adaptive": [], "ts": []}
    for i, drawn in enumerate(resamples.drawn):
        chosen = np.stack([rng.choice(drawn, FEW, replace=False) for _ in range(DRAWS)])
        row = (every.ece if i == 0 else curves.ece[i - 1 : i])[0]
        logs = temperatures(pool, network.validation_labels, chosen)
        exist = np.isfinite(logs["ec"]) & np.isfinite(logs["ts"])
        for name, values in found.items():
            values.append(float(np.interp(logs[name][exist], LOGS, row).mean()))
    return {f"ece {name}, few": np.array(values) for name, values in found.items()}


def class_gaps(network, beta):
    """Confidence minus accuracy by predicted class: root mean square over classes, less the part of sampling noise."""
    p = np.exp(beta * np.asarray(network.test, dtype=np.float64))
    gap = 1 / p.sum(axis=1) - (network.test.argmax(axis=1) == network.test_labels)
    squares = []
    for each in range(p.shape[1]):
        chosen = gap[network.test.argmax(axis=1) == each]
        if len(chosen) > 1:
            squares.append(chosen.mean() ** 2 - chosen.var(ddof=1) / len(chosen))
    return sqrt(max(0.0, float(np.mean(squares))))


def left_by_ec(distances, log_beta, counts):
    """Mean square of the gap by margin at T_EC, less sampling noise; T_EC is fitted to each sample to first order."""
    sums = distances.at(log_beta)
    every = np.concatenate([np.ones((1, len(sums.gap)), dtype=int), counts])
    step = -(every @ sums.gap) / (every @ sums.slope)
    order = np.argsort(sums.margin, kind="stable")
    columns = (sums.gap, sums.slope, sums.gap**2, sums.gap * sums.slope, sums.slope**2)
    gap, slope, gap2, both, slope2 = weighted_bins(order, every, *columns)
    n = len(sums.gap) / BINS
    step = step[:, None]
    mean = (gap + step * slope) / n
    variance = ((gap2 + 2 * step * both + step**2 * slope2) / n - mean**2) / (n - 1)
    return (mean**2 - variance).mean(axis=1)


def at_epoch(logits, labels):
    """Both temperatures, fitted to test images, and what EC leaves; and the log β of EC."""
    distances = Distances.from_logits(logits, labels)
    at = roots(distances)
    parts = decomposition(distances)
    z = np.asarray(logits, dtype=np.float64)
    found = {
        "error": float((logits.argmax(axis=1) != labels).mean()),
        "log_ec": -at.ec,
        "log_ts": -at.ts,
        "difference": parts["difference"],
        "difference_se": parts["difference_se"],
        "first_order": parts["first_order"],
        "covariance": parts["covariance"],
        "wrong_classes": parts["wrong_classes"],
        "scale": float(np.sqrt(np.square(z - z.mean(axis=1, keepdims=True)).mean())),
        "rms_before": root_mean_square(profile(distances, 0.0)),
        "rms_after": root_mean_square(profile(distances, at.ec)),
    }
    return found, distances, at.ec


def growth(first, last, labels, counts):
    """How T_EC and the scale of test logits change between two epochs, and the squared correlation of the logits."""
    n = len(first)
    every = np.concatenate([np.ones((1, n), dtype=int), counts])
    changes = []
    for logits in (first, last):
        _, distances, log_beta = at_epoch(logits, labels)
        sums = distances.at(log_beta)
        changes.append(-(log_beta - (every @ sums.gap) / (every @ sums.slope)))
    a, b = (
        np.asarray(z, dtype=np.float64) - np.asarray(z, dtype=np.float64).mean(axis=1, keepdims=True) for z in (first, last)
    )
    aa, bb, ab = (every @ (x * y).sum(axis=1) for x, y in ((a, a), (b, b), (a, b)))
    scale = 0.5 * np.log(bb / aa)
    temperature = changes[1] - changes[0]
    return {"growth of T": temperature, "growth of scale": scale, "growth apart": temperature - scale, "r2": ab**2 / (aa * bb)}
