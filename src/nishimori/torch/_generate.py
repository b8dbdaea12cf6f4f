"""Calibrated logits inside ``generate`` of Hugging Face's models, which calls the network and not a wrapper around it."""

from torch import Tensor

from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of
from nishimori.torch._map_modules import module_for


class CalibratedLogits:
    """What ``generate`` calls for the scores of each next token: a logits processor of transformers, without importing it."""

    def __init__(self, map_: Map) -> None:
        if map_.needs_groups:
            must = "not have a temperature per group: `generate` does not say which group a sequence is of"
            raise InputError("temperature", must, remedy="Make one processor per group.")
        self.map = map_
        T = temperature_of(map_)
        self._temperature = 1.0 if T is None else T
        self._module = module_for(map_, None) if T is None else None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:  # noqa: ARG002 - as transformers calls it
        """The calibrated scores of the next tokens, of shape (sequences, vocabulary)."""
        logits = scores.float()
        if self._module is None:
            return (logits / self._temperature).to(scores.dtype)
        mapped: Tensor = self._module.to(scores.device)(logits, None)
        return mapped.to(scores.dtype)

    def __repr__(self) -> str:
        return f"CalibratedLogits({self.map!r})"
