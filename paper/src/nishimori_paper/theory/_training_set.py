"""Samples x ~ N(0, I/d) with labels +1 and -1: drawn from a teacher, or passed by the user."""

from dataclasses import replace
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from nishimori.errors import InputError
from nishimori_paper.theory._quadrature import Array
from nishimori_paper.theory._teachers import Teacher


class TrainingSet(NamedTuple):
    """Samples ``x``, labels ``y``, the weights w* that labelled them, and the teacher with the norm of these weights."""

    x: Array
    y: Array
    weights: Array
    teacher: Teacher


def draw(teacher: Teacher, alpha: float, d: int, fix_norm: bool, rng: np.random.Generator) -> TrainingSet:
    """Draw weights for a teacher, and αd samples with its labels; ``fix_norm`` scales the weights to |w*|² = ρd."""
    weights = rng.standard_normal(d) * sqrt(teacher.rho)
    if fix_norm:
        weights *= sqrt(d * teacher.rho / (weights @ weights))
    x = rng.standard_normal((round(alpha * d), d)) / sqrt(d)
    y = draw_labels(teacher, x @ weights, rng)
    return TrainingSet(x, y, weights, teacher if fix_norm else replace(teacher, rho=float(weights @ weights) / d))


def draw_labels(teacher: Teacher, scores: Array, rng: np.random.Generator) -> Array:
    """Draw a label, +1 or -1, for each of the scores w*·x."""
    return np.where(rng.random(len(scores)) < teacher.probability(scores / teacher.temperature), 1.0, -1.0)


def samples_and_labels(x: Any, y: Any) -> tuple[Array, Array]:
    """Samples as the rows of ``x`` and their labels ``y``, +1 or -1, as arrays of float64."""
    try:
        samples, labels = (np.asarray(values, dtype=np.float64) for values in (x, y))
    except (TypeError, ValueError) as error:
        raise InputError("`x` and `y`", "be arrays of numbers", got=f"what NumPy cannot convert ({error})") from None
    if samples.ndim != 2 or not samples.size or labels.shape != samples.shape[:1]:
        raise InputError(
            "x",
            "have shape (n_samples, d) and `y` shape (n_samples,), with at least one sample and one column",
            got=f"shapes {samples.shape} and {labels.shape}",
        )
    if not np.isfinite(samples).all():
        raise InputError("x", "be finite", got="NaN or infinity")
    if not (np.abs(labels) == 1).all():
        raise InputError("y", "contain only the labels +1 and -1", got=np.unique(labels)[:5].tolist())
    return samples, labels
