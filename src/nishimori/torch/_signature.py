"""A wrapper's ``forward`` that shows the signature of the network it wraps.

Whoever exports a network or feeds it a table looks there for the names of its inputs: `torch.export` for dynamic shapes,
ONNX for the inputs of the file, trainers for the columns to keep.
"""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch


class _Bound(partial[Any]):
    """A method bound to a wrapper; its signature is looked up only when somebody asks."""

    @property
    def __signature__(self) -> inspect.Signature:
        try:
            return inspect.signature(self.args[0].model.forward)
        except (TypeError, ValueError):  # compiled by TorchScript, say
            return inspect.signature(self.func.__get__(self.args[0]))


class signature_of_model:  # noqa: N801 - a decorator
    """Decorator of ``forward``. Not a property, so that hooks may still put another ``forward`` on the instance."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or torch.compiler.is_dynamo_compiling():  # which traces plain methods, and binds them itself
            return self.function.__get__(instance, owner)
        return _Bound(self.function, instance)
