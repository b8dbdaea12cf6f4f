"""Where the logits are in what a network returns, and the same output with other logits.

A network may return its logits, an object with ``.logits`` or a dict with the key ``"logits"``. Nothing else is guessed at.
"""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from nishimori.errors import InputError


def logits_of(output: Any) -> Tensor:
    """The logits in what a network returned."""
    if isinstance(output, Tensor):
        return output
    logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise InputError(
            "`model` must return a tensor of logits, an object with `.logits` or a dict with the key 'logits', got "
            f"{_described(output)}. Wrap the model in a module whose `forward` returns the logits alone."
        )
    return logits


def with_logits(output: Any, logits: Tensor) -> Any:
    """A copy of what a network returned, of the same kind, with other logits; all else is kept."""
    if isinstance(output, Tensor):
        return logits
    if type(output) is dict:
        return {**output, "logits": logits}
    if isinstance(output, tuple) and hasattr(output, "_replace"):
        return output._replace(logits=logits)
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return dataclasses.replace(output, logits=logits)
    changed = copy.copy(output)
    if isinstance(output, Mapping):
        changed["logits"] = logits
    else:
        changed.logits = logits
    return changed


def _described(output: Any) -> str:
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} with the keys {list(output)}"
    if isinstance(output, tuple | list):
        return f"a {type(output).__name__} of {len(output)}"
    return f"a {type(output).__name__}"
