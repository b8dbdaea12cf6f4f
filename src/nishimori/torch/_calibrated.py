"""`Calibrated`: a network with a map that is applied to its logits, such as the division by a temperature.

The parameters of the map are buffers, so they are saved, loaded and moved with the weights. They stay in float32 when the
weights are converted to half precision, and the map is applied in float32.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn

from nishimori._fit.temperatures import Temperatures
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature, temperature_of
from nishimori.torch._batches import LABELS
from nishimori.torch._fold import Change, check_alone, check_calibrated_once, fold_into, folded_copy, living, lock, mark_folded
from nishimori.torch._generate import CalibratedLogits
from nishimori.torch._head import final_layer, is_found
from nishimori.torch._loss import calibrated_loss, has_loss
from nishimori.torch._map_modules import ExactBuffers, GroupTemperaturesModule, MapModule, module_for, module_like
from nishimori.torch._probe import KeptProbe
from nishimori.torch._run import (
    Pick,
    answer,
    check_classes,
    check_module,
    check_pick,
    classes_back,
    classes_last,
    device_of,
    evaluating,
    logits_of,
    move_to_device,
    number,
    probabilities,
    refuse_number,
    scale_logits,
    scores_in,
    with_logits,
    with_picked,
)

if TYPE_CHECKING:
    from nishimori import Calibrator, Sketch

_NO_LOGITS = (
    "Say where the logits are: `Calibrated(model, T, output=0)`, a key, or a function; or fold T into its weights with "
    "`calibrated.fold()` and call the model itself."
)


_GENERATE = (
    " To sample from calibrated probabilities, call `calibrated.model.generate(..., do_sample=True, top_k=0, "
    "logits_processor=[calibrated.logits_processor()])`."
)


class _Bound(partial[Any]):
    """A bound method of a wrapper, with the signature of the wrapped network, which is read only on request."""

    @property
    def __signature__(self) -> inspect.Signature:
        model = self.args[0].model
        if hasattr(model, "get_base_model"):  # that of an adapter of peft may take anything
            model = model.get_base_model()
        try:
            of_model = inspect.signature(model.forward)
        except (TypeError, ValueError):  # for example TorchScript read from a file
            own = inspect.signature(self.func.__get__(self.args[0]))
            return own.replace(parameters=[parameter for name, parameter in own.parameters.items() if name != LABELS])
        if not getattr(self.args[0], "needs_groups", False):
            return of_model
        parameters = list(of_model.parameters.values())
        takes_more = bool(parameters) and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
        groups = inspect.Parameter("groups", inspect.Parameter.KEYWORD_ONLY)
        parameters.insert(len(parameters) - takes_more, groups)
        return of_model.replace(parameters=parameters)


class signature_of_model:  # noqa: N801 - a decorator
    """Decorator of a wrapper's ``forward``, which then has the signature of the wrapped network.

    The wrapper must have the network as ``model``. This is not a property, because hooks must be able to set another
    ``forward`` on the instance. The class itself says that ``labels`` can be passed: `Trainer` of transformers asks the class
    which arguments are labels, and computes no loss without any.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        of_function = inspect.signature(function)
        *others, rest = of_function.parameters.values()
        labels = inspect.Parameter(LABELS, inspect.Parameter.KEYWORD_ONLY, default=None)
        function.__dict__["__signature__"] = of_function.replace(parameters=[*others, labels, rest])

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.function
        if torch.compiler.is_dynamo_compiling():  # which would look up a bound method here again, in an infinite loop
            return partial(self.function, instance)
        return _Bound(self.function, instance)


class Calibrated(ExactBuffers):
    """A network with a map that is applied to its logits: by default the division by a temperature.

    Call it like the network. It returns the same type of output (a tensor, an object with ``.logits`` or a dict with "logits")
    in the same dtype. Other attributes (``config``, ``fc``, ...) can be read from it, but must be set on ``model``: one that is
    set on the `Calibrated` stays there, and the network does not see it. `calibrate` makes a `Calibrated` from a loader.

    Methods of the network do not use the map, so they are not methods of the `Calibrated`: call ``calibrated.model.name(...)``
    to use the network without calibration, or `fold` first. `save_pretrained` writes the calibrated network.

    Parameters
    ----------
    model : torch.nn.Module
        The network. It is not copied.
    temperature : float, Map or Calibrator
        T, positive and finite; or another map, or a fitted calibrator whose map is used: ``Calibrated(model, calibrator)``.
        Keep the default if you load a state dict afterwards: it brings its own map.
    class_axis : int
        Which dimension of the logits is that of the classes, such as 1 for segmentation, (n, classes, height, width).
    output : str, int or callable, optional
        Where the logits are in what the network returns: a key, an index, or a function that picks them. With a function, the
        `Calibrated` returns the calibrated logits alone.

    Attributes
    ----------
    model : torch.nn.Module
        The network itself.
    temperature : Tensor
        T, a float32 buffer of shape (). Not there if the map has other parameters, which are in ``map``.
    map : Map
        What is applied to the logits, with its parameters as they are now.
    n_classes : int or None
        How many classes the logits must have in `predict_proba` and `predict`: that of the calibrator or map. It is part of the
        state dict. None if it is not known, as for a number T; then any number will do.
    class_axis : int
        As passed. It is part of the state dict if it is not -1.
    method : str
        How the map was chosen; "fixed" if it was passed or loaded.
    temperatures : Temperatures or None
        What `calibrate` measured: both temperatures, accuracy, number of samples. Not part of the state dict; None after
        loading one.
    calibrator : Calibrator or None
        What `calibrate` fitted, with its error bars, or what was passed. Not part of the state dict either.
    sketch : Sketch or None
        The sums that `calibrate` fitted to, if it did not keep all logits (see its ``keep_up_to``): T is then that of all rows
        up to 1e-6 of its value. Give it to `evaluate` for metrics. Not part of the state dict either.

    Notes
    -----
    A ``loss`` in the same output is that of the calibrated logits, by the network's own ``loss_function``, or None where it has
    none. What else the network computes from its logits does not use the map: fold the map into the weights if it should.

    With one temperature per group, pass the groups by name after the arguments of the network: ``calibrated(x, groups=groups)``
    and ``calibrated.predict_proba(x, groups=groups)``: one per sample or sequence, or one per token.

    Examples
    --------
    >>> import torch
    >>> from nishimori.maps import Affine
    >>> from nishimori.torch import Calibrated
    >>> network = torch.nn.Linear(4, 3)
    >>> calibrated = Calibrated(network, temperature=2.0)
    >>> x = torch.randn(5, 4)
    >>> torch.equal(calibrated(x), network(x) / 2)
    True
    >>> calibrated.predict_proba(x).shape
    torch.Size([5, 3])
    >>> Calibrated(network, Affine(0.5, [0.1, 0.0, -0.1]))
    Calibrated(
      method='fixed'
      (mapping): Affine(n_classes=3, scale=number)
      (model): Linear(in_features=4, out_features=3, bias=True)
    )
    """

    temperature: Tensor
    mapping: MapModule | None  # None for one temperature
    _folded_outside: str | None = None  # what was folded into the network without this wrapper

    def __init__(
        self,
        model: nn.Module,
        temperature: "float | Tensor | Map | Calibrator" = 1.0,
        *,
        class_axis: int = -1,
        output: Pick = None,
    ) -> None:
        super().__init__()
        check_pick(output)
        self._pick: Pick = output
        self.class_axis: int = class_axis
        check_module(model)
        map_ = _map_in(temperature)
        self._use(map_, device_of(model))  # before `model`, which may have a `temperature` too
        if map_.needs_groups:
            _check_free(model)
        self.model = model
        self.calibrator: Calibrator | None = temperature if _is_fitted(temperature) else None
        self.n_classes: int | None = getattr(self.calibrator, "n_features_in_", None) or map_.n_classes
        self.method: str = "fixed" if self.calibrator is None else self.calibrator.method_name
        self.temperatures: Temperatures | None = None
        self.sketch: Sketch | None = None
        self._probe: KeptProbe | None = None
        self.training: bool = model.training
        with lock:
            living.add(self)

    @property
    def map(self) -> Map:
        """What is applied to the logits; its parameters are rounded to float32."""
        return Temperature(float(self.temperature)) if self.mapping is None else self.mapping.map

    @property
    def needs_groups(self) -> bool:
        """Whether calls need ``groups=``, the group of each sample, besides the arguments of the network."""
        return isinstance(self.mapping, GroupTemperaturesModule)

    @signature_of_model
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the network for the same arguments, with the map applied to the logits."""
        check_calibrated_once(self)
        groups = self._groups_in(kwargs)
        output = self.model(*args, **kwargs)
        logits = logits_of(output, _NO_LOGITS, pick=self._pick)
        mapped = self.mapped(logits, groups).to(logits.dtype)
        if self._pick is not None:
            return with_picked(output, mapped, self._pick)
        if not torch.compiler.is_compiling() and has_loss(output):
            return with_logits(output, mapped, calibrated_loss(self.model, output, logits, mapped, kwargs))
        return with_logits(output, mapped)

    def mapped(self, logits: Tensor, groups: Any = None) -> Tensor:
        """The calibrated logits of what the network has returned, in float32 at least: for networks that return tuples."""
        check_calibrated_once(self)
        if self.mapping is None:
            return scale_logits(logits, self.temperature)
        if not self.needs_groups:  # temperatures of groups divide whatever the order of the dimensions is
            check_classes(logits, self.n_classes, self.class_axis)
        mapped: Tensor = self.mapping(classes_last(logits, self.class_axis), groups)
        return classes_back(mapped, self.class_axis)

    def predict_proba(self, *args: Any, **kwargs: Any) -> Tensor:
        """Calibrated probabilities for the network's arguments, in eval mode and without gradient.

        They have the shape of the logits, such as (n, n_classes) or (sequences, tokens, vocabulary): the softmax is over the
        dimension ``class_axis``, by default the last, which must hold the `n_classes` classes, if their number is known. A
        score z of shape (n,) or (..., 1) means the logits (0, z). Afterwards every module has its previous mode.
        """
        groups = self._groups_in(kwargs)
        logits = self._logits(*args, **kwargs)
        return probabilities(self.mapped(logits, groups), self.class_axis).to(logits.dtype)

    def predict(self, *args: Any, **kwargs: Any) -> Tensor:
        """The predicted class of each row for the network's arguments, in eval mode and without gradient.

        The result has the shape of the logits without the classes, such as (n,) or (sequences, tokens). Temperatures do not
        change it; an affine map may. For a score z of shape (n,) or (..., 1) it is 1 where the calibrated score is positive.
        Afterwards every module has its previous mode.
        """
        self._groups_in(kwargs)  # which do not change predictions
        logits = self._logits(*args, **kwargs)
        if self.mapping is not None and not self.mapping.keeps_predictions:
            logits = self.mapped(logits)
        rows = classes_last(logits, self.class_axis)
        scores = scores_in(rows)
        return rows.argmax(dim=-1) if scores is None else (scores > 0).long()

    def fold(self, layer: nn.Module | str | None = None, *, probe: Any = None) -> nn.Module:
        """Fold the map into the last layer of the network in place, set ``temperature`` to 1, and return the network.

        Both then return calibrated logits, and the network does so at no extra cost. One temperature and affine maps can be
        folded. The last layer is found as by `fold_temperature`, which also describes ``probe``; or pass the ``layer``, or its
        name such as "backbone.top". A layer without a bias gets one if the map needs it, with an `InputWarning`.

        What `calibrate` returns has kept a few inputs, on which the folded logits are compared with the calibrated ones;
        otherwise pass a ``probe`` where you can, or False for no check. Without one it is not checked that the layer computes
        the logits, nor that nothing nonlinear (a tanh, a soft cap) follows it in ``forward``. A layer that you name and that
        would not be found by itself then gives an `InputWarning`.
        """
        check_calibrated_once(self)
        probe = self._probe_for(probe)
        map_ = self.map
        change, head = Change.from_map(map_), final_layer(self.model, layer)
        check_alone(self.model, map_)
        adds_bias = change.adds_bias(head.layer)
        fold_into(self.model, head, change, probe, self.class_axis, self._pick)
        self._use(Temperature(1.0), _device(self))
        mark_folded(head, map_, by=self)
        T = temperature_of(map_)
        if probe is None and layer is not None and T != 1 and not is_found(self.model, head):
            notice(
                f"It was not checked that {head} computes the logits, because `probe` was not passed. If another layer "
                "computes them, or a nonlinear function follows, the logits are now wrong. To check it, load the weights of "
                f"the network again and call `Calibrated(model, {'map' if T is None else f'{T:.9g}'}).fold({head.name!r}, "
                "probe=x)`, where x holds some inputs.",
                InputWarning,
            )
        if adds_bias:
            notice(
                f"{head} had no bias and has one now, which contains that of the affine map. A file of these weights must be "
                "loaded into a network whose last layer has a bias.",
                InputWarning,
            )
        return self.model

    def logits_processor(self) -> CalibratedLogits:
        """What makes ``generate`` of Hugging Face's models sample from calibrated probabilities.

        Call ``calibrated.model.generate(..., do_sample=True, top_k=0, logits_processor=[calibrated.logits_processor()])``: see
        `nishimori.torch.logits_processor`, which makes one from a saved calibration alone.
        """
        return CalibratedLogits(self.map)

    def save_pretrained(self, folder: Any, *args: Any, **kwargs: Any) -> Any:
        """Write a copy of the network with the map folded into its last layer, by its own ``save_pretrained``.

        The arguments are those of the network's method, such as that of Hugging Face's models. If the map cannot be folded,
        nothing is written, and an error says what to do; nor if the copy does not give the calibrated logits for the inputs
        that `calibrate` kept. The copy needs as much memory as the network.
        """
        check_calibrated_once(self)
        map_, model = self.map, self.model
        if temperature_of(map_) != 1:
            if kwargs.get("state_dict") is not None:
                raise InputError(
                    "state_dict",
                    "be left out of `save_pretrained`",
                    got=f"one: its weights do not contain {map_.in_words}",
                    remedy="Call `calibrated.fold()` first, and pass the state dict of the folded network.",
                )
            model = folded_copy(model, map_, self._probe_for(None), self.class_axis, self._pick)
        return model.save_pretrained(folder, *args, **kwargs)  # type: ignore[operator]

    def _probe_for(self, probe: Any) -> Any:
        """The user's probe; else what was kept of the calibration, where the network still takes it; None for no check."""
        if probe is not None:
            return None if probe is False else probe
        if self._probe is None:
            return None
        try:
            with evaluating(self.model):
                answer(self.model, move_to_device(self._probe, device_of(self.model)))
        except Exception:  # some networks take whole batches only
            return None
        return self._probe

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_probe": None}  # a file must not hold what the network was calibrated with

    def extra_repr(self) -> str:
        """T, if there is one, the method, and where the classes are if that is not the last dimension, for ``print``."""
        how = f"method={self.method!r}" + ("" if self.class_axis == -1 else f", class_axis={self.class_axis}")
        if self.mapping is not None:
            return how
        shown = "on meta" if self.temperature.is_meta else f"{float(self.temperature):.4g}"
        return f"temperature={shown}, {how}{'' if self.sketch is None else ', from a sketch'}"

    def _use(self, map_: Map, device: torch.device | None) -> None:
        """Make ``map_`` the map that is applied."""
        T = temperature_of(map_)
        if T is None:
            self._adopt(module_for(map_, device))
            return
        if "mapping" in self._modules:
            del self.mapping
        self.mapping = None
        value = torch.tensor(number(T, "temperature"), dtype=torch.float32, device=device)
        if "temperature" in self._buffers:
            self.temperature.copy_(value)
        else:
            self.register_buffer("temperature", value)

    def _adopt(self, mapping: MapModule) -> None:
        """Use a map with other parameters than one temperature."""
        if "temperature" in self._buffers:
            del self.temperature
        self.mapping = mapping

    def _groups_in(self, kwargs: dict[str, Any]) -> Any:
        """The argument ``groups``, taken out of those for the network, if the map needs groups."""
        return kwargs.pop("groups", None) if self.needs_groups else None

    def _logits(self, *args: Any, **kwargs: Any) -> Tensor:
        """The logits of the network in eval mode, not yet calibrated."""
        check_calibrated_once(self)
        with evaluating(self.model), torch.no_grad():
            logits = refuse_number(logits_of(self.model(*args, **kwargs), _NO_LOGITS, pick=self._pick).detach())
        check_classes(logits, self.n_classes, self.class_axis)
        return logits

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        start = f"{prefix}mapping."
        tensors = {key.removeprefix(start): tensor for key, tensor in state_dict.items() if key.startswith(start)}
        mapping = module_like(tensors, _device(self)) if tensors else None
        has_temperature = f"{prefix}temperature" in state_dict
        if mapping is not None:
            self._adopt(mapping)  # its values are loaded after those of this module
        elif has_temperature and self.mapping is not None:
            self._use(Temperature(1.0), _device(self))
        super()._load_from_state_dict(state_dict, prefix, *args)
        if has_temperature or mapping is not None:
            # They are not buffers: their values are needed without waiting for a device, and in graphs.
            *_, unexpected, errors = args
            n_classes = _stored_number(state_dict, f"{prefix}n_classes", unexpected, errors, least=2)
            axis = _stored_number(state_dict, f"{prefix}class_axis", unexpected, errors)
            own = None if self.mapping is None else self.mapping.n_classes
            self.n_classes = n_classes if own is None else own
            self.class_axis = self.class_axis if axis is None else axis
            self.method, self.temperatures, self.calibrator, self.sketch = "fixed", None, None, None  # of the previous map
            self._folded_outside = None

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        check_calibrated_once(self)  # whoever loads it could not know
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if self.n_classes is not None and (self.mapping is None or self.mapping.n_classes is None):
            destination[f"{prefix}n_classes"] = torch.tensor(self.n_classes, device="cpu")
        if self.class_axis != -1:
            destination[f"{prefix}class_axis"] = torch.tensor(self.class_axis, device="cpu")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        with lock:
            living.add(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            model = self.__dict__.get("_modules", {}).get("model")  # not set yet while unpickling
            # The `__deepcopy__` of the network would copy only the network, and its `temperature` is another one.
            if model is None or name.startswith("_") or name == "temperature":
                raise
            value = getattr(model, name)
            if _is_method(value):
                raise AttributeError(
                    f"`{name}` is a method of the wrapped network, which does not use the map of its Calibrated. Call "
                    f"`calibrated.model.{name}(...)` to use the network without calibration, or `calibrated.fold()` first, "
                    f"which moves the calibration into the weights where that is possible.{_GENERATE * (name == 'generate')}"
                ) from None
            return value


def logits_processor(temperature: "float | Tensor | Map | Calibrator | Calibrated") -> CalibratedLogits:
    """What makes ``generate`` of Hugging Face's models sample from calibrated probabilities.

    Pass it as ``generate(..., do_sample=True, top_k=0, logits_processor=[processor])``. With ``top_k=0``, because ``generate``
    otherwise keeps the 50 most probable tokens only; ``temperature`` and ``top_p`` of ``generate`` come on top of it.

    Parameters
    ----------
    temperature : float, Map, Calibrator or Calibrated
        T, a map, a fitted calibrator such as ``nishimori.load("calibration.json")``, or what `calibrate` returned.

    Returns
    -------
    CalibratedLogits
        A function of the tokens so far and the scores of the next one.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import logits_processor
    >>> processor = logits_processor(2.0)
    >>> processor(torch.tensor([[3, 7]]), torch.tensor([[4.0, 2.0, 0.0]]))
    tensor([[2., 1., 0.]])
    """
    return CalibratedLogits(temperature.map if isinstance(temperature, Calibrated) else _map_in(temperature))


def _stored_number(
    state_dict: Mapping[str, Any], key: str, unexpected: list[str], errors: list[str], least: int | None = None
) -> int | None:
    """A whole number that a state dict holds beside the buffers; None without it. One with a ``least`` may be large."""
    if key in unexpected:
        unexpected.remove(key)
    stored = state_dict.get(key)
    # Where all tensors of a state dict were converted to half precision, a large number is rounded.
    if stored is None or stored.is_meta or (least is not None and stored.is_floating_point()):
        return None
    if stored.numel() != 1 or float(stored) % 1 or (least is not None and stored < least):
        limit = "" if least is None else f" of at least {least}"
        errors.append(f"`{key}` must be one whole number{limit}, got {stored.tolist()!r:.60}.")
        return None
    return int(stored)


def _is_method(value: Any) -> bool:
    """Whether this is bound to a module, also inside decorators and partial functions, or was compiled by TorchScript."""
    while callable(value):
        if isinstance(value, torch.ScriptMethod) or isinstance(getattr(value, "__self__", None), nn.Module):
            return True
        value = value.func if isinstance(value, partial) else getattr(value, "__wrapped__", None)
    return False


def _is_fitted(value: Any) -> "TypeGuard[Calibrator]":
    """Whether this is a fitted calibrator. Its class is not imported, because it needs scikit-learn."""
    return isinstance(getattr(value, "map_", None), Map)


def _map_in(value: Any) -> Map:
    """The map that a user passed as a temperature, a map or a fitted calibrator."""
    if isinstance(value, Map):
        return value
    if _is_fitted(value):
        if value.floor_ is not None:
            raise InputError(
                "temperature",
                "be a calibrator without a `floor`",
                got=f"`floor={value.floor_!r}`, to which it raises probabilities before it calibrates them; logits of a "
                "network are not raised",
                remedy="Fit it to logits, or with `floor=None`.",
            )
        return value.map_
    if hasattr(value, "predict_proba"):
        raise InputError(
            "temperature",
            "be a number, a map or a fitted calibrator",
            got=f"a {type(value).__name__} without a map",
            remedy="Call its `fit`, or `calibrate(model, loader, method=calibrator)`. A calibrator of several labels "
            "per sample has several maps: use `calibrator.predict_proba(model(x))`.",
        )
    return Temperature(number(value, "temperature"))


def _check_free(model: nn.Module) -> None:
    """Refuse a network with an argument of its own called ``groups``."""
    try:
        taken = "groups" in inspect.signature(model.forward).parameters
    except (TypeError, ValueError):  # for example TorchScript read from a file
        taken = False
    if taken:
        raise InputError(
            "model",
            "not have an argument `groups` of its own: `calibrated(x, groups=groups)` passes those of the map",
            remedy="Wrap the network in a module that renames it.",
        )


def _device(calibrated: Calibrated) -> torch.device:
    """Where the parameters of the map are."""
    return next((calibrated if calibrated.mapping is None else calibrated.mapping).buffers(recurse=False)).device
