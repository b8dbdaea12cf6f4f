"""One call of a network: in eval mode, on inputs that are moved to the device of its weights; the logits in its output; errors.

A network that is in eval mode already is not touched, so it can serve from many threads. In a network in training mode the
modes are switched for as long as a computation uses it: the first computation switches them and the last one restores
them, so that simultaneous ones do not see each other's changes. What the network itself switches meanwhile is restored, too.

The output may be a tensor of logits, an object with ``.logits`` or a dict with the key ``"logits"``. Anything else is refused,
because guessing could pick the wrong tensor. Calibration is computed in float32 at least, whatever the dtype of the logits.
"""

import copy
import dataclasses
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from threading import RLock
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nishimori._support.numbers import between, is_whole, temperature
from nishimori.errors import InputError, NishimoriError
from nishimori.torch._probe import KeptProbe

# Messages show the structure of ordinary batches in full, and only the start of very large ones.
_MOST_ENTRIES = 8
_MOST_LETTERS = 300

# Errors that explain themselves, or that have nothing to do with what is in a batch.
AS_THEY_ARE = (NishimoriError, MemoryError, torch.cuda.OutOfMemoryError)


def check_module(model: Any, name: str = "model") -> None:
    """Refuse anything that is not a network."""
    if not isinstance(model, nn.Module):
        got = "the class itself, not an instance" if isinstance(model, type) else f"a {type(model).__name__}"
        raise InputError(name, "be a torch.nn.Module", got=got)


def number(value: float | Tensor, name: str) -> float:
    """A temperature that the user passed as ``name``, if float32 holds it, in which networks divide."""
    T = temperature(value.detach() if isinstance(value, Tensor) else value, name)
    return between(name, T, torch.finfo(torch.float32).smallest_normal, torch.finfo(torch.float32).max)


def device_of(model: nn.Module) -> torch.device | None:
    """The device of the weights, or None for a network without weights."""
    first = next(chain(model.parameters(), model.buffers()), None)
    return None if first is None else first.device


Pick = Callable[[Any], Any] | str | int | None
"""Where the logits are in what a network returns: a key, an index, or a function that picks them."""


def answer(model: nn.Module, inputs: Any) -> Any:
    """The output of ``model`` for a mapping of keyword arguments, a tuple or list of positional arguments, or one input."""
    with torch.inference_mode():
        if isinstance(inputs, KeptProbe):
            return model(*inputs.args, **inputs.kwargs)
        if isinstance(inputs, Mapping):
            return model(**inputs)
        return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)


def move_to_device(value: Any, device: torch.device | None) -> Any:
    """A value with every tensor inside it on ``device``; None moves nothing."""
    if device is None:
        return value
    if isinstance(value, KeptProbe):
        return KeptProbe(move_to_device(value.args, device), move_to_device(value.kwargs, device))
    if hasattr(value, "to"):  # tensors, encodings, packed sequences, graphs
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: move_to_device(entry, device) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(move_to_device(entry, device) for entry in value))
    return type(value)(move_to_device(entry, device) for entry in value) if isinstance(value, list | tuple) else value


def structure(value: Any) -> str:
    """The types, shapes and keys of a batch, or of what a network returns."""
    if isinstance(value, Tensor | np.ndarray):
        kind = "array" if isinstance(value, np.ndarray) else "tensor"
        return f"{kind} {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return f"{type(value).__name__} {{{_join_entries(f'{key!r}: {structure(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, tuple | list):
        if value and all(isinstance(entry, str | int | float) for entry in value):
            return f"{type(value).__name__} of {len(value)} {type(value[0]).__name__}"
        return f"{type(value).__name__} ({_join_entries(map(structure, value))})"
    return type(value).__name__


def _join_entries(entries: Iterable[str]) -> str:
    """The first entries, separated by commas."""
    entries = list(entries)
    return ", ".join(entries[:_MOST_ENTRIES] + ["..."] * (len(entries) > _MOST_ENTRIES))


def short(error: Exception) -> str:
    """The type and the message of an error, in one line."""
    message = " ".join(str(error).split())
    cut = f"{message[:_MOST_LETTERS]}..." if len(message) > _MOST_LETTERS else message.rstrip(".")
    return f"{type(error).__name__}: {cut}" if cut else type(error).__name__


# By the id of a network, which cannot be reused while a computation holds the network: how many computations use it, and the
# modes to restore after the last one.
_n_uses: Counter[int] = Counter()
_modes: dict[int, list[tuple[nn.Module, bool]]] = {}
_lock = RLock()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode inside the ``with`` block; afterwards, also after an error, every module has its previous mode."""
    key = id(model)
    with _lock:
        if not _n_uses[key]:
            _modes[key] = _enter_eval_mode(model)
        _n_uses[key] += 1
    try:
        yield
    finally:
        with _lock:
            _n_uses[key] -= 1
            if not _n_uses[key]:
                del _n_uses[key]
                modes = _modes.pop(key)
                # Parents come first. Setting the flag is not enough: some layers merge or split weights in `train`.
                for module, training in modes:
                    if module.training != training:
                        module.train(training)
                _set_flags(modes)  # a later parent may have changed a module that it shares with an earlier one
        # Older versions of torch would use the half-precision copies made here, which have no gradients, in later training.
        torch.clear_autocast_cache()


def switch_to_eval(model: nn.Module) -> None:
    """Put the network in eval mode, if some module is not."""
    if any(module.training for module in model.modules()):
        model.eval()


def _enter_eval_mode(model: nn.Module) -> list[tuple[nn.Module, bool]]:
    """Put the network in eval mode; the modes that its modules had before."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        switch_to_eval(model)
    except Exception:  # such as for exported programs
        _set_flags(modes)
        raise
    return modes


def _set_flags(modes: list[tuple[nn.Module, bool]]) -> None:
    for module, training in modes:
        module.training = training


# --- the logits in the output ----------------------------------------------------------------------------------------------


def logits_of(output: Any, remedy: str, who: str = "model", pick: Pick = None) -> Tensor:
    """The logits in the output of a network, or of another function ``who``; ``remedy`` says what to do if there are none.

    ``pick`` is the key of the logits in the output, or a function that picks them.
    """
    logits: Any = output
    if pick is not None:
        logits = _picked(output, pick)
    elif not isinstance(output, Tensor):
        logits = output.get("logits") if isinstance(output, Mapping) else getattr(output, "logits", None)
    if not isinstance(logits, Tensor):
        raise InputError(
            who,
            "return a tensor of logits, an object with `.logits` or a dict with the key 'logits'",
            got=structure(output),
            remedy=remedy,
        )
    if not logits.is_floating_point():
        raise InputError(
            who,
            "return logits",
            got=logits.dtype,
            remedy="Return the scores before the softmax, not the predicted classes.",
        )
    return logits


def _picked(output: Any, pick: Any) -> Any:
    """What the key or the function picks of an output."""
    try:
        return pick(output) if callable(pick) else output[pick]
    except (KeyError, IndexError, TypeError) as error:
        got = f"{pick!r}, of which {structure(output)} has no entry" if not callable(pick) else f"a function: {short(error)}"
        raise InputError("output", "pick the logits in what the model returns", got=got) from None


def check_pick(pick: Any) -> None:
    """Refuse what cannot be a key or a function."""
    if pick is not None and not callable(pick) and (isinstance(pick, bool) or not isinstance(pick, str | int)):
        raise InputError("output", "be a key, an index or a function that picks the logits", got=repr(pick))


def with_picked(output: Any, logits: Tensor, pick: Any) -> Any:
    """A copy of an output with other logits where ``pick`` finds them; the logits alone if it is a function."""
    if callable(pick):
        return logits
    if isinstance(output, tuple | list):
        entries = list(output)
        entries[pick] = logits
        return type(output)(*entries) if hasattr(output, "_fields") else type(output)(entries)
    changed = dict(output) if type(output) is dict else copy.copy(output)
    changed[pick] = logits
    return changed


def is_unit(logits: Tensor) -> bool:
    """Whether these are the outputs (..., 1) of one unit, each of which is a binary score, as those of shape (n,) are."""
    return logits.ndim > 1 and logits.shape[-1] == 1


def with_logits(output: Any, logits: Tensor, *loss: Any) -> Any:
    """A copy of the output of a network, of the same type, with other logits, and with another loss if it is passed."""
    if isinstance(output, Tensor):
        return logits
    others = {"logits": logits} | ({"loss": loss[0]} if loss else {})
    if type(output) is dict:
        return output | others
    if isinstance(output, tuple) and hasattr(output, "_replace"):
        return output._replace(**others)
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return dataclasses.replace(output, **others)
    changed = copy.copy(output)
    for name, value in others.items():
        if isinstance(output, Mapping):
            changed[name] = value
        else:
            setattr(changed, name, value)
    return changed


def refuse_number(logits: Tensor, where: str = "") -> Tensor:
    """The logits themselves, unless they are a single number, which has neither rows nor classes."""
    if not logits.ndim:
        must, got = "return logits of shape (n, n_classes) or (n,)", f"a single number{where}"
        raise InputError("model", must, got=got, remedy="Return one row per sample.")
    return logits


def classes_last(logits: Tensor, class_axis: int) -> Tensor:
    """A view of the logits with their classes in the last dimension."""
    if class_axis == -1:
        return logits
    if not is_whole(class_axis) or not -logits.ndim <= class_axis < logits.ndim:
        raise InputError(
            "class_axis",
            "be the number of a dimension of the logits",
            got=f"{class_axis!r} for logits of {logits.ndim} dimension{'s' * (logits.ndim != 1)}",
        )
    return logits.movedim(class_axis, -1)


def classes_back(rows: Tensor, class_axis: int) -> Tensor:
    """A view of what has its classes last, with the classes where the network has them."""
    return rows if class_axis == -1 else rows.movedim(-1, class_axis)


def check_classes(logits: Tensor, n_classes: int | None, class_axis: int = -1) -> None:
    """Refuse logits whose classes are not in the dimension ``class_axis``, if the number of classes is known.

    With two classes there may be one score per sample instead. A softmax over another dimension, such as the width of an
    image, would have the right shape and mean nothing.
    """
    rows = classes_last(logits, class_axis)
    if n_classes is None or (n_classes == 2 and (rows.ndim < 2 or last_size(rows) == 1)):
        return
    if rows.ndim > 1 and last_size(rows) == n_classes:
        return
    # The size of a dimension that is exported for any size is a symbol.
    sizes = [size if type(size) is int else "n" for size in logits.shape]
    shape = f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
    if n_classes in sizes[1:]:
        place = sizes.index(n_classes, 1)
        remedy = f"If dimension {place} holds the classes, pass `class_axis={place}` to `calibrate` or `Calibrated`."
    elif len(sizes) == 1:
        remedy = "Return one row per sample: for a single sample, pass a batch of one."
    else:
        remedy = "Use the network that the map was fitted to, or calibrate this one."
    which = "last dimension" if class_axis == -1 else f"dimension {class_axis}"
    raise InputError(
        "model",
        f"return logits whose {which} holds the {n_classes} classes of the map",
        got=f"shape {shape}" if len(sizes) < 2 else f"{sizes[class_axis]} in shape {shape}",
        remedy=remedy,
    )


def last_size(values: Tensor) -> int:
    """The size of the last dimension, which tracing records as an operation, with a warning where its value is needed."""
    if not torch.jit.is_tracing():  # type: ignore[attr-defined,no-untyped-call]
        return values.shape[-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)  # type: ignore[attr-defined]
        return int(values.shape[-1])


def scores_in(logits: Tensor) -> Tensor | None:
    """The binary scores, one per sample, if there is one number per sample: logits of shape (n,) or (..., 1)."""
    if logits.ndim == 1:
        return logits
    return logits[..., 0] if is_unit(logits) else None


def scale_logits(logits: Tensor, temperature: Tensor) -> Tensor:
    """``logits / temperature`` in float32 at least, for any shape."""
    wide, T = wide_dtype(logits), temperature
    if T.device != logits.device:  # a network spread over devices
        T = T.to(logits.device)
    result: Tensor = logits.to(wide) / T.to(wide)
    return result


def probabilities(calibrated: Tensor, class_axis: int) -> Tensor:
    """The softmax of calibrated logits over the dimension of the classes; a score z means the logits (0, z)."""
    rows = classes_last(calibrated, class_axis)
    z = scores_in(rows)
    if z is not None:
        rows = torch.stack([torch.zeros_like(z), z], dim=-1)
    return classes_back(rows.softmax(dim=-1), class_axis)


def wide_dtype(logits: Tensor) -> torch.dtype:
    """The dtype that calibration is computed in: at least float32."""
    return torch.promote_types(logits.dtype, torch.float32)
