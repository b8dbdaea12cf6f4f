"""`Calibrated`, a network whose logits are divided by T, and `calibrate`, which finds T from a loader.

T is a buffer, so it is saved, loaded and moved with the weights. It stays in float32 when the weights are converted to half
precision, and the division is done in float32: rounding T to the eight bits of bfloat16 could change every logit by half
a percent.
"""

from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakSet

import torch
from torch import Tensor, nn

import nishimori
from nishimori._maps import temperature_of
from nishimori._matching import match
from nishimori._notice import notice
from nishimori._observables import BUILT_IN
from nishimori._sources import Source, source
from nishimori._temperatures import Temperatures, temperatures_of
from nishimori.errors import InputError, InputWarning
from nishimori.torch._batches import LABELS, Forward, Rule
from nishimori.torch._borrowed import borrowed
from nishimori.torch._collect import NO_SOFTMAX, read
from nishimori.torch._division import divide
from nishimori.torch._head import Head, final_layer, is_found
from nishimori.torch._logits import logits_of, probabilities, rows_of, scaled, with_logits
from nishimori.torch._modes import evaluating
from nishimori.torch._run import check_module, device_of, number
from nishimori.torch._signature import signature_of_model

if TYPE_CHECKING:
    from nishimori import Calibrator

_NO_LOGITS = (
    "Wrap the model in a module whose `forward` returns the logits alone; or fold T into its weights with `calibrated.fold()` "
    "and call the model itself."
)


class Calibrated(nn.Module):
    """A network whose logits are divided by a temperature.

    Call it like the network. It returns the same type of output (a tensor, an object with ``.logits`` or a dict with "logits")
    in the same dtype. Other attributes (``config``, ``fc``, ...) can be read from it, but must be set on ``model``: one that is
    set on the `Calibrated` stays there, and the network does not see it. `calibrate` makes a `Calibrated` from a loader.

    Methods of the network that save it (``save_pretrained``, ``push_to_hub``, ``export``, ...) write a copy with T folded into
    its last layer, or raise an error if T cannot be folded.

    Parameters
    ----------
    model : torch.nn.Module
        The network. It is not copied.
    temperature : float
        T, positive and finite. Keep the default if you load a state dict afterwards.

    Attributes
    ----------
    model : torch.nn.Module
        The network itself.
    temperature : Tensor
        T, a float32 buffer of shape ().
    method : str
        How T was chosen; "fixed" if it was passed or loaded.
    found : Temperatures or None
        What `calibrate` measured: both temperatures, accuracy, number of samples. Not part of the state dict; None after
        loading one.

    Notes
    -----
    What the network itself computes from its logits does not use T: a ``loss`` in the same output, or a method that calls the
    network, such as ``generate``, which gives a warning. Fold T into the weights if it should be used there.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import Calibrated
    >>> network = torch.nn.Linear(4, 3)
    >>> calibrated = Calibrated(network, temperature=2.0)
    >>> x = torch.randn(5, 4)
    >>> torch.equal(calibrated(x), network(x) / 2)
    True
    >>> calibrated.predict_proba(x).shape
    torch.Size([5, 3])
    """

    temperature: Tensor
    _folded_outside: str | None = None  # what was folded into the network without this wrapper

    def __init__(self, model: nn.Module, temperature: float | Tensor = 1.0) -> None:
        super().__init__()
        check_module(model)
        T = torch.tensor(number(temperature, "temperature"), dtype=torch.float32, device=device_of(model))
        self.register_buffer("temperature", T)  # before `model`, which may have a `temperature` too
        self.model = model
        self.method: str = "fixed"
        self.found: Temperatures | None = None
        self.training = model.training
        _register(self)

    @signature_of_model
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the network for the same arguments, with the logits divided by T."""
        check_divided_once(self)
        output = self.model(*args, **kwargs)
        return with_logits(output, scaled(logits_of(output, _NO_LOGITS), self.temperature))

    def predict_proba(self, *args: Any, **kwargs: Any) -> Tensor:
        """Calibrated probabilities (n, n_classes) for the network's arguments, in eval mode and without gradient.

        A score z of shape (n,) or (n, 1) means the logits (0, z). Afterwards every module has its previous mode.
        """
        return probabilities(self._rows(*args, **kwargs), self.temperature)

    def predict(self, *args: Any, **kwargs: Any) -> Tensor:
        """The predicted class of each row (n,) for the network's arguments, in eval mode and without gradient.

        T does not change it. For a score z of shape (n,) or (n, 1) it is 1 where z > 0. Afterwards every module has its
        previous mode.
        """
        logits = self._rows(*args, **kwargs)
        return logits.argmax(dim=1) if logits.ndim == 2 else (logits > 0).long()

    def fold(self, layer: nn.Module | str | None = None, *, probe: Any = None) -> nn.Module:
        """Fold T into the last layer of the network in place, set ``temperature`` to 1, and return the network.

        Both then return calibrated logits, and the network does so at no extra cost. The last layer is found as by
        `fold_temperature`, which also describes ``probe``; or pass the ``layer``, or its name such as "backbone.top".

        Pass a ``probe`` where you can: without one it is not checked that the layer computes the logits, nor that nothing
        nonlinear (a tanh, a soft cap) follows it in ``forward``. A layer that you name and that would not be found by itself
        then gives an `InputWarning`.
        """
        check_divided_once(self)
        temperature, head = float(self.temperature), final_layer(self.model, layer)
        divide(self.model, head, temperature, probe)
        self.temperature.fill_(1)
        tell_others(head, temperature, by=self)
        if probe is None and layer is not None and temperature != 1 and not is_found(self.model, head):
            notice(
                f"It was not checked that {head} computes the logits, because `probe` was not passed. If another layer "
                "computes them, or a nonlinear function follows, the logits are now wrong. To check it, load the weights of "
                f"the network again and call `Calibrated(model, {temperature:.9g}).fold({head.name!r}, probe=x)`, where x "
                "holds some inputs.",
                InputWarning,
            )
        return self.model

    def extra_repr(self) -> str:
        """T, for ``print``."""
        shown = "on meta" if self.temperature.is_meta else f"{float(self.temperature):.4g}"
        return f"temperature={shown}, method={self.method!r}"

    def _rows(self, *args: Any, **kwargs: Any) -> Tensor:
        """The logits (n, n_classes) or scores (n,) of the network in eval mode, not yet divided."""
        check_divided_once(self)
        with evaluating(self.model), torch.no_grad():
            return rows_of(logits_of(self.model(*args, **kwargs), _NO_LOGITS).detach())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = self.temperature
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # Restore the old value, because a cast to half precision would round it. A meta tensor has no value.
        after = self.temperature
        self.temperature = after.to(torch.float32) if before.is_meta else before.to(after.device)
        return self

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *args)
        if f"{prefix}temperature" in state_dict:
            self.temperature = self.temperature.to(torch.float32)  # `assign=True` takes over the dtype of the file
            self.method, self.found = "fixed", None  # they belong to the previous T
            self._folded_outside = None

    def _save_to_state_dict(self, *args: Any) -> None:
        check_divided_once(self)  # whoever loads it could not know
        super()._save_to_state_dict(*args)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        _register(self)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            model = self.__dict__.get("_modules", {}).get("model")  # not set yet while unpickling
            if model is None or name.startswith("_"):  # the `__deepcopy__` of the network would copy only the network
                raise
            return borrowed(name, getattr(model, name), model, self._temperature)

    def _temperature(self) -> float:
        check_divided_once(self)
        return float(self.temperature)


_living: WeakSet[Calibrated] = WeakSet()
_lock = Lock()  # a set cannot be read while another thread adds to it


def _register(calibrated: Calibrated) -> None:
    with _lock:
        _living.add(calibrated)


def tell_others(head: Head, temperature: float, by: Calibrated | None = None) -> None:
    """Note in every `Calibrated` around a layer that was divided, on behalf of ``by``, that T would divide its logits again."""
    inside = [] if by is None else list(by.modules())
    with _lock:
        living = list(_living)
    for each in living:
        parts = list(each.modules())
        # What contains `by` returns the same logits as before; what is part of `by` still divides by a temperature of its own.
        related = any(part is by for part in parts) or any(part is each for part in inside)
        if not related and any(part is head.layer for part in parts):
            each._folded_outside = f"{temperature:.4g} folded into {head}"


def check_divided_once(calibrated: Calibrated) -> None:
    """Refuse to divide by T if it, or another temperature, was folded into the network without its `Calibrated`."""
    if calibrated._folded_outside is None:
        return
    T = float(calibrated.temperature)
    if T != 1:
        raise InputError(
            f"The logits must be divided by T only once, got a network with {calibrated._folded_outside}, while its "
            f"`Calibrated` still divides by {T:.4g}. Use the network itself, `calibrated.model`, or wrap it again: "
            "`Calibrated(calibrated.model)`. To fold and keep the wrapper, call `calibrated.fold()`, which sets its "
            "temperature to 1."
        )
    calibrated._folded_outside = None


def calibrate(
    model: nn.Module,
    loader: Iterable[Any] | tuple[Any, ...],
    *,
    forward: Forward | None = None,
    method: str = "auto",
    labels: str = LABELS,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Calibrated:
    """The network, wrapped so that its logits are divided by a temperature found on a validation loader.

    The loader is read once. Weights and modes of the network stay the same. If ``model`` is a `Calibrated`, its network is
    calibrated again, and the result has a new T. If a temperature is folded into its weights, the new T comes on top of it.

    Parameters
    ----------
    model, loader, forward, labels, device, progress
        As for `collect`. The network must not have been trained on the samples of the loader.
    method : str
        "auto": between the next two, and closer to "ec" the more samples there are (`AdaptiveConsistency`). "ec": expectation
        consistency (mean confidence equals accuracy). "ts": temperature scaling (lowest cross-entropy). "none": T = 1. Or
        another name that `nishimori.calibrator` takes, of a method that chooses one temperature.

    Returns
    -------
    Calibrated
        With the network as ``model``, T as ``temperature``, and both temperatures and the accuracy in ``found``.

    Raises
    ------
    NoTemperatureError
        If no temperature fits; the message says why.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from nishimori.torch import calibrate
    >>> rng = np.random.default_rng(0)
    >>> x = 3 * rng.normal(size=(2000, 5))
    >>> y = (x / 2 + rng.gumbel(size=x.shape)).argmax(axis=1)  # drawn at T = 2
    >>> calibrated = calibrate(torch.nn.Identity(), [(torch.tensor(x), torch.tensor(y))])
    >>> calibrated
    Calibrated(
      temperature=1.978, method='auto'
      (model): Identity()
    )
    >>> f"{calibrated.found.ts:.2f} {calibrated.found.accuracy:.3f}"
    '1.98 0.570'
    """
    chosen = nishimori.calibrator(method)
    network = model.model if isinstance(model, Calibrated) else model
    logits, truth = read(network, loader, Rule(labels, forward), device, progress)
    temperature, found = _chosen(chosen, source(logits, truth, probability_remedy=NO_SOFTMAX))
    calibrated = Calibrated(network, temperature)
    calibrated.method, calibrated.found = chosen.method, found
    return calibrated


def _chosen(chosen: "Calibrator", data: Source) -> tuple[float, Temperatures]:
    """The temperature that ``chosen`` finds, and those of EC and TS, which share its readings where they can."""
    # They import scikit-learn, which serving a network does not need.
    from nishimori._adapted import Adapted, match_both  # noqa: PLC0415
    from nishimori._calibrators import AdaptiveConsistency, OneTemperature  # noqa: PLC0415

    if isinstance(chosen, AdaptiveConsistency):
        matched = match_both(data)
        return Adapted.of(matched).temperature, Temperatures.of(matched)
    if isinstance(chosen, OneTemperature):
        observable = chosen.observable_for(data.n_classes)
        wanted = [*BUILT_IN.values(), *([] if observable in BUILT_IN.values() else [observable])]
        matched = match(data, *wanted)
        temperature, _ = matched.chosen(wanted.index(observable))
        return temperature, Temperatures.of(matched)
    one = temperature_of(chosen.fit(data).map_)
    if one is None:
        raise InputError(f"`method` must choose one temperature, got {chosen.method!r}, which does more than divide logits.")
    return one, temperatures_of(data, warn=False)
