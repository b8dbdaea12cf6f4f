"""The layer whose weights are the scale of the logits: the last linear one.

It is looked for by the names that networks give it, through containers and wrappers. Where two layers could be meant, or
something follows that does not commute with a division, nothing is guessed: the error says what to pass or do instead.
"""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter
from torch.nn.utils.parametrize import is_parametrized

from nishimori.errors import InputError

_LINEAR = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)

# What may follow the last layer: it does nothing in eval mode, or moves and averages entries, which commutes with a division.
_TRANSPARENT = (
    *(nn.Identity, nn.Flatten, nn.Unflatten),
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
)

# What transformers call the scale of a tanh that its language models put after their last layer.
_CAPS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")

# torchvision, timm and transformers call their last layers one of these; `out_proj` is the last layer inside some heads.
_NAMES = ("fc", "classifier", "head", "heads", "lm_head", "linear", "score", "out_proj")

INSTEAD = "use `nishimori.torch.Calibrated(model, T)`, which divides the logits themselves"


class Head(NamedTuple):
    """A layer and what the network calls it; the name is empty where the layer itself was passed."""

    name: str
    layer: nn.Module

    def __str__(self) -> str:
        return f"`{self.name}`" if self.name else "the layer"


def final_layer(model: nn.Module) -> Head:
    """The last linear layer of ``model``, fit to be divided."""
    head = _last(Head("", model), model)
    _check_plain(head)
    _check_unshared(model, head)
    _check_uncapped(model, head)
    return head


def _last(at: Head, model: nn.Module) -> Head:
    """Follow names and containers of ``model`` down to a layer."""
    module = at.layer
    if isinstance(module, _LINEAR) or not any(True for _ in module.children()) or _is_adapter(module) or _is_quantised(module):
        return at
    if isinstance(module, nn.Sequential):
        return _last(_tail(at), model)
    # Quantised layers have a usual name but no parameters.
    named = {name: each for name, each in module.named_children() if name in _NAMES or any(True for _ in each.parameters())}
    heads = [name for name in named if name in _NAMES and not isinstance(named[name], _TRANSPARENT)]
    if len(named) == 1 and not any(True for _ in module.parameters(recurse=False)):
        heads = list(named)  # a wrapper: DataParallel, a compiled module, a LightningModule
    if not heads:
        raise InputError(
            f"The network must have a last layer with a usual name ({', '.join(_NAMES[:-1])}), got {type(module).__name__} "
            f"with the parts {list(named)}. Pass the layer itself{_for_instance(at, model)}; or {INSTEAD}."
        )
    rivals = heads if len(heads) > 1 else [heads[0], *_rivals(heads[0], named)]
    if len(rivals) > 1:
        paths = " and ".join(f"`{_join(at.name, name)}`" for name in rivals)
        raise InputError(
            f"The network must have one last layer, got {paths}. Pass the layer that gives the logits; or {INSTEAD}."
        )
    return _last(Head(_join(at.name, heads[0]), named[heads[0]]), model)


def _tail(at: Head) -> Head:
    """The last member of a Sequential that does something."""
    for name, each in reversed(list(at.layer.named_children())):
        if not isinstance(each, _TRANSPARENT):
            return Head(_join(at.name, name), each)
    raise InputError(
        f"The network must end in a linear layer, got {_kind(at)} without any. Pass the layer itself; or {INSTEAD}."
    )


def _rivals(chosen: str, named: dict[str, nn.Module]) -> Iterator[str]:
    """Other parts with linear layers that come later or share the last word of a name, as ``aux_head`` does with ``head``."""
    word = chosen.rpartition("_")[2]
    later = False
    for name, each in named.items():
        words = re.sub(r"\d+", "", name).split("_")
        alike = word in words and "pre" not in words
        if name != chosen and (later or alike) and any(isinstance(m, _LINEAR) for m in each.modules()):
            yield name
        later = later or name == chosen


def _is_adapter(module: nn.Module) -> bool:
    """Whether this is an adapter around a layer, as of peft."""
    names = [name for name, _ in (*module.named_children(), *module.named_parameters(recurse=False))]
    return any(name == "base_layer" or name.startswith("lora_") for name in names)


def _check_plain(head: Head) -> None:
    """Refuse layers whose output is not their weights times their input."""
    layer, kind = head.layer, _kind(head)
    own = {name for name, _ in layer.named_parameters()} | {name for name, _ in layer.named_buffers()}
    if is_parametrized(layer):
        raise _refused(head, "its weights are parametrised", "Call `torch.nn.utils.parametrize.remove_parametrizations` first")
    if _is_adapter(layer):
        raise _refused(head, "an adapter adds to its output", "Merge the adapter into the weights first")
    if _is_quantised(layer):
        raise _refused(head, "its weights are quantised", "Fold before quantising")
    if isinstance(layer, nn.Softmax | nn.Softmax2d | nn.Sigmoid):
        raise InputError(
            f"The network must return logits, got {kind} at its end. Take it out: T divides scores before the softmax."
        )
    if not isinstance(layer, _LINEAR):
        raise InputError(
            f"The network must end in a linear layer, got {kind}. Pass the last linear layer if its outputs are the logits; or "
            f"{INSTEAD}."
        )
    if isinstance(layer.weight, UninitializedParameter):
        raise _refused(head, "it has no weights yet", "Call the model once first")
    if layer.weight.is_meta:
        raise _refused(head, "its weights are on the meta device", "Load them first")
    kinds = [each for each in _LINEAR if isinstance(layer, each)]
    if type(layer).forward is not kinds[0].forward:
        remedy = "If that divides its output, divide its weights and bias yourself"
        raise _refused(head, "it does more than multiply by its weights", remedy)
    if own - {"weight", "bias"}:
        remedy = "Make them permanent (`remove_weight_norm`, `prune.remove`, ...) first"
        raise _refused(head, "its weights are computed from others", remedy)


def _is_quantised(layer: nn.Module) -> bool:
    weight: Any = getattr(layer, "weight", None)
    return "quantized" in type(layer).__module__ or (isinstance(weight, Tensor) and not weight.is_floating_point())


def _refused(head: Head, why: str, remedy: str) -> InputError:
    return InputError(f"The network must end in a plain linear layer, got {_kind(head)}: {why}. {remedy}; or {INSTEAD}.")


def _check_unshared(model: nn.Module, head: Head) -> None:
    """Refuse weights that something else uses too."""
    for name in ("weight", "bias"):
        mine = getattr(head.layer, name)
        if mine is None:
            continue
        users = [path for path, each in model.named_parameters(remove_duplicate=False) if _same_memory(each, mine)]
        if len(users) > 1:
            raise InputError(
                f"The network must not share the {name} of its last layer, got one tensor for "
                f"{' and '.join(f'`{user}`' for user in users)}, as with tied embeddings: folding would change both. "
                f"Untie them by giving the last layer its own copy; or {INSTEAD}."
            )


def _check_uncapped(model: nn.Module, head: Head) -> None:
    """Refuse a language model that bounds its logits; a classifier with such a configuration does not."""
    configs = [getattr(each, "config", None) for each in model.modules()] if "lm_head" in head.name.split(".") else []
    for config, name in product(configs, _CAPS):
        if cap := getattr(config, name, None):
            raise InputError(
                f"The network must end in its last layer, got a soft cap after {head} (`config.{name}` is {cap:g}), which does "
                f"not commute with a division: {INSTEAD}."
            )


def _same_memory(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if a.is_meta or b.is_meta:
        return False
    storage = a.untyped_storage().data_ptr()
    if storage == 0 or storage != b.untyped_storage().data_ptr():
        return False
    # Networks may keep all their weights in one storage: what counts is whether these two overlap.
    return bool(a.data_ptr() < b.data_ptr() + b.nbytes and b.data_ptr() < a.data_ptr() + a.nbytes)


def _kind(head: Head) -> str:
    return f"{head} of type {type(head.layer).__name__}" if head.name else f"a {type(head.layer).__name__}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _for_instance(at: Head, model: nn.Module) -> str:
    """The last linear layer that was defined, as a hint."""
    linear = [Head(_join(at.name, path), each) for path, each in at.layer.named_modules() if isinstance(each, _LINEAR)]
    if not linear:
        return ""
    _check_unshared(model, linear[-1])  # passed alone, it could not be seen to be shared
    return f", perhaps `model.{linear[-1].name}`"
