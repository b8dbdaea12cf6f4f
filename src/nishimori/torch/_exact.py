"""Buffers that keep float32 when the weights around them are converted to half precision.

The eight bits of bfloat16 would change every logit by up to half a percent if a temperature were rounded to them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn


class ExactBuffers(nn.Module):
    """A module whose own floating-point buffers stay in float32. They are moved, saved and loaded as usual."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # Restore the old values, because a cast to half precision would round them. A meta tensor has no values.
        for name, old in before.items():
            after = self._buffers[name]
            if old is not None and after is not None and old.is_floating_point():
                self._buffers[name] = after.to(torch.float32) if old.is_meta else old.to(after.device)
        return self

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        for name, each in self._buffers.items():  # `assign=True` takes over the dtype of the file
            if each is not None and each.is_floating_point():
                self._buffers[name] = each.to(torch.float32)
