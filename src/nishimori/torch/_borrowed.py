"""Methods of a wrapped network that do not know the map of its wrapper.

They can be called through the wrapper, but they run on the network alone. Those that write weights are given a copy of the
network with the map folded in. Those that compute predictions give a warning. If the map is T = 1, as after folding, none of
this is needed.
"""

import copy
import re
import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from math import isclose
from typing import Any

from torch import nn

from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of
from nishimori.torch._change import Change, Division, change_of
from nishimori.torch._folding import fold_into
from nishimori.torch._head import Head, final_layer
from nishimori.torch._wrappers import check_alone

# Words in the names of methods that write a network to files: `save_pretrained`, `push_to_hub`, `save_model`, `export`,
# `to_onnx`, `to_torchscript`, ... of transformers, huggingface_hub, Lightning, TorchScript and others.
_WRITING = {"save", "export", "push", "upload", "publish", "dump", "serialize"}
_WRITING |= {"onnx", "torchscript", "tensorrt", "safetensors", "gguf", "hub"}

# A temperature is stored in float32, and users may pass it with all digits that it was found with.
_SAME_TEMPERATURE = 1e-6

# First words in the names of methods that compute with the logits, in transformers, Lightning and others.
_PREDICTING = {"generate", "predict"}


def borrowed(name: str, method: Any, model: nn.Module, current: Callable[[], Map]) -> Any:
    """``method``, the attribute ``name`` of ``model``, as it may be used where ``current()`` is applied to the logits."""
    if not callable(method) or isinstance(method, nn.Module | type):
        return method
    words = [word.lower() for word in re.findall(r"[A-Z]*[a-z0-9]+|[A-Z]+", name)]
    if _WRITING.intersection(words):
        return _writing(name, method, model, current)
    if _PREDICTING.intersection(words[:1]) or name == "forward_head":  # the latter is timm's
        return _predicting(name, method, current)
    return method


def _writing(name: str, method: Callable[..., Any], model: nn.Module, current: Callable[[], Map]) -> Callable[..., Any]:
    @wraps(method)
    def written(*args: Any, **kwargs: Any) -> Any:
        map_ = current()
        if temperature_of(map_) == 1:
            return method(*args, **kwargs)
        change = _change(name, map_)
        if kwargs.get("state_dict") is not None:
            raise InputError(
                f"`state_dict` must be left out of `{name}`, got one: its weights do not contain {map_.in_words}. Call "
                "`calibrated.fold()` first, and pass the state dict of the folded network."
            )
        return getattr(_folded_copy(name, model, change, map_), name)(*args, **kwargs)

    return written


def _change(name: str, map_: Map) -> Change:
    try:
        return change_of(map_)
    except InputError as error:
        raise InputError(
            f"`{name}` must write calibrated weights, but {map_.in_words} cannot be folded into them. {error} Save "
            "`calibrated.state_dict()`, which contains the map."
        ) from error


def _folded_copy(name: str, model: nn.Module, change: Change, map_: Map) -> nn.Module:
    try:
        copied = copy.deepcopy(model)
        head = final_layer(copied)
        check_alone(copied, map_)
        _check_bias(head, change)
        fold_into(copied, head, change)
    except Exception as error:
        contained = "T" if isinstance(change, Division) else "the map"
        raise InputError(
            f"`{name}` must write calibrated weights, but {map_.in_words} could not be folded into a copy of the network: "
            f"{str(error).rstrip('.')}. Call `calibrated.fold(layer, probe=x)` with the layer that computes the logits and "
            f"some inputs x, then `{name}`; or save `calibrated.state_dict()`, which contains {contained}."
        ) from error
    return copied


def _check_bias(head: Head, change: Change) -> None:
    """Refuse to write a bias that the network did not have: whoever loads the file could ignore it without an error."""
    if change.adds_bias(head.layer):
        raise InputError(f"{head} has no bias, so the file would contain a tensor that the class of the network does not know")


def _predicting(name: str, method: Callable[..., Any], current: Callable[[], Map]) -> Callable[..., Any]:
    @wraps(method)
    def predicted(*args: Any, **kwargs: Any) -> Any:
        map_ = current()
        T = temperature_of(map_)
        if T is not None and T != 1 and not _divides(kwargs, T):
            remedy = ""
            if name == "generate":
                remedy = " To sample from a language model of Hugging Face, pass `temperature=float(calibrated.temperature)`."
            warnings.warn(
                f"`{name}` is a method of the wrapped network, which does not divide its logits by T = {T:.4g}. Call "
                f"`calibrated.fold()` first if it should.{remedy}",
                stacklevel=2,
            )
        if T is None:
            warnings.warn(
                f"`{name}` is a method of the wrapped network, which does not apply {map_.in_words} to its logits.",
                stacklevel=2,
            )
        return method(*args, **kwargs)

    return predicted


def _divides(kwargs: Mapping[str, Any], T: float) -> bool:
    """Whether the caller asks for the division by T, as ``generate`` of Hugging Face does it where it samples."""
    given = kwargs.get("temperature")
    return isinstance(given, float) and bool(kwargs.get("do_sample")) and isclose(given, T, rel_tol=_SAME_TEMPERATURE)
