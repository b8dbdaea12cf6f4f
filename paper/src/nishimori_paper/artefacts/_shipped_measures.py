"""Measurements of a shipped model: scores of all methods, both temperatures, and why these differ."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from math import sqrt
from typing import Any, Literal

import numpy as np
from scipy.special import log_softmax

import nishimori
from nishimori._support.arrays import HostArray
from nishimori.errors import FewErrorsWarning, InputWarning, NishimoriError
from nishimori_paper import shipped
from nishimori_paper.artefacts._coincidence import Distances, decomposition, profile, root_mean_square, roots

Half = Literal["development", "final"]

BIAS_BY_TS = "bias, ts"  # the method "bias" by itself is by EC
METHODS: Mapping[str, str] = {
    "none": "as shipped",
    "ts": "TS",
    "ec": "EC",
    "adaptive": "adaptive",
    "best": "best",
    "classwise": "temperature per class",
    "bias": "EC and bias per class",
    BIAS_BY_TS: "TS and bias per class",
    "vector": "vector",
    "vector+ec": "vector+ec",
}
MASKED: Mapping[str, str] = {"none": "absent classes removed", "ts": "absent removed, TS", "ec": "absent removed, EC"}
QUICK = ("none", "ts", "ec")
QUICK_ROWS = 150
_BINS = 15
_DRAWS = 500
_FEWEST_CLASSES = 20  # from which standard errors by class are estimated
_FEW = 10  # rows that a predicted class must have for its gap
_LEAST_LEAD = 0.2  # of the top score, for VS Code to take the answer


@cache
def measured(name: str, half: Half = "final", quick: bool = False) -> dict[str, Any]:
    """All measurements of a model on one half of its documents.

    Parameters
    ----------
    name : str
        Of the file of logits.
    half : str
        Which documents: those of development, or the final ones.
    quick : bool
        Only few rows and methods, for tests.
    """
    model = shipped.load(name)
    fit, test = model.part(half, "fit"), model.part(half, "test")
    if quick:
        fit, test = (part.take(np.arange(len(part.labels))[:: max(1, len(part.labels) // QUICK_ROWS)]) for part in (fit, test))
    present = np.unique(model.labels)
    result: dict[str, Any] = {
        "title": model.title,
        "package": f"{model.provenance['package']} {model.provenance['version']}",
        "n_fit": len(fit.labels),
        "n_test": len(test.labels),
        "documents": len(np.unique(np.concatenate([fit.documents, test.documents]))),
        "n_classes": len(model.classes),
        "n_present": len(present),
        "methods": scores(fit, test, QUICK if quick else tuple(METHODS)),
        "masked": scores(fit.only(present), test.only(present), tuple(MASKED)),
        "difference": temperature_difference(joined(fit, test)),
        "mechanisms": mechanisms(fit, test, present, quick=quick),
    }
    if model.doubtful is not None:
        result["cleaner"] = scores(without_doubtful(fit), without_doubtful(test), QUICK)
        result["n_doubtful"] = sum(len(part.labels) - len(without_doubtful(part).labels) for part in (fit, test))
    if model.name == "source_code":
        result["answered"] = answered(test)
    if model.name.startswith("py3langid"):
        result["raw"] = scores(undivided(fit), undivided(test), QUICK)
    return result


@cache
def transferred(name: str, other: str, half: Half = "final") -> dict[str, Any]:
    """Scores on text of another kind: fitted to a file's rows, and to documents of the other kind for comparison."""
    model, away = shipped.load(name), shipped.load(other)
    fit, test = model.part(half, "fit"), away.part(half, "test")
    return {
        "title": away.title,
        "n_test": len(test.labels),
        "n_present": len(np.unique(away.labels)),
        "methods": scores(fit, test, QUICK),
        "own": scores(away.part(half, "fit"), test, QUICK),
        "difference": temperature_difference(away.part(half)),
    }


def joined(a: shipped.ShippedModel, b: shipped.ShippedModel) -> shipped.ShippedModel:
    """The rows of both parts."""
    columns: dict[str, Any] = {name: np.concatenate([getattr(a, name), getattr(b, name)]) for name in a.columns}
    return replace(a, **columns)


# Scores.


def scores(fit: shipped.ShippedModel, test: shipped.ShippedModel, methods: Sequence[str]) -> dict[str, Any]:
    """Test scores of methods that are fitted to other documents, with errors by document and by class.

    ``against_ts`` is the ECE minus that of TS, with standard errors of both kinds from the same bootstrap samples.
    """
    gaps: dict[str, tuple[HostArray, ...]] = {}
    result: dict[str, Any] = {}
    for method in methods:
        fitted = _fitted(method, fit)
        # Where EC with biases has no solution the library falls back to TS, which has its own row.
        if fitted is None or (method == "bias" and fitted.condition_ == "ts"):
            result[method] = None
            continue
        log_p = np.asarray(fitted.predict_log_proba(np.asarray(test.logits, dtype=np.float64)))
        gaps[method] = confidence_gaps(log_p, test.labels)
        result[method] = {
            "temperature": getattr(fitted, "temperature_", None),
            "chosen": getattr(fitted, "chosen_", None) if method == "best" else None,
            **scores_of(log_p, test),
        }
    for method, numbers in result.items():
        if numbers is not None and "ts" in gaps:
            numbers["against_ts"] = ece_difference(gaps[method], gaps["ts"], test)
    return result


def new_calibrator(method: str) -> Any:
    """An unfitted calibrator of one of `METHODS`."""
    return nishimori.BiasCorrected(method="ts") if method == BIAS_BY_TS else nishimori.calibrator(method)


def _fitted(method: str, fit: shipped.ShippedModel) -> Any:
    with _few_rows():
        try:
            return new_calibrator(method).fit(fit.logits, fit.labels)
        except NishimoriError:
            return None  # no solution; tables say so


@contextmanager
def _few_rows() -> Iterator[None]:
    """Suppress warnings about few rows per class and few clusters, which are normal for these data."""
    with warnings.catch_warnings():
        for kind in (FewErrorsWarning, InputWarning):
            warnings.simplefilter("ignore", kind)
        yield


def scores_of(log_p: HostArray, test: shipped.ShippedModel) -> dict[str, Any]:
    """Accuracy, confidence, NLL and ECE with standard errors by document, and the gaps of predicted classes."""
    with _few_rows():
        card = nishimori.evaluate(log_p, test.labels, clusters=test.documents, strategy="quantile")
        by_class = nishimori.evaluate(log_p, test.labels, clusters=test.labels, strategy="quantile")
    enough = len(np.unique(test.labels)) >= _FEWEST_CLASSES
    _, gap, predicted = confidence_gaps(log_p, test.labels)
    classes = class_gaps(gap, predicted)
    worst = max(classes, key=lambda row: abs(row["gap"])) if classes else None
    return {
        "accuracy": card.accuracy,
        "confidence": card.confidence,
        "gap": card.gap,
        "gap_se": card.gap_se,
        "gap_se_class": by_class.gap_se if enough else None,
        "nll": card.nll,
        "nll_se": card.nll_se,
        "nll_se_class": by_class.nll_se if enough else None,
        "ece": card.ece,
        "ece_corrected": card.ece_corrected,
        "ece_se": card.ece_se,
        "ece_se_class": by_class.ece_se if enough else None,
        "class_gap": sqrt(
            max(
                0.0,
                sum(row["n"] * (row["gap"] ** 2 - row["se"] ** 2) for row in classes) / sum(row["n"] for row in classes),
            )
        )
        if classes
        else None,
        "worst_class": None if worst is None else {**worst, "class": str(test.classes[worst["class"]])},
    }


def confidence_gaps(log_p: HostArray, labels: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """For each row, the confidence, confidence minus correctness, and the predicted class."""
    predicted = log_p.argmax(axis=1)
    confidence = np.exp(log_p.max(axis=1))
    return confidence, confidence - (predicted == labels), predicted


def class_gaps(gap: HostArray, predicted: HostArray) -> list[dict[str, Any]]:
    """Mean gap and its standard error for each class that is predicted often enough."""
    rows = []
    for number in np.unique(predicted):
        some = gap[predicted == number]
        if len(some) >= _FEW:
            rows.append(
                {
                    "class": int(number),
                    "n": len(some),
                    "gap": float(some.mean()),
                    "se": float(some.std(ddof=1) / sqrt(len(some))),
                }
            )
    return rows


def answered(test: shipped.ShippedModel) -> dict[str, float]:
    """The share of rows whose answer VS Code would take, and how many of these are right.

    The top score must exceed the second by 0.2. That VS Code first raises or lowers the scores of some languages is left out.
    """
    log_p = log_softmax(np.asarray(test.logits, dtype=np.float64), axis=1)
    second, first = np.exp(np.sort(log_p, axis=1)[:, -2:]).T
    answered = first - second >= _LEAST_LEAD
    right = log_p.argmax(axis=1) == test.labels
    return {"share": float(answered.mean()), "accuracy": float(right[answered].mean())}


def ece_difference(a: tuple[HostArray, ...], b: tuple[HostArray, ...], test: shipped.ShippedModel) -> dict[str, float]:
    """The difference in ECE between two methods on the same rows, with standard errors from resampled documents and classes.

    Of all models, as it was fixed before the final half was measured: resampling two or four classes says little about others.
    """
    values = [ece_of_weights(weights, None)[0] for weights in (a, b)]
    result = {"ece": float(values[0] - values[1])}
    for name, clusters in (("se", test.documents), ("se_class", test.labels)):
        draws = ece_of_weights(a, clusters) - ece_of_weights(b, clusters)
        result[name] = float(draws.std(ddof=1))
    return result


def ece_of_weights(predictions: tuple[HostArray, ...], clusters: HostArray | None) -> HostArray:
    """The ECE in 15 bins of equal numbers of rows, of all rows or of resampled clusters; bins stay as they are."""
    confidence, gap, _ = predictions
    bins = np.empty(len(gap), dtype=np.int64)
    for number, part in enumerate(np.array_split(np.argsort(confidence, kind="stable"), _BINS)):
        bins[part] = number
    if clusters is None:
        return np.array([np.abs(np.bincount(bins, gap, _BINS)).sum() / len(gap)])
    _, cluster = np.unique(clusters, return_inverse=True)
    n = int(cluster.max()) + 1
    sums = np.zeros((n, _BINS))
    np.add.at(sums, (cluster, bins), gap)
    sizes = np.bincount(cluster, minlength=n)
    # The same seed for each method, so that differences are of the same samples.
    counts = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), size=_DRAWS)
    return np.asarray(np.abs(counts @ sums).sum(axis=1) / (counts @ sizes))


# Temperatures.


def temperature_difference(data: shipped.ShippedModel) -> dict[str, Any]:
    """Both temperatures of rows, log T_TS/T_EC with standard errors by document and by class, and its parts by margin."""
    distances = Distances.from_logits(data.logits, data.labels)
    numbers: dict[str, Any] = dict(decomposition(distances))
    ec, ts = roots(distances)
    at_ec, at_ts = distances.at(ec), distances.at(ts)
    influence = at_ts.ts_gap / at_ts.ts_slope.mean() - at_ec.gap / at_ec.slope.mean()
    numbers["difference_se_document"] = clustered_error(influence, data.documents)
    several = len(np.unique(data.labels)) >= _FEWEST_CLASSES
    numbers["difference_se_class"] = clustered_error(influence, data.labels) if several else None
    rows = profile(distances, ec)
    numbers["rms_before"], numbers["rms_after"] = root_mean_square(profile(distances, 0.0)), root_mean_square(rows)
    numbers["profile"] = rows
    return numbers


def larger_error(numbers: Mapping[str, Any]) -> float:
    """The larger of the standard errors by document and by class, where there are enough classes."""
    return float(max(numbers["difference_se_document"], numbers["difference_se_class"] or 0.0))


def clustered_error(influence: HostArray, clusters: HostArray) -> float:
    """Standard error of a mean from the influences of its rows, if whole clusters are independent."""
    _, cluster = np.unique(clusters, return_inverse=True)
    sums = np.bincount(cluster, influence - influence.mean())
    return float(sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / len(influence))


# Mechanisms: what is left of log T_TS/T_EC if one thing is mended.


def mechanisms(
    fit: shipped.ShippedModel, test: shipped.ShippedModel, present: HostArray, *, quick: bool = False
) -> dict[str, Any]:
    """The difference between the temperatures after each single repair, on the rows of both parts.

    What has to be learned (biases, temperatures, which classes are hard) is learned on one part and used on the other.
    """
    both = joined(fit, test)
    if quick:
        return {"as shipped": _short(both)}
    changed: dict[str, Any] = {
        "as shipped": both,
        "absent classes removed": both.only(present),
        "bias per class": crossed(fit, test, biased),
        "absent removed, bias": crossed(fit.only(present), test.only(present), biased),
        "temperature per class": crossed(fit, test, classwise),
        "hard classes removed": crossed(fit, test, without_hard),
    }
    if both.doubtful is not None:
        changed["doubtful labels removed"] = without_doubtful(both)
    if both.lengths is not None:
        order = np.argsort(both.lengths, kind="stable")
        for name, part in zip(("short third", "middle third", "long third"), np.array_split(order, 3), strict=True):
            changed[name] = both.take(part)
        changed["temperature by length"] = crossed(fit, test, by_length)
        if both.name.startswith("py3langid"):
            changed["not divided by √bytes"] = undivided(both)
    return {name: _short(data) for name, data in changed.items()}


def _short(data: shipped.ShippedModel) -> dict[str, float] | None:
    try:
        difference = temperature_difference(data)
    except NishimoriError:
        return None
    names = ("temperature_ec", "temperature_ts", "difference", "difference_se_document", "difference_se_class")
    return {
        name: difference[name] for name in (*names, "covariance", "wrong_classes", "first_order", "rms_before", "rms_after")
    } | {
        "n": len(data.labels),
        "accuracy": float((data.logits.argmax(axis=1) == data.labels).mean()),
    }


def crossed(fit: shipped.ShippedModel, test: shipped.ShippedModel, change: Any) -> shipped.ShippedModel:
    """Both parts, each changed by what is learned from the other one."""
    return joined(change(test, fit), change(fit, test))


def biased(teacher: shipped.ShippedModel, data: shipped.ShippedModel) -> shipped.ShippedModel:
    """Logits with the biases of the fit: priors as the teacher has them."""
    return _mapped("bias", teacher, data)


def classwise(teacher: shipped.ShippedModel, data: shipped.ShippedModel) -> shipped.ShippedModel:
    """Logits with a temperature per class."""
    return _mapped("classwise", teacher, data)


def _mapped(method: str, teacher: shipped.ShippedModel, data: shipped.ShippedModel) -> shipped.ShippedModel:
    fitted = _fitted(method, teacher)
    return replace(data, logits=np.asarray(fitted.predict_log_proba(np.asarray(data.logits, dtype=np.float64))))


def without_doubtful(data: shipped.ShippedModel) -> shipped.ShippedModel:
    """Rows without doubtful labels: two other models confidently predict another class."""
    assert data.doubtful is not None
    return data.take(~data.doubtful)


def undivided(data: shipped.ShippedModel) -> shipped.ShippedModel:
    """The scores of naive Bayes as they are: py3langid divides them by the square root of the number of bytes."""
    assert data.lengths is not None
    return replace(data, logits=data.logits * np.sqrt(data.lengths)[:, None])


def without_hard(teacher: shipped.ShippedModel, data: shipped.ShippedModel) -> shipped.ShippedModel:
    """Rows without the classes for which less than half of the model's answers are right."""
    right = teacher.logits.argmax(axis=1) == teacher.labels
    total = np.bincount(teacher.labels, minlength=len(teacher.classes))
    share = np.bincount(teacher.labels, right, minlength=len(teacher.classes)) / np.maximum(total, 1)
    return data.take(((share >= 0.5) | (total == 0))[data.labels])


def by_length(teacher: shipped.ShippedModel, data: shipped.ShippedModel) -> shipped.ShippedModel:
    """Logits divided by the EC temperature of rows of about the same length, in five ranges."""
    assert teacher.lengths is not None
    assert data.lengths is not None
    edges = np.quantile(teacher.lengths, np.linspace(0, 1, 6)[1:-1])
    group, own = np.searchsorted(edges, teacher.lengths), np.searchsorted(edges, data.lengths)
    scale = np.ones(len(data.labels))
    for number in range(5):
        some = teacher.take(group == number)
        scale[own == number] = np.exp(roots(Distances.from_logits(some.logits, some.labels)).ec)
    return replace(data, logits=data.logits * scale[:, None])
