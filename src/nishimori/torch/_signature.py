"""The signature of a wrapped network, which exporters and trainers read to know which arguments a wrapper takes."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from nishimori.torch._batches import LABELS


class _Bound(partial[Any]):
    """A bound method of a wrapper, with the signature of the wrapped network, which is read only on request."""

    @property
    def __signature__(self) -> inspect.Signature:
        try:
            of_model = inspect.signature(_wrapped(self.args[0]).forward)
        except (TypeError, ValueError):  # for example TorchScript read from a file
            own = inspect.signature(self.func.__get__(self.args[0]))
            return own.replace(parameters=[parameter for name, parameter in own.parameters.items() if name != LABELS])
        if not getattr(self.args[0], "needs_groups", False):
            return of_model
        parameters = list(of_model.parameters.values())
        takes_more = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
        groups = inspect.Parameter("groups", inspect.Parameter.KEYWORD_ONLY)
        parameters.insert(len(parameters) - takes_more, groups)
        return of_model.replace(parameters=parameters)


class signature_of_model:  # noqa: N801 - a decorator
    """Decorator of a wrapper's ``forward``, which then has the signature of the wrapped network.

    The wrapper has the network as ``model``, or several that take the same arguments as ``networks``. This is not a property,
    because hooks must be able to set another ``forward`` on the instance. The class itself says that ``labels`` can be passed:
    `Trainer` of transformers asks the class which arguments are labels, and computes no loss without any.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        of_function = inspect.signature(function)
        *others, rest = of_function.parameters.values()
        labels = inspect.Parameter(LABELS, inspect.Parameter.KEYWORD_ONLY, default=None)
        function.__dict__["__signature__"] = of_function.replace(parameters=[*others, labels, rest])

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.function
        if torch.compiler.is_dynamo_compiling():  # which would look up a bound method here again, in an infinite loop
            return partial(self.function, instance)
        return _Bound(self.function, instance)


def _wrapped(wrapper: Any) -> Any:
    """The network, or one of several, that a wrapper passes its arguments to."""
    network = wrapper.networks[0] if "networks" in wrapper._modules else wrapper.model
    # The ``forward`` of an adapter of peft may take anything.
    return network.get_base_model() if hasattr(network, "get_base_model") else network
