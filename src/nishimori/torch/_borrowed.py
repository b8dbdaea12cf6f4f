"""Methods of a wrapped network that do not know the temperature of its wrapper.

They can be called through the wrapper, but they run on the network alone. Those that write weights are given a copy of the
network with T folded in. Those that compute predictions give a warning. If T is 1, as after folding, none of this is needed.
"""

import copy
import re
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from torch import nn

from nishimori.errors import InputError
from nishimori.torch._division import divide
from nishimori.torch._head import final_layer

# Words in the names of methods that write a network to files: `save_pretrained`, `push_to_hub`, `save_model`, `export`,
# `to_onnx`, `to_torchscript`, ... of transformers, huggingface_hub, Lightning, TorchScript and others.
_WRITING = {"save", "export", "push", "upload", "publish", "dump", "serialize"}
_WRITING |= {"onnx", "torchscript", "tensorrt", "safetensors", "gguf", "hub"}

# First words in the names of methods that compute with the logits, in transformers, Lightning and others.
_PREDICTING = {"generate", "predict"}


def borrowed(name: str, method: Any, model: nn.Module, temperature: Callable[[], float]) -> Any:
    """``method``, the attribute ``name`` of ``model``, as it may be used where logits are divided by ``temperature()``."""
    if not callable(method) or isinstance(method, nn.Module | type):
        return method
    words = [word.lower() for word in re.findall(r"[A-Z]*[a-z0-9]+|[A-Z]+", name)]
    if _WRITING.intersection(words):
        return _writing(name, method, model, temperature)
    if _PREDICTING.intersection(words[:1]) or name == "forward_head":  # the latter is timm's
        return _predicting(name, method, temperature)
    return method


def _writing(name: str, method: Callable[..., Any], model: nn.Module, temperature: Callable[[], float]) -> Callable[..., Any]:
    @wraps(method)
    def written(*args: Any, **kwargs: Any) -> Any:
        T = temperature()
        if T == 1:
            return method(*args, **kwargs)
        if kwargs.get("state_dict") is not None:
            raise InputError(
                f"`state_dict` must be left out of `{name}`, got one: its weights do not contain T = {T:.4g}. Call "
                "`calibrated.fold()` first, and pass the state dict of the folded network."
            )
        return getattr(_folded_copy(name, model, T), name)(*args, **kwargs)

    return written


def _folded_copy(name: str, model: nn.Module, T: float) -> nn.Module:
    try:
        copied = copy.deepcopy(model)
        divide(copied, final_layer(copied), T)
    except Exception as error:
        raise InputError(
            f"`{name}` must write calibrated weights, but T = {T:.4g} could not be folded into a copy of the network: "
            f"{str(error).rstrip('.')}. Call `calibrated.fold(layer, probe=x)` with the layer that computes the logits and "
            f"some inputs x, then `{name}`; or save `calibrated.state_dict()`, which contains T."
        ) from error
    return copied


def _predicting(name: str, method: Callable[..., Any], temperature: Callable[[], float]) -> Callable[..., Any]:
    @wraps(method)
    def predicted(*args: Any, **kwargs: Any) -> Any:
        T = temperature()
        if T != 1:
            warnings.warn(
                f"`{name}` is a method of the wrapped network, which does not divide its logits by T = {T:.4g}. Call "
                "`calibrated.fold()` first if it should.",
                stacklevel=2,
            )
        return method(*args, **kwargs)

    return predicted
