"""Methods of a wrapped network that are called through its wrapper: which of them may be, and why.

Such a method runs on the network, which does not know the map of the wrapper, so its logits would not be calibrated. Whether
a method computes logits cannot be seen from outside. So a call is an error unless the table below says that it is safe, or the
map changes nothing, as after folding. All attributes that are not methods can be read.
"""

import copy
from collections.abc import Callable, Mapping
from functools import partial, wraps
from math import isclose
from typing import Any, NamedTuple

import torch
from torch import nn

from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import temperature_of
from nishimori.torch._change import Change, Division, change_of
from nishimori.torch._folding import fold_into
from nishimori.torch._head import Head, final_layer
from nishimori.torch._wrappers import check_alone

# A temperature is stored in float32, and users may pass it with all digits that it was found with.
_SAME_TEMPERATURE = 1e-6


class _Call(NamedTuple):
    """A method that is called through the wrapper, the network that has it, and the map that the network does not know."""

    name: str
    method: Callable[..., Any]
    model: nn.Module
    map_: Map


def pass_attribute(name: str, value: Any, model: nn.Module, current_map: Callable[[], Map]) -> Any:
    """The attribute ``name`` of ``model`` as its wrapper gives it: methods check each call, everything else is ``value``."""
    choose = _EXEMPT.get(name, _refuse)
    if choose is _call_as_it_is or not _is_method(value):
        return value

    @wraps(value)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        map_ = current_map()
        chosen = value if temperature_of(map_) == 1 else choose(_Call(name, value, model, map_), kwargs)
        return chosen(*args, **kwargs)

    return wrapper


def _is_method(value: Any) -> bool:
    """Whether this is bound to a module, also inside decorators and partial functions, or was compiled by TorchScript."""
    while callable(value):
        if isinstance(value, torch.ScriptMethod) or isinstance(getattr(value, "__self__", None), nn.Module):
            return True
        value = value.func if isinstance(value, partial) else getattr(value, "__wrapped__", None)
    return False


def _refuse(call: _Call, kwargs: Mapping[str, Any], instead: str = "") -> Callable[..., Any]:  # noqa: ARG001 - as the others
    or_fold = ", or `calibrated.fold()` first, which moves the calibration into the weights" if _is_foldable(call.map_) else ""
    raise InputError(
        f"`{call.name}` is a method of the wrapped network, which does not use {call.map_.in_words}. {instead}Call "
        f"`calibrated.model.{call.name}(...)` to use the network without calibration{or_fold}."
    )


def _is_foldable(map_: Map) -> bool:
    try:
        change_of(map_)
    except InputError:
        return False
    return True


def _call_as_it_is(call: _Call, kwargs: Mapping[str, Any]) -> Callable[..., Any]:  # noqa: ARG001 - as the others
    return call.method


def _call_where_it_divides(call: _Call, kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """``generate`` of Hugging Face, where the caller asks for the division by T, which it does only where it samples."""
    T, given = temperature_of(call.map_), kwargs.get("temperature")
    if T is None:
        return _refuse(call, kwargs)
    if isinstance(given, float) and kwargs.get("do_sample") and isclose(given, T, rel_tol=_SAME_TEMPERATURE):
        return call.method
    return _refuse(call, kwargs, "To sample, pass `do_sample=True, temperature=float(calibrated.temperature)`. ")


def _call_folded_copy(call: _Call, kwargs: Mapping[str, Any]) -> Callable[..., Any]:
    """The method of a copy of the network with the map folded in, so that it writes calibrated weights."""
    change = _change(call)
    if kwargs.get("state_dict") is not None:
        raise InputError(
            "state_dict",
            f"be left out of `{call.name}`",
            got=f"one: its weights do not contain {call.map_.in_words}",
            remedy="Call `calibrated.fold()` first, and pass the state dict of the folded network.",
        )
    method: Callable[..., Any] = getattr(_folded_copy(call, change), call.name)
    return method


def _change(call: _Call) -> Change:
    try:
        return change_of(call.map_)
    except InputError as error:
        raise InputError(
            call.name,
            f"write calibrated weights, but {call.map_.in_words} cannot be folded into them",
            remedy=f"{error} Save `calibrated.state_dict()`, which contains the map.",
        ) from error


def _folded_copy(call: _Call, change: Change) -> nn.Module:
    try:
        copied = copy.deepcopy(call.model)
        head = final_layer(copied)
        check_alone(copied, call.map_)
        _check_bias(head, change)
        fold_into(copied, head, change)
    except Exception as error:
        contained = "T" if isinstance(change, Division) else "the map"
        raise InputError(
            call.name,
            (
                f"write calibrated weights, but {call.map_.in_words} could not be folded into a copy of the network: "
                f"{str(error).rstrip('.')}"
            ),
            remedy=(
                "Call `calibrated.fold(layer, probe=x)` with the layer that computes the logits and some inputs x, "
                f"then `{call.name}`; or save `calibrated.state_dict()`, which contains {contained}."
            ),
        ) from error
    return copied


def _check_bias(head: Head, change: Change) -> None:
    """Refuse to write a bias that the network did not have: whoever loads the file could ignore it without an error."""
    if change.adds_bias(head.layer):
        raise InputError(f"{head} has no bias, so the file would contain a tensor that the class of the network does not know")


class _Exemption(NamedTuple):
    """Methods that may be called through the wrapper: what is called in their place, whose they are, and why it is safe."""

    choose: Callable[[_Call, Mapping[str, Any]], Callable[..., Any]]
    owner: str
    reason: str
    names: str


# Methods of `nn.Module` (`to`, `train`, `state_dict`, `named_modules`, `register_...`) are not here: the wrapper has its own.
# Class methods (`from_pretrained`, `can_generate`) are not either: they belong to no network.
# Left out on purpose are methods after which the network computes other logits, so that its map no longer fits
# (`resize_token_embeddings`, `reset_classifier`, `load_adapter`, `init_weights`), and hooks, which may do anything.
_EXEMPTIONS = (
    _Exemption(
        _call_folded_copy,
        "transformers, huggingface_hub",
        "they write the weights, so they get weights that contain the map",
        "save_pretrained push_to_hub",
    ),
    _Exemption(
        _call_folded_copy,
        "TorchScript, sentence-transformers",
        "they write the weights",
        "save save_to_buffer",
    ),
    _Exemption(
        _call_folded_copy,
        "Lightning",
        "they write the weights and the graph",
        "to_onnx to_torchscript to_tensorrt",
    ),
    _Exemption(
        _call_folded_copy,
        "NeMo",
        "they write the weights",
        "save_to export",
    ),
    _Exemption(
        _call_where_it_divides,
        "transformers",
        "it divides the logits by its own `temperature`",
        "generate",
    ),
    _Exemption(
        _call_as_it_is,
        "transformers",
        "they return parts of the network, as its attributes do",
        "get_input_embeddings get_output_embeddings get_position_embeddings get_encoder get_decoder get_parameter_or_buffer",
    ),
    _Exemption(
        _call_as_it_is,
        "transformers",
        "they count, or write a text about the network",
        "num_parameters get_memory_footprint floating_point_ops add_model_tags",
    ),
    _Exemption(
        _call_as_it_is,
        "transformers",
        "they choose how the network computes, which does not change its logits",
        "activation_checkpointing_enable activation_checkpointing_disable gradient_checkpointing_enable "
        "gradient_checkpointing_disable enable_input_require_grads disable_input_require_grads set_attn_implementation "
        "set_experts_implementation tie_weights",
    ),
    _Exemption(
        _call_as_it_is,
        "transformers",
        "they compute from what they are given: the inputs of a step, or the scores that `generate` returned",
        "prepare_inputs_for_generation compute_transition_scores",
    ),
    _Exemption(
        _call_as_it_is,
        "huggingface_hub",
        "it writes a text",
        "generate_model_card",
    ),
    _Exemption(
        _call_as_it_is,
        "PEFT",
        "they return the network without its wrapper, or count",
        "get_base_model get_nb_trainable_parameters print_trainable_parameters",
    ),
    _Exemption(
        _call_as_it_is,
        "timm",
        "they return or set up parts of the network, or compute what its last layer is given",
        "get_classifier set_grad_checkpointing group_matcher no_weight_decay forward_features",
    ),
    _Exemption(
        _call_as_it_is,
        "Lightning",
        "they log or print what they are given, or keep the arguments of `__init__`",
        "log log_dict print save_hyperparameters",
    ),
    _Exemption(
        _call_as_it_is,
        "Lightning",
        "they choose what is trained, and how",
        "freeze unfreeze configure_optimizers configure_callbacks optimizers lr_schedulers",
    ),
    _Exemption(
        _call_as_it_is,
        "Lightning",
        "they give or move data",
        "train_dataloader val_dataloader test_dataloader predict_dataloader transfer_batch_to_device all_gather",
    ),
)

_EXEMPT = {name: each.choose for each in _EXEMPTIONS for name in each.names.split()}
