"""Several members, one prediction: the logits of an ensemble, or of dropout masks, become the log of their mean softmax.

Pooling comes first and calibration after it (Rahaman and Thiery, arXiv:2007.08792): the average of several members is less
confident than each of them, so a temperature that was right for one member is wrong for the average. Such a temperature belongs
to the number of members.

Members are read a block of rows at a time, in float64. Where a probability underflows in every member, logarithms are added
instead of probabilities: it would become a masked class.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from nishimori._rows.scores import LARGEST, SLACK, Input, Members, Scores, scores_of
from nishimori._support import arrays
from nishimori._support.arrays import Array, namespace
from nishimori._support.numbers import is_whole
from nishimori.errors import InputError

# Numbers of a member that are averaged at a time on a CPU: they take 256 kB in float64, which stays in the cache.
_NUMBERS = 2**15

# Smaller sums of probabilities may have lost digits, because float64 has fewer of them below 2e-308.
_TINY = 1e-290


def scores_of_members(
    array: Array, axis: Any, *, class_axis: int = -1, input: Input, name: str, floor: float | None = None, remedy: str = ""
) -> Scores:
    """The pooled scores of members along a dimension of an array, which keep the scores of each as ``unpooled``."""
    first = _members_first(array, axis, class_axis, name)
    if not first.shape[0]:
        raise InputError(name, "have at least one member", got=f"shape {tuple(array.shape)} with `member_axis={axis}`")
    parts = tuple(
        scores_of(first[member, ...], input=input, name=name, floor=floor, remedy=remedy)
        for member in range(int(first.shape[0]))
    )
    return replace(parts[0], array=pooled(parts), members=Members(len(parts), int(axis)), unpooled=parts)


def _members_first(array: Array, axis: Any, class_axis: int, name: str) -> Array:
    """A view of the array with the members in the first dimension."""
    n_dimensions = len(array.shape)
    if not is_whole(axis) or not -n_dimensions <= axis < n_dimensions or n_dimensions < 2:
        must = f"be the number of a dimension of `{name}`, which has the shape {tuple(array.shape)}"
        raise InputError("member_axis", must, got=repr(axis))
    members = int(axis) % n_dimensions
    # Of two dimensions the other one holds samples: each number is a binary score.
    if n_dimensions > 2 and members == class_axis % n_dimensions:
        must = f"be another dimension of `{name}` than that of the classes"
        raise InputError("member_axis", must, got=repr(axis), remedy="Pass `class_axis` if the classes are not last.")
    others = [dimension for dimension in range(n_dimensions) if dimension != members]
    if n_dimensions > 2:
        others.remove(class_axis % n_dimensions)
        others.append(class_axis % n_dimensions)
    return namespace(array).permute_dims(array, (members, *others))


def pooled(parts: Sequence[Scores]) -> Array:
    """The log of the mean softmax of the members, or the mean of their probabilities: one array in their library.

    Its precision is that of the members, but logits have at least that of float32. A row that a member has wrong stays as that
    member has it, because values are checked when the rows are first read, where weights of zero are known.
    """
    first = parts[0]
    array, is_single = first.array, arrays.dtype_name(first.array) in ("float32", "float16", "bfloat16")
    result: Array = None
    done = []
    for rows in first.blocks(max(1, _NUMBERS // first.n_classes)):
        values = [arrays.in_double(arrays.numpy_view(part.at(rows))) for part in parts]
        with np.errstate(invalid="ignore", over="ignore"):  # in rows that are refused later, or not looked at
            block = _mean_of_logits(values) if first.input == "logits" else _mean(values, first.slack)
            block = namespace(block).astype(block, namespace(block).float32) if is_single else block
        if not arrays.is_writable(block):
            done.append(block)
            continue
        result = arrays.with_rows(block, first.n_samples) if result is None else result
        result[rows, ...] = block
    if done:
        result = namespace(done[0]).concat(done)
    if first.input == "probabilities":
        return arrays.like(result, array)
    return arrays.on_device_of(result, array) if type(result) is np.ndarray else result


def _mean_of_logits(members: Sequence[Array]) -> Array:
    """The log of the mean softmax of some rows. A class that some members mask has the mean of the other members."""
    if all(arrays.is_within(values, LARGEST) for values in members):
        xp, total = namespace(members[0]), sum(_softmax(values) for values in members)
        if float(xp.min(total)) > _TINY:
            log_p = xp.log(total / len(members))
            return log_p[:, 1] - log_p[:, 0] if len(members[0].shape) == 1 else log_p
    return _mean_of_logarithms(members)


def _softmax(values: Array) -> Array:
    """The probabilities of each row."""
    table = _both_columns(values)
    weights = namespace(table).exp(table - arrays.row_max(table))
    return weights / arrays.row_sum(weights)


def _both_columns(values: Array) -> Array:
    """One column per class, also where one score stands for two."""
    xp = namespace(values)
    return xp.stack([xp.zeros_like(values), values], axis=1) if len(values.shape) == 1 else values


def _mean_of_logarithms(members: Sequence[Array]) -> Array:
    """The same for any rows, masked, wrong, or with probabilities that float64 cannot hold; it takes several times as long."""
    total: Any = None  # of the members so far, as are all others
    for values in members:
        xp, is_flat = namespace(values), len(values.shape) == 1
        table = _both_columns(values)
        is_live = table > -inf
        live = xp.astype(is_live, xp.float64)
        is_right = xp.all((xp.abs(table) <= LARGEST) | (~is_live & (not is_flat)), axis=1) & xp.any(is_live, axis=1)
        drops = table - arrays.row_max(table)
        log_p = drops - xp.log(arrays.row_sum(xp.exp(drops)))
        if total is None:
            total, n_live, wrong, right = log_p, live, values, is_right
        else:
            total, n_live = xp.logaddexp(total, log_p), n_live + live
            wrong, right = xp.where(_per_row(is_right, values), wrong, values), right & is_right
    pooled_rows = total - xp.log(xp.where(n_live > 0, n_live, xp.ones_like(n_live)))
    return xp.where(_per_row(right, wrong), pooled_rows[:, 1] - pooled_rows[:, 0] if is_flat else pooled_rows, wrong)


def _mean(members: Sequence[Array], slack: float) -> Array:
    """The mean of the probabilities of some rows."""
    total: Any = None
    for values in members:
        xp, is_flat = namespace(values), len(values.shape) == 1
        is_inside = (values >= 0) & (values <= (1 if is_flat else 1 + SLACK))
        is_right = is_inside if is_flat else xp.all(is_inside, axis=1) & (xp.abs(xp.sum(values, axis=1) - 1) <= slack)
        if total is None:
            total, wrong, right = values, values, is_right
        else:
            total = total + values
            wrong, right = xp.where(_per_row(is_right, values), wrong, values), right & is_right
    return xp.where(_per_row(right, wrong), total / len(members), wrong)


def _per_row(flags: Array, rows: Array) -> Array:
    """One flag per row, in a shape that goes with the rows."""
    return flags if len(rows.shape) == 1 else flags[:, None]
