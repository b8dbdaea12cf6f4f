"""The signature of a wrapped network, for the ``forward`` of its wrapper.

Other tools read the names of a network's inputs from its signature: `torch.export` for dynamic shapes, ONNX for the inputs of
the file, trainers for the columns to keep.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch


class _Bound(partial[Any]):
    """A bound method of a wrapper, with the signature of the wrapped network, which is read only on request."""

    @property
    def __signature__(self) -> inspect.Signature:
        try:
            return _with_groups(self.args[0], inspect.signature(self.args[0].model.forward))
        except (TypeError, ValueError):  # for example TorchScript read from a file
            return inspect.signature(self.func.__get__(self.args[0]))


def _with_groups(wrapper: Any, of_model: inspect.Signature) -> inspect.Signature:
    """The signature of the network, with the argument ``groups`` where the wrapper takes it."""
    if not getattr(wrapper, "needs_groups", False):
        return of_model
    own = inspect.Parameter("groups", inspect.Parameter.KEYWORD_ONLY)
    before = [each for each in of_model.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return of_model.replace(parameters=[*before, own, *list(of_model.parameters.values())[len(before) :]])


class signature_of_model:  # noqa: N801 - a decorator
    """Decorator of a wrapper's ``forward``, which then has the signature of the wrapped network.

    The wrapper must have the network as ``model``. This is not a property, because hooks must be able to set another
    ``forward`` on the instance.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.function
        if torch.compiler.is_dynamo_compiling():  # which would look up a bound method here again, in an infinite loop
            return partial(self.function, instance)
        return _Bound(self.function, instance)
