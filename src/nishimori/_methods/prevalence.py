"""Other class frequencies: the numbers per class that turn probabilities for one set of frequencies into another's.

Where the samples of each class stay as they are and only the classes become more or less frequent, Bayes' rule multiplies the
probability of each class by new/old and divides by the sum: ln(new/old) is added to its calibrated logit. That is right where
mean probabilities are the old frequencies. One temperature does not see to that, so `class_off` looks for a class of the
calibration data whose mean probability is off its share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from nishimori._rows.batch import Batch
from nishimori._rows.labels import Classes, class_labels
from nishimori._rows.rows import Rows, Sum
from nishimori._rows.scores import scores
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori._support.formatting import enumeration, join_names
from nishimori._support.intervals import normal_quantile
from nishimori.errors import InputError
from nishimori.maps.around import innermost
from nishimori.maps.kinds import is_built_in
from nishimori.maps.map import Map

# A mean is off if it differs from the share by more than so many standard errors of two classes (p = 0.001), and by more than a
# hundredth, or a tenth of the share.
_LEVEL, _POINT, _PART = 0.999, 0.01, 0.1

# How many scores the search for a class that is off looks at: these, or a part of all, which adds a tenth to the time of a fit.
_LOOKED_AT, _PART_LOOKED_AT, _MOST_LOOKED_AT = 2**17, 0.1, 2**22

_SUM = 1e-6

_SMALL_SHARE = "Pass shares, such as 0.01 for one percent. Pass a small share for a rare class."


def is_off(gap: Any, se: Any, share: Any, n_classes: int = 2) -> Any:
    """Whether mean probabilities differ from shares, significantly for one of this many classes, and relevantly."""
    reach = normal_quantile(1 - (1 - _LEVEL) / (n_classes - 1))
    least = np.minimum(_POINT, _PART * np.minimum(share, 1 - share))
    return (np.abs(gap) > reach * se) & (np.abs(gap) > least)


@dataclass(frozen=True)
class _ClassSums(Sum):
    """Sums over rows: their weight and, for each class, the weight of its rows, its probability less its rows, and variances.

    ``spread`` is the variance of the second by its squares, and ``expected`` that of labels drawn from the probabilities.
    """

    weight: float
    of_class: HostArray
    gaps: HostArray
    spread: HostArray
    expected: HostArray


def _sum_classes(map_: Map, batch: Batch) -> _ClassSums:
    """Sum over one batch."""
    p, labels = (arrays.on_host(values) for values in (map_.probabilities(batch.logits), batch.labels))
    w, n_classes = np.asarray(arrays.on_host(batch.weights), dtype=np.float64), p.shape[1]
    is_one = bool((w == w[0]).all())  # then sums over rows take a third of the time
    of_class = np.bincount(labels, w, n_classes)
    first = w[0] * np.einsum("ij->j", p, dtype=np.float64) if is_one else w @ p
    weighted = p if is_one else w[:, None] * p
    squares = (w[0] ** 2 if is_one else 1.0) * np.einsum("ij,ij->j", weighted, weighted, dtype=np.float64)
    w2 = w * w
    of_rows = np.bincount(labels, w2 * (1 - 2 * p[np.arange(len(p)), labels]), n_classes)
    single = w[0] * first if is_one else w2 @ p
    return _ClassSums(float(w.sum()), of_class, first - of_class, squares + of_rows, single - squares)


def with_prevalence(probabilities: Any, new: Any, old: Any, *, classes: Classes = None) -> Array:
    """Probabilities for other class frequencies: each is multiplied by new/old, and each row divided by its sum.

    For calibrated probabilities that no fitted calibrator gives; a fitted one has `with_prevalence` and knows ``old`` itself.

    Parameters
    ----------
    probabilities : array of shape (n_samples, n_classes), (..., n_classes) or (n_samples,)
        Of any array library; flat for that of the second of two classes.
    new, old : float, dict or array of shape (n_classes,)
        The share of each class where probabilities will be used, and where they are right: a dictionary by label, an array in
        the order of the columns, or one number for the second of two classes. Each sums to 1 without zeros. For a model that
        was not calibrated, ``old`` is what its training showed it: the shares after over- or undersampling.
    classes : sequence, optional
        The label of each column, for dictionaries; by default its number.

    Returns
    -------
    array
        Of the shape, library and dtype of ``probabilities``.

    Examples
    --------
    >>> import nishimori
    >>> nishimori.with_prevalence([0.5, 0.9], new=0.01, old=0.5).round(4)
    array([0.01  , 0.0833])
    """
    passed = scores(
        probabilities, input="probabilities", name="probabilities", remedy="If these are logits, take their softmax."
    )
    labels = class_labels(classes, passed.n_classes)
    after, before = (checked_prevalence(value, labels, name) for value, name in ((new, "new"), (old, "old")))
    ratios = after / before
    table = arrays.in_double(passed.table())
    weighted = table * arrays.on_device_of(ratios / ratios.max(), table)
    changed = weighted / arrays.row_sum(weighted)
    shown = changed[:, 1] if passed.is_binary_score else changed
    return passed.restore_shape(arrays.like(shown, passed.array))


def class_off(data: Rows, map_: Map) -> dict[str, float] | None:
    """The class with the largest difference between mean probability and share, in standard errors; None if none differs.

    Maps of the user's own, and those that need groups, are not looked at.
    """
    if map_.needs_groups or not is_built_in(innermost(map_)):
        return None
    n_numbers = max(_LOOKED_AT, int(_PART_LOOKED_AT * data.n_classes * (data.n_rows or 0)))
    rows = data.kept  # more than a sample of what is read piece by piece
    if rows is None:
        rows = data.sample(max(1, min(n_numbers, _MOST_LOOKED_AT) // data.n_classes))
    if rows is None:
        return None
    sums = rows.gather(partial(_sum_classes, map_))
    # A class without a sample has few squares, and one that is sure and wrong little of what was expected.
    variances = np.maximum(np.maximum(sums.spread, sums.expected), 0.0)
    means, shares, ses = (values / sums.weight for values in (sums.gaps, sums.of_class, np.sqrt(variances)))
    off = is_off(means, ses, shares, data.n_classes)
    if not off.any():
        return None
    worst = int(np.argmax(np.where(off, np.abs(means) / np.maximum(ses, np.finfo(float).tiny), 0.0)))
    return {"place": worst, "mean": float(shares[worst] + means[worst]), "share": float(shares[worst])}


def shares(weights: HostArray | None) -> HostArray | None:
    """The share of each class, from the weights of their rows."""
    return None if weights is None else weights / weights.sum()


def bias(new: Any, old: HostArray, classes: Sequence[Any] | HostArray) -> tuple[HostArray, HostArray]:
    """The numbers to add to calibrated logits, and the ``new`` frequencies as an array; checks them against ``old``."""
    checked = checked_prevalence(new, classes)
    if (without := np.flatnonzero(old == 0)).size:
        raise InputError(
            f"The calibration data have no sample of {_names(classes, without)}: nothing is known about how probable it is. "
            "Calibrate with samples of all classes."
        )
    return np.log(checked) - np.log(old), checked


def checked_prevalence(value: Any, classes: Sequence[Any] | HostArray, name: str = "new") -> HostArray:
    """One frequency per class, from a number for the second of two classes, a dictionary by label, or a list."""
    labels = list(classes.tolist() if isinstance(classes, np.ndarray) else classes)
    if isinstance(value, Mapping):
        numbers = _by_label(value, labels, name)
    elif isinstance(value, Real) or np.ndim(value) == 0:
        if len(labels) != 2:
            raise InputError(
                name,
                f"have one number for each of {len(labels)} classes",
                got=f"{value!r:.60}",
                remedy="A single number is for the second of two classes.",
            )
        (second,) = _plain([value], name)
        if not 0 < second < 1:
            raise InputError(name, "be between 0 and 1", got=f"{second:g}", remedy=_SMALL_SHARE)
        numbers = np.array([1 - second, second])
    else:
        numbers = _plain(value, name)
        if numbers.shape != (len(labels),):
            raise InputError(name, f"have one number for each of {len(labels)} classes", got=f"shape {numbers.shape}")
    if (bad := np.flatnonzero(~(numbers > 0))).size:
        raise InputError(
            name,
            "be above 0 for each class",
            got=f"{numbers[bad[0]]:g} for {_names(labels, bad[:1])}",
            remedy=_SMALL_SHARE,
        )
    if abs(float(numbers.sum()) - 1) > _SUM:
        raise InputError(name, "sum to 1 over the classes", got=f"{float(numbers.sum()):.6g}", remedy="Divide by the sum.")
    return numbers / numbers.sum()


def _by_label(value: Mapping[Any, Any], labels: list[Any], name: str) -> HostArray:
    place_of = {str(label): place for place, label in enumerate(labels)}
    if unplace_of := [label for label in value if str(label) not in place_of]:
        raise InputError(
            name, "name classes of the calibrator", got=join_names(unplace_of), remedy=f"They are {join_names(labels)}."
        )
    places = [place_of[str(label)] for label in value]
    if missing := set(range(len(labels))) - set(places):
        raise InputError(name, "have a share for each class", got=f"none for {_names(labels, sorted(missing))}")
    numbers = np.empty(len(labels))
    numbers[places] = _plain(list(value.values()), name)
    return numbers


def _plain(value: Any, name: str) -> HostArray:
    try:
        numbers = np.array(arrays.on_host(value) if arrays.is_array(value) else value, dtype=np.float64)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if not np.isfinite(numbers).all():
        raise InputError(name, "hold numbers", got=f"{value!r:.60}")
    return numbers


def _names(classes: Any, places: Any) -> str:
    shown = [classes[place] for place in list(places)]
    return f"class {shown[0]}" if len(shown) == 1 else f"the classes {join_names(shown)}"


def refuse_off(off: Mapping[str, float] | None, classes: Sequence[Any] | HostArray, method: str) -> None:
    """Refuse probabilities with means that differ from the old frequencies, as can happen after one temperature."""
    if off is None:
        return
    label = classes[int(off["place"])]
    others = [repr(name) for name in ("bias", "platt", "best") if name != method and (name != "platt" or len(classes) == 2)]
    raise InputError(
        f"On the calibration data the mean probability of class {label} is {100 * off['mean']:.3g} %, but its share of the "
        f"samples is {100 * off['share']:.3g} %: probabilities for other frequencies follow only from those that are right for "
        f"these. Calibrate with {enumeration(others, 'or')}, which can shift each class."
    )
