"""The last linear layer of a network, whose output is the logits.

The search follows the usual names of last layers through containers and wrappers. Where several layers are candidates, or
where changing the weights would not calibrate the logits, an error says what to pass or do instead. Inputs of the network
show more than names do: which layers it calls, in which order, and with how many outputs.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from nishimori.errors import InputError
from nishimori.torch._members import refuse_folding

_LINEAR = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)

# What may follow the last layer: these do nothing in eval mode, or only move or average entries, so the output scales with 1/T.
_TRANSPARENT = (
    *(nn.Identity, nn.Flatten, nn.Unflatten),
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout),
    *(nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    *(nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d),
)

# Names in transformers for the scale of a tanh that some language models apply after their last layer.
_CAPS = ("final_logit_softcapping", "logits_soft_cap", "output_logit_soft_cap")

# The names of last layers in torchvision, timm and transformers; `out_proj` is the last layer inside some heads.
_NAMES = ("fc", "classifier", "head", "heads", "lm_head", "linear", "score", "out_proj")

_MOST_CANDIDATES = 5  # in a message

INSTEAD = "keep the calibration in a `nishimori.torch.Calibrated`, which applies it to the logits themselves"

_NAME_ONE = (
    "Pass a probe, some inputs x, which show the layer that computes the logits: `Calibrated(model, T).fold(probe=x)`; or "
    f"its name, `fold(name, probe=x)`; or {INSTEAD}."
)


class Head(NamedTuple):
    """A layer and its path in the network; the path is empty if the layer itself was passed."""

    name: str
    layer: nn.Module

    def __str__(self) -> str:
        return f"`{self.name}`" if self.name else "the layer"


class UnknownHeadError(InputError):
    """Names do not show which layer computes the logits, or they show another one."""


def final_layer(model: nn.Module, layer: nn.Module | str | None = None) -> Head:
    """The last linear layer of ``model``, or of its part ``layer``, by its name and place."""
    refuse_folding(model)
    return _last(Head("", model) if layer is None else _part(model, layer))


def called_layers(model: nn.Module, run: Callable[[], Tensor]) -> Iterator[Head]:
    """The linear layers with one output per class, or per score, that ``run`` calls in ``model``, the last one first.

    ``run`` returns the logits, with the classes last.
    """
    called: dict[nn.Module, str] = {}

    def note(module: nn.Module, name: str) -> None:
        called.pop(module, None)  # the last call counts
        called[module] = name

    hooks = [
        module.register_forward_hook(lambda module, *_, name=name: note(module, name))
        for name, module in model.named_modules()
        if isinstance(module, _LINEAR)
    ]
    try:
        n_outputs = run().shape[-1:]
    finally:
        for hook in hooks:
            hook.remove()
    for layer, name in reversed(called.items()):
        weight: Any = layer.weight
        if weight.shape[:1] in (n_outputs, (1,)):
            yield Head(name, layer)


def check_foldable(model: nn.Module, head: Head, *, is_checked: bool) -> None:
    """Refuse a layer whose weights cannot be changed so that the logits of ``model`` are calibrated.

    ``is_checked`` if the folded logits are compared with the calibrated ones, so that a subclass of a linear layer may have a
    ``forward`` of its own.
    """
    _check_plain(head, is_checked=is_checked)
    _check_unshared(model, head)
    _check_uncapped(model, head)


def _part(model: nn.Module, layer: nn.Module | str) -> Head:
    """The part of ``model`` that the user passed or named."""
    parts = dict(model.named_modules(remove_duplicate=False))
    if isinstance(layer, str):
        # A `Calibrated` lists the parts of its network with this prefix.
        names = [name for name in (layer, layer.removeprefix("model.")) if name in parts]
    else:
        names = [name for name, part in parts.items() if part is layer]
    if names:
        return Head(names[0], parts[names[0]])
    got = repr(layer) if isinstance(layer, str) else f"a {type(layer).__name__} that is not part of it"
    raise InputError("layer", "be a layer of the network or its name", got=got, remedy=_linear_layers(parts))


def _last(at: Head) -> Head:
    """Follow names and containers down to a layer."""
    module = at.layer
    if isinstance(module, _LINEAR) or not any(True for _ in module.children()) or _is_adapter(module) or _is_quantised(module):
        return at
    if isinstance(module, nn.Sequential):
        parts = [
            Head(_join(at.name, name), part) for name, part in module.named_children() if not isinstance(part, _TRANSPARENT)
        ]
        if parts:
            return _last(parts[-1])
        raise _refusal(at, "it has none", "Pass the layer itself")
    # Quantised layers have no parameters, so they are recognised by their names.
    named = {name: child for name, child in module.named_children() if name in _NAMES or any(True for _ in child.parameters())}
    heads = [name for name in named if name in _NAMES and not isinstance(named[name], _TRANSPARENT)]
    if len(named) == 1 and not any(True for _ in module.parameters(recurse=False)):
        heads = list(named)  # a wrapper: DataParallel, a compiled module, a LightningModule
    if not heads:
        raise UnknownHeadError(
            "The last layer of the network",
            f"be called {', '.join(_NAMES[:-2])} or {_NAMES[-2]}",
            got=f"a {type(module).__name__} with the submodules {list(named)}",
            remedy=f"{_linear_layers({_join(at.name, path): part for path, part in module.named_modules()})} {_NAME_ONE}",
        )
    rivals = heads if len(heads) > 1 else [heads[0], *_rivals(heads[0], named)]
    if len(rivals) > 1:
        paths = " and ".join(repr(_join(at.name, name)) for name in rivals)
        raise UnknownHeadError("The network", "have one candidate for its last layer", got=paths, remedy=_NAME_ONE)
    return _last(Head(_join(at.name, heads[0]), named[heads[0]]))


def _rivals(chosen: str, named: dict[str, nn.Module]) -> Iterator[str]:
    """Other candidates: parts with linear layers that come later, or share a word of the name, as ``aux_head`` and ``head``."""
    word, later = chosen.rpartition("_")[2], list(named)[list(named).index(chosen) + 1 :]
    for name, part in named.items():
        words = re.sub(r"\d+", "", name).split("_")
        is_candidate = name in later or (word in words and "pre" not in words)
        if name != chosen and is_candidate and any(isinstance(module, _LINEAR) for module in part.modules()):
            yield name


def _is_adapter(module: nn.Module) -> bool:
    """Whether this is an adapter around a layer, such as those of peft."""
    base = getattr(module, "base_layer", None)
    wraps_a_layer = isinstance(base, nn.Module) and not any(True for _ in base.children())  # others name a stem so
    names = (name for name, _ in (*module.named_children(), *module.named_parameters(recurse=False)))
    return wraps_a_layer or any(name.startswith("lora_") for name in names)


def _check_plain(head: Head, *, is_checked: bool) -> None:
    """Refuse layers whose output is not their weights times their input plus their bias."""
    layer = head.layer
    own = {name for name, _ in layer.named_parameters()} | {name for name, _ in layer.named_buffers()}
    if _is_adapter(layer):
        raise _refusal(head, "an adapter adds to its output", "Merge the adapter into the weights first")
    if _is_quantised(layer):
        raise _refusal(head, "its weights are quantised", "Fold before quantising")
    if not isinstance(layer, _LINEAR):  # a probe shows whether a layer before it is the one
        why, remedy = "it is another kind of layer", "Pass the last linear layer if its outputs are the logits"
        raise UnknownHeadError(
            "The network", "end in a plain linear layer", f"{_kind(head)}: {why}", f"{remedy}; or {INSTEAD}."
        )
    if own - {"weight", "bias"}:
        remedy = "Make them permanent (`remove_parametrizations`, `remove_weight_norm`, `prune.remove`, ...) first"
        raise _refusal(head, "its weights are computed from other tensors", remedy)
    if isinstance(layer.weight, UninitializedParameter) or layer.weight.is_meta:
        raise _refusal(head, "its weights are not there yet", "Load the weights, or call the model once, before folding")
    kinds = [kind for kind in _LINEAR if isinstance(layer, kind)]
    if not is_checked and type(layer).forward is not kinds[0].forward:
        remedy = "Pass a probe, some inputs x, so that the result is checked: `fold(probe=x)`"
        raise _refusal(head, "its `forward` is not that of a linear layer", remedy)


def _is_quantised(layer: nn.Module) -> bool:
    weight: Any = getattr(layer, "weight", None)
    return "quantized" in type(layer).__module__ or (isinstance(weight, Tensor) and not weight.is_floating_point())


def _refusal(head: Head, why: str, remedy: str) -> InputError:
    return InputError(
        "The network", "end in a plain linear layer", got=f"{_kind(head)}: {why}", remedy=f"{remedy}; or {INSTEAD}."
    )


def _check_unshared(model: nn.Module, head: Head) -> None:
    """Refuse weights that other layers use too."""
    for name in ("weight", "bias"):
        mine = getattr(head.layer, name)
        if mine is None:
            continue
        users = [path for path, parameter in model.named_parameters(remove_duplicate=False) if _same_memory(parameter, mine)]
        if len(users) > 1:
            raise InputError(
                "The network",
                f"not share the {name} of its last layer",
                got=f"one tensor for {' and '.join(f'`{user}`' for user in users)}, as with tied embeddings: folding "
                "would change both",
                remedy=f"Give the last layer its own copy: {_untying(model, head, name)}; or {INSTEAD}.",
            )


def _untying(model: nn.Module, head: Head, name: str) -> str:
    """The lines that give the last layer a copy of what it shares."""
    layer = f"model.get_submodule({head.name!r})" if head.name else "layer"
    lines = [f"layer = {layer}", f"layer.{name} = torch.nn.Parameter(layer.{name}.detach().clone())"]
    if hasattr(getattr(model, "config", None), "tie_word_embeddings"):
        lines.append("model.config.tie_word_embeddings = False")
    return f"`{'; '.join(lines)}`"


def _check_uncapped(model: nn.Module, head: Head) -> None:
    """Refuse a language model with a soft cap on its logits; a classifier with the same configuration has none."""
    if "lm_head" not in head.name.split("."):
        return
    for module, name in product(model.modules(), _CAPS):
        if cap := getattr(getattr(module, "config", None), name, None):
            raise InputError(
                "The logits of the network",
                f"be the output of {head}",
                got=f"a soft cap after it (`config.{name}` is {cap:g}): folding would not calibrate the logits",
                remedy=f"Instead, {INSTEAD}.",
            )


def _same_memory(a: Any, b: Any) -> bool:
    """Whether two parameters overlap: a network may keep all its weights in one storage."""
    if a is b or a.is_meta or b.is_meta or a.device != b.device:
        return a is b
    return bool(a.data_ptr() and a.data_ptr() < b.data_ptr() + b.nbytes and b.data_ptr() < a.data_ptr() + a.nbytes)


def _kind(head: Head) -> str:
    return f"{head} of type {type(head.layer).__name__}" if head.name else f"a {type(head.layer).__name__}"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _linear_layers(parts: Mapping[str, nn.Module]) -> str:
    """The linear layers among some parts of a network, in words."""
    names = [repr(name) for name, part in parts.items() if name and isinstance(part, _LINEAR)]
    if not names:
        return "It has no linear layer."
    shown = ["..."] * (len(names) > _MOST_CANDIDATES) + names[-_MOST_CANDIDATES:]
    return f"Its {'linear layers are' if len(names) > 1 else 'only linear layer is'} {', '.join(shown)}."
