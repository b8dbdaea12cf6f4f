"""What trainers should report of some rows, by NumPy from the formulas. T is that of a fit to all rows."""

import numpy as np
import reference

import nishimori


def values_of(logits, labels, temperature=1.0):
    """All values of rows whose logits are divided by a temperature first."""
    p = reference.softmax(logits, temperature)
    claimed, right = p.max(axis=1), reference.right(logits, labels)
    return {
        "ece": reference.ece(claimed, right, np.linspace(0, 1, 16)),
        "gap": claimed.mean() - right.mean(),
        "nll": reference.nll(logits, labels, temperature),
        "brier": reference.brier(logits, labels, temperature),
        "confidence": claimed.mean(),
        "accuracy": right.mean(),
        "temperature": fitted(logits / temperature, labels),
    }


def fitted(logits, labels):
    """The temperature of the default method; NaN if none fits."""
    try:
        return nishimori.AdaptiveConsistency(input="logits").fit(logits, labels).temperature_
    except nishimori.errors.NoTemperatureError:
        return np.nan


def logged(logits, labels, prefix, temperature=1.0):
    """Those that trainers log, with their prefix."""
    found = values_of(logits, labels, temperature)
    return {f"{prefix}_{name}": found[name] for name in ("ece", "gap", "temperature")}
