"""Folding: a temperature or an affine map becomes part of the weights of a network's last layer, at no cost when serving.

Logits are weights times features plus a bias, so dividing weights and bias by T divides the logits by T. An affine map
u = S(z - mean z) + b multiplies both by the matrix S C, where C subtracts the mean over the classes, and then adds b to the
bias. No other map is a function of the weights alone. The logits of a probe, some inputs, are compared with the calibrated
ones, and this decides which layer is the right one. After any error the weights are restored. All `Calibrated` of this process
are known here, so that folding a network without its wrapper does not calibrate its logits twice.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakSet

import torch
from torch import Tensor, nn

from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning
from nishimori.maps.affine import Affine
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature, temperature_of
from nishimori.torch._head import INSTEAD, Head, UnknownHeadError, called_layers, check_foldable, final_layer
from nishimori.torch._map_modules import module_for
from nishimori.torch._run import (
    Pick,
    answer,
    check_classes,
    check_module,
    classes_last,
    device_of,
    evaluating,
    logits_of,
    move_to_device,
    number,
)

# How much folded logits may differ from the calibrated ones, relative to the largest. Rounding each weight once and each logit
# twice changes a few units in the last place, and more where large terms cancel. A wrong layer or a nonlinear function after
# it changes far more.
_TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}

_NO_PROBE = "Pass `probe=False`, and compare the logits before and after folding yourself."


living: WeakSet[nn.Module] = WeakSet()
"""Every `Calibrated` for as long as it is alive."""

lock = Lock()
"""To be held meanwhile, because a set cannot be read while another thread adds to it."""


@dataclass(frozen=True, eq=False)
class Change:
    """What ``map`` does to weights: divide them by T or, where there is a ``matrix``, multiply them by it and add a ``bias``.

    The matrix, for logits, and the bias, one number per class, are in float64 on the CPU.
    """

    map: Map
    matrix: Tensor | None
    bias: Tensor

    @classmethod
    def from_map(cls, map_: Map) -> "Change":
        """What ``map_`` does to the weights of a last layer; raises `InputError` for a map that weights cannot hold."""
        if isinstance(map_, Temperature):
            return cls(map_, None, torch.zeros(0))
        if isinstance(map_, Affine) and map_.fallback is None:
            K, scale = map_.n_classes, torch.tensor(map_.scale, device="cpu")  # the default may differ
            centring = torch.eye(K, dtype=torch.float64, device="cpu") - 1 / K
            matrix = scale @ centring if scale.ndim == 2 else scale.reshape(-1, 1) * centring
            return cls(map_, matrix, torch.tensor(map_.bias, device="cpu"))
        what = "an affine map with `preserve_accuracy=True`" if isinstance(map_, Affine) else map_.in_words
        raise InputError(
            "The map",
            "be one temperature or an affine function of the logits to be folded into weights",
            got=f"{what}; weights alone cannot express that",
            remedy=f"Instead, {INSTEAD}.",
        )

    @property
    def temperature(self) -> float:
        """What divides the weights where there is no matrix."""
        return temperature_of(self.map) or 1.0

    def check_layer(self, layer: nn.Module, head: str) -> None:
        """Refuse another number of classes than that of the matrix."""
        if self.matrix is None:
            return
        weight: Tensor = layer.weight  # type: ignore[assignment]
        K, n_out = len(self.bias), len(weight)
        if n_out != K and (n_out, K) != (1, 2):
            raise InputError(
                "The last layer",
                f"have one output per class of the affine map, which has {K}",
                got=f"{head} with {n_out}",
                remedy="Pass the layer that computes the logits.",
            )

    def adds_bias(self, layer: nn.Module) -> bool:
        """Whether a layer without a bias gets one."""
        return getattr(layer, "bias", None) is None and bool(self.bias.any())

    def weights(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The new weight and bias; a bias is added only where the map needs one."""
        if self.matrix is None:
            return weight / self.temperature, None if bias is None else bias / self.temperature
        matrix, shift = self.matrix, self.bias
        if len(weight) != len(shift):  # one score z, which means the logits (0, z)
            matrix, shift = matrix[1:, 1:] - matrix[:1, 1:], shift[1:] - shift[:1]
        flat = matrix @ weight.detach().cpu().double().flatten(1)
        new = flat.reshape(weight.shape).to(weight)
        if bias is not None:
            return new, (matrix @ bias.detach().cpu().double() + shift).to(bias)
        return new, shift.to(weight) if shift.any() else None

    def logits(self, before: Tensor) -> Tensor:
        """The calibrated logits in float64."""
        if self.matrix is None:
            return before.double() / self.temperature
        check_classes(before, len(self.bias))
        calibrated: Tensor = module_for(self.map, before.device)(before.double())
        return calibrated


def fold_temperature(model_or_layer: nn.Module, T: float | Tensor, *, probe: Any = None) -> nn.Module:
    """Divide the weights and bias of the last layer by T in place, and return that layer.

    The network then returns logits / T and keeps its class, its file format and its serving code. The last layer is a `Linear`
    or a convolution. It is found by its name (``fc``, ``classifier``, ``head``, ``lm_head``, ``linear``, ...), at the end of a
    ``Sequential``, or as the only submodule with weights; otherwise, of the layers that the network calls for the ``probe``, it
    is the last one that gives the calibrated logits.

    Parameters
    ----------
    model_or_layer : torch.nn.Module
        A network, or the layer that computes its logits. Pass the network where you can: the layer alone does not show
        whether its outputs are the logits of the network, nor whether other layers use its weights too.
    T : float
        The temperature, positive and finite. For a `Calibrated`, call its `fold` instead.
    probe
        Inputs without labels, on which to check that the folded logits equal logits / T. A tensor is the only argument of the
        network, a tuple holds its positional arguments, a mapping its keyword arguments. False: no check, with an
        `InputWarning`. If ``forward`` then applies a nonlinear function (a tanh, a soft cap) after the last layer, or uses
        another layer for the logits, the folded network returns wrong logits.

    Returns
    -------
    torch.nn.Module
        The layer that was divided. Its attribute ``folded_temperature`` is T.

    Raises
    ------
    InputError
        If there is no probe, if the last layer is not found or cannot be folded, if a T is already folded in, if weights
        overflow, or if the logits on ``probe`` are wrong. The weights are then unchanged.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import fold_temperature
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    >>> x = torch.randn(5, 4)
    >>> before = network(x)
    >>> fold_temperature(network, 2.0, probe=x)
    Linear(in_features=8, out_features=3, bias=True)
    >>> torch.allclose(network(x), before / 2)
    True
    """
    check_module(model_or_layer, "model_or_layer")
    temperature = number(T, "T")
    _check_uncalibrated(model_or_layer)
    change = Change.from_map(Temperature(temperature))
    head = fold(model_or_layer, change, probe, call="fold_temperature(model, T, probe=x)").head
    mark_folded(head, change.map)
    return head.layer


def _check_uncalibrated(model: nn.Module) -> None:
    """Refuse a network that would divide its logits by another temperature as well."""
    path = next((path for path, module in model.named_modules() if module in living), None)
    if path is not None:
        raise InputError(
            "model_or_layer",
            "be a network or a layer",
            got=f"a Calibrated{f' inside, at `{path}`' if path else ''}, which divides its logits by a temperature of its own",
            remedy="Call its `fold()`, which folds that temperature.",
        )


def _check_unfolded(head: Head, temperature: float) -> None:
    """Refuse a layer that has been folded, which is usually a mistake; `Calibrated.fold` may fold again."""
    name = next((name for name in ("folded_temperature", "folded_map") if hasattr(head.layer, name)), None)
    if name is not None:
        raise InputError(
            "T",
            "be folded only once",
            got=f"{temperature:.4g} for {head}, which already has a map folded in",
            remedy="If the new T was found with the folded weights, call `Calibrated(model, T).fold()`. If the weights "
            f"were replaced after folding, delete the attribute `{name}` of the layer.",
        )


class FoldedHead(NamedTuple):
    """The layer that holds a map now, and whether it had no bias before."""

    head: Head
    has_new_bias: bool


def fold(
    model: nn.Module,
    change: Change,
    probe: Any,
    layer: nn.Module | str | None = None,
    *,
    call: str,
    again: bool = False,
    class_axis: int = -1,
    pick: Pick = None,
) -> FoldedHead:
    """Make ``change`` to the last layer of ``model`` in place, and note it there.

    ``call`` is what the user writes to pass a ``probe``, and ``again`` if the layer may hold a temperature already.
    ``class_axis`` is the dimension of the classes in the logits of the network, and ``pick`` says where these are.
    """

    def check(head: Head) -> Head:
        if not again:
            _check_unfolded(head, change.temperature)
        check_foldable(model, head, is_checked=probe is not False)
        change.check_layer(head.layer, str(head))
        return head

    named, unknown, refusals = list[Head](), list[InputError](), list[InputError]()
    try:
        named.append(check(final_layer(model, layer)))
    except UnknownHeadError as error:
        if layer is not None or probe is None or probe is False:
            raise
        unknown.append(error)
    if probe is None:
        raise InputError(
            "probe",
            "be passed, some inputs x of the network",
            got=f"none: without them nothing shows that {named[0]} computes the logits, and that no function follows it",
            remedy=f"Call `{call}`; or pass `probe=False`, and compare the logits before and after folding yourself.",
        )
    if probe is False:
        folded = _change_layer(named[0], change)
        if change.temperature != 1 or change.matrix is not None:
            _warn_of_no_check(named[0], change.map)
        return folded
    run = partial(_logits, model, probe, class_axis, pick)
    expected = change.logits(run())
    others = (head for head in called_layers(model, run) if head not in named) if layer is None else ()
    for head in chain(named, others):
        try:
            return _change_layer(check(head), change, run, expected)
        except InputError as refusal:
            refusals.append(refusal)
    raise (refusals + unknown)[0]


def _warn_of_no_check(head: Head, map_: Map) -> None:
    T, layer = temperature_of(map_), repr(head.name) if head.name else "layer"
    notice(
        f"It was not checked that {head} computes the logits, because of `probe=False`. If another layer computes them, or "
        "a nonlinear function follows, the logits are now wrong. To check it, load the weights of the network again and call "
        f"`Calibrated(model, {'map' if T is None else f'{T:.9g}'}).fold({layer}, probe=x)`, where x holds some inputs.",
        InputWarning,
    )


def _change_layer(
    head: Head, change: Change, run: Callable[[], Tensor] | None = None, expected: Tensor | None = None
) -> FoldedHead:
    """Make ``change`` to a layer; ``expected`` are the logits that ``run`` should then return."""
    layer: Any = head.layer
    has_new_bias = change.adds_bias(layer)
    weight, bias = layer.weight, layer.bias
    kept = weight.detach().clone(), None if bias is None else bias.detach().clone()
    try:
        with torch.no_grad():
            _replace(layer, *change.weights(weight, bias))
        _check_finite(layer, kept, change, head)
        if run is not None and expected is not None:
            _check_logits(run(), expected, head)
    except BaseException:
        with torch.no_grad():
            _replace(layer, *kept)
        raise
    if change.matrix is None:  # noted, so that it is not divided twice by mistake
        layer.folded_temperature = change.temperature * getattr(layer, "folded_temperature", 1.0)
    else:
        layer.folded_map = Affine.kind
    return FoldedHead(head, has_new_bias)


def folded_copy(model: nn.Module, map_: Map, probe: Any = None, class_axis: int = -1, pick: Pick = None) -> nn.Module:
    """A copy of ``model`` with ``map_`` folded into its last layer, to be written to a file."""
    change = Change.from_map(map_)
    copied = copy.deepcopy(model)
    check_alone(copied, map_)
    call = "calibrated.save_pretrained(folder, probe=x)"
    head, has_new_bias = fold(copied, change, probe, call=call, again=True, class_axis=class_axis, pick=pick)
    if has_new_bias:  # whoever loads the file could ignore it without an error
        raise InputError(
            "The last layer",
            "have a bias, or the file would contain a tensor that the class of the network does not know",
            got=f"{head} without one",
            remedy="Call `calibrated.fold(probe=x)` first, which adds one; or save `calibrated.state_dict()`.",
        )
    return copied


def _replace(layer: Any, weight: Tensor, bias: Tensor | None) -> None:
    """Give a layer other values, in the same parameters; one without a bias gets one if it needs it."""
    layer.weight.copy_(weight)
    if layer.bias is None or bias is None:
        layer.bias = None if bias is None else nn.Parameter(bias, requires_grad=layer.weight.requires_grad)
    else:
        layer.bias.copy_(bias)


def _check_finite(layer: Any, kept: tuple[Tensor, Tensor | None], change: Change, head: Head) -> None:
    """Refuse finite weights that became infinite or NaN."""
    for part, old in zip((layer.weight, layer.bias), kept, strict=True):
        if part is not None and not (part.isfinite() if old is None else part.isfinite() | ~old.isfinite()).all():
            raise InputError(
                f"The weights of {head}",
                "stay finite",
                got=f"an overflow of {part.dtype} when {change.map.in_words} is folded in",
                remedy=f"The folding was undone. Fold in a wider dtype; or {INSTEAD}.",
            )


def _logits(model: nn.Module, probe: Any, class_axis: int, pick: Pick) -> Tensor:
    """The logits of a probe, with the classes last."""
    with evaluating(model):
        output = answer(model, move_to_device(probe, device_of(model)))
        return classes_last(logits_of(output, _NO_PROBE, pick=pick), class_axis)


def _check_logits(after: Tensor, expected: Tensor, head: Head) -> None:
    """Refuse logits that are not those expected; -inf masks a class."""
    off = deviation(after, expected)
    weight: Any = head.layer.weight
    allowed = tolerance(after, weight)
    if not off <= allowed:  # also NaN
        what = f"differ from the calibrated logits by {off:.2g} of the largest ({allowed:g} is allowed)"
        raise UnknownHeadError(
            "The logits of the network",
            f"be the output of {head}, but after folding the logits on `probe` {what}",
            remedy="The folding was undone. If another layer computes the logits, pass that layer; if a nonlinear "
            f"function follows, {INSTEAD}. Rounding in {weight.dtype} can also cause this: fold in a "
            "wider dtype.",
        )


def deviation(after: Tensor, expected: Tensor) -> float:
    """The largest difference of logits from those expected, relative to the largest of them; NaN without usable ones."""
    live = expected != -torch.inf
    return float((after[live].double() - expected[live]).abs().max() / expected[live].abs().max())


def tolerance(*tensors: Tensor) -> float:
    """The largest tolerance of all dtypes that a computation of the first of these tensors uses."""
    dtypes = {tensor.dtype for tensor in tensors}
    kind = tensors[0].device.type
    if torch.is_autocast_enabled(kind):
        dtypes.add(torch.get_autocast_dtype(kind))
    if kind == "cuda":
        dtypes.add(torch.float16)  # TF32, which convolutions use by default, has as many digits
    return max(_TOLERANCES.get(dtype, 1e-4) for dtype in dtypes)


def mark_folded(head: Head, map_: Map, by: nn.Module | None = None) -> None:
    """Note in every `Calibrated` around a layer that ``map_`` was folded into it, on behalf of ``by``."""
    inside = [] if by is None else list(by.modules())
    with lock:
        wrappers = list(living)
    for wrapper in wrappers:
        parts = list(wrapper.modules())
        # What contains `by` returns the same logits as before; what is part of `by` still applies a map of its own.
        related = any(part is by for part in parts) or any(part is wrapper for part in inside)
        if not related and any(part is head.layer for part in parts):
            wrapper._folded_outside = f"{map_.in_words} folded into {head}"  # type: ignore[assignment]


def check_alone(model: nn.Module, map_: Map) -> None:
    """Refuse to fold below another `Calibrated` inside ``model``, unless both only divide: other maps do not commute."""
    for path, module in model.named_modules():
        inner = module.map if module in living else None
        if inner is not None and temperature_of(inner) != 1 and None in (temperature_of(inner), temperature_of(map_)):
            raise InputError(
                "The network",
                f"not contain another Calibrated to fold {map_.in_words}",
                got=f"one at `{path}` that applies {inner.in_words} after the last layer",
                remedy=f"Fold that one first, by its own `fold()`; or {INSTEAD}.",
            )


def check_calibrated_once(wrapper: Any) -> None:
    """Refuse to apply the map of a `Calibrated` if it, or another one, was folded into the network without the wrapper."""
    if wrapper._folded_outside is None:
        return
    map_ = wrapper.map
    if temperature_of(map_) == 1:
        wrapper._folded_outside = None
        return
    raise InputError(
        "The logits",
        "be calibrated only once",
        got=f"a network with {wrapper._folded_outside}, while its `Calibrated` still applies {map_.in_words}",
        remedy="Use the network itself, `calibrated.model`, or wrap it again: `Calibrated(calibrated.model)`. To "
        "fold and keep the wrapper, call `calibrated.fold()`, which sets its temperature to 1.",
    )
