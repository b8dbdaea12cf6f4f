"""What a map of somebody's own claims about itself, checked on some rows.

Predictions and accuracy are taken from the logits as they were where a map says that it keeps the predicted classes, so that a
wrong claim would give wrong numbers without a sign of it. The maps of the library keep what they claim by construction.
"""

from typing import Any

import numpy as np

from nishimori._support.arrays import Array, HostArray, on_host
from nishimori.errors import InputError
from nishimori.maps.map import Map, apply_checked, log_softmax

# Enough to meet a class that changes in one row of a hundred, and few enough to cost nothing.
CHECKED_ROWS, _MOST_NUMBERS = 256, 2**18

# Logits that differ by less than this, or by less than this part of the larger one, may change places: a map may compute in
# single precision.
_ROUNDING = 1e-6

# Logits that a message shows of a row.
_SHOWN = 8


def check_claims(map_: Map, logits: Array, mapped: Array) -> None:
    """Refuse a map that claims to keep predictions and does not.

    ``mapped`` is what it makes of ``logits``. Some rows are looked at: they are spread evenly over all, which may be sorted.
    """
    step = -(-int(logits.shape[0]) // _row_limit(int(logits.shape[1])))
    before, after = (on_host(each[:: max(step, 1), :]).astype(np.float64) for each in (logits, mapped))
    if before.shape != after.shape:  # refused where it is used
        return
    rows = np.arange(len(before))
    top, new = before.argmax(axis=1), after.argmax(axis=1)
    with np.errstate(invalid="ignore"):  # the difference of two infinite logits
        changed = _is_above(before, rows, top, new) & _is_above(after, rows, new, top)
    if changed.any():
        place = int(changed.argmax())
        raise InputError(_wrong_claim(map_, before[place], after[place]))


def check_claims_on_random_logits(map_: Map, n_classes: int) -> None:
    """Refuse a map that claims to keep predictions and changes those of fixed random rows, from flat to nearly certain."""
    logits = random_logits(n_classes)
    check_claims(map_, logits, apply_checked(map_, logits))


def random_logits(n_classes: int) -> HostArray:
    """Fixed random rows to try a map on, from flat to nearly certain."""
    rng, n_rows = np.random.default_rng(0), _row_limit(n_classes)
    logits: HostArray = log_softmax(np.geomspace(0.1, 30.0, n_rows)[:, None] * rng.normal(size=(n_rows, n_classes)))
    return logits


def _row_limit(n_classes: int) -> int:
    return max(2, min(CHECKED_ROWS, _MOST_NUMBERS // n_classes))


def _is_above(values: HostArray, rows: HostArray, one: HostArray, other: HostArray) -> Any:
    """Whether the first of two columns of each row is larger than the other by more than rounding."""
    both = values[rows, one], values[rows, other]
    sizes = [np.where(np.isfinite(each), np.abs(each), 0.0) for each in both]
    return both[0] - both[1] > _ROUNDING * np.maximum(1.0, np.maximum(*sizes))


def _wrong_claim(map_: Map, before: HostArray, after: HostArray) -> str:
    name, top, new = type(map_).__name__, int(before.argmax()), int(after.argmax())
    return (
        f"A map of the class {name} claims `keeps_predictions = True`, but it changes the predicted class of a row from {top} "
        f"to {new}: it turns the logits {_row_text(before, top, new)} into {_row_text(after, top, new)}. Set "
        f"`keeps_predictions = False` in the class {name}."
    )


def _row_text(row: HostArray, top: int, new: int) -> str:
    """A row, or those of its two classes if it is long."""
    if len(row) <= _SHOWN:
        return f"[{', '.join(f'{each:.4g}' for each in row)}]"
    return f"{row[top]:.4g} and {row[new]:.4g} of the two classes"
