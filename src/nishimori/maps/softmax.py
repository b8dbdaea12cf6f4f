"""Probabilities and their logarithms from drops: logits minus the largest of their row, so that no exponential overflows."""

from nishimori._support.arrays import Array, namespace, row_max, row_sum


def softmax_of_drops(drops: Array) -> Array:
    """The softmax of each row; 0 for masked classes."""
    weights = namespace(drops).exp(drops)
    return weights / row_sum(weights)


def log_softmax_of_drops(drops: Array) -> Array:
    """The logarithm of the softmax of each row, exact also where that rounds to 0 or 1; -inf for masked classes."""
    xp = namespace(drops)
    return drops - xp.log(row_sum(xp.exp(drops)))


def log_softmax(logits: Array) -> Array:
    """The logarithm of the softmax of each row of logits; -inf for masked classes."""
    return log_softmax_of_drops(logits - row_max(logits))  # the difference is exact, whatever constant a row has
