"""`Calibrated`, a network whose logits are divided by T, and `calibrate`, which finds T from a loader.

T is a buffer, so it is saved, loaded and moved with the weights. It stays in float32 when the weights are converted to half
precision, and the division is done in float32: rounding T to the eight bits of bfloat16 could change every logit by half
a percent.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

import nishimori
from nishimori._maps import divided, temperature_of
from nishimori._observables import BUILT_IN
from nishimori._sources import Source, source
from nishimori._temperatures import Temperatures, match, temperatures_of
from nishimori.errors import InputError
from nishimori.torch._collect import read
from nishimori.torch._division import divide
from nishimori.torch._head import final_layer
from nishimori.torch._run import check_module, device_of, logits_of, number, with_logits

if TYPE_CHECKING:
    from nishimori import Calibrator


class _Bound(partial[Any]):
    """A bound method of a wrapper, with the signature of the wrapped network, which is read only on request."""

    @property
    def __signature__(self) -> inspect.Signature:
        try:
            return inspect.signature(self.args[0].model.forward)
        except (TypeError, ValueError):  # for example TorchScript read from a file
            return inspect.signature(self.func.__get__(self.args[0]))


class _signature_of_model:  # noqa: N801 - a decorator
    """Decorator of a wrapper's ``forward``, which then has the signature of the wrapped network.

    Other tools read the names of a network's inputs from its signature: `torch.export` for dynamic shapes, ONNX for the inputs
    of the file, trainers for the columns to keep. This is not a property, because hooks must be able to set another
    ``forward`` on the instance.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.function
        if torch.compiler.is_dynamo_compiling():  # which would look up a bound method here again, in an infinite loop
            return partial(self.function, instance)
        return _Bound(self.function, instance)


class Calibrated(nn.Module):
    """A network whose logits are divided by a temperature.

    Call it like the network. It returns the same type of output (a tensor, an object with ``.logits`` or a dict with "logits")
    in the same dtype. Other attributes (``config``, ``fc``, ...) can be read from it, but must be set on ``model``. `calibrate`
    makes a `Calibrated` from a loader.

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
    network, such as ``generate``. Fold T into the weights if it should be used there.

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

    def __init__(self, model: nn.Module, temperature: float | Tensor = 1.0) -> None:
        super().__init__()
        check_module(model)
        T = torch.tensor(number(temperature, "temperature"), dtype=torch.float32, device=device_of(model))
        self.register_buffer("temperature", T)  # before `model`, which may have a `temperature` too
        self.model = model
        self.method: str = "fixed"
        self.found: Temperatures | None = None
        self.training = model.training

    @_signature_of_model
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The output of the network for the same arguments, with the logits divided by T."""
        output = self.model(*args, **kwargs)
        return with_logits(output, self._scaled(logits_of(output)))

    def predict_proba(self, *args: Any, **kwargs: Any) -> Tensor:
        """Calibrated probabilities (n, n_classes) for the network's arguments; a score z of shape (n,) means logits (0, z).

        Call `eval()` first: as for the network itself, dropout and batch normalisation depend on the mode.
        """
        output = self.model(*args, **kwargs)
        logits = logits_of(output)
        if logits.ndim not in (1, 2) or (logits.ndim == 2 and logits.shape[1] == 1):
            raise InputError(
                f"`model` must return logits of shape (n, n_classes), or (n,) for a binary score, got {tuple(logits.shape)}. "
                "Call the module itself and apply `softmax` over the dimension of the classes, or `sigmoid` to a single score."
            )
        scaled = self._scaled(logits.to(_wide(logits)))
        if scaled.ndim == 1:
            scaled = torch.stack([torch.zeros_like(scaled), scaled], dim=1)
        return scaled.softmax(dim=1).to(logits.dtype)

    def fold(self, *, probe: Any = None) -> nn.Module:
        """Fold T into the last layer of the network in place, set ``temperature`` to 1, and return the network.

        Both then return calibrated logits, and the network does so at no extra cost. See `fold_temperature` for ``probe``.
        """
        divide(self.model, final_layer(self.model), float(self.temperature), probe)
        self.temperature.fill_(1)
        return self.model

    def extra_repr(self) -> str:
        """T, for ``print``."""
        shown = "on meta" if self.temperature.is_meta else f"{float(self.temperature):.4g}"
        return f"temperature={shown}, method={self.method!r}"

    def _scaled(self, logits: Tensor) -> Tensor:
        wide, T = _wide(logits), self.temperature
        if T.device != logits.device:  # a network spread over devices
            T = T.to(logits.device)
        scaled: Tensor = divided(logits.to(wide), T.to(wide))
        return scaled.to(logits.dtype)

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

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            model = self.__dict__.get("_modules", {}).get("model")  # not set yet while unpickling
            if model is None or name.startswith("_"):  # the `__deepcopy__` of the network would copy only the network
                raise
            return getattr(model, name)


def calibrate(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    method: str = "ec",
    labels: str = "labels",
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Calibrated:
    """The network, wrapped so that its logits are divided by a temperature found on a validation loader.

    The loader is read once. Weights and modes of the network stay the same. If ``model`` is a `Calibrated`, its network is
    calibrated again, and the result has a new T.

    Parameters
    ----------
    model, loader, labels, device, progress
        As for `collect`. The network must not have been trained on the samples of the loader.
    method : str
        "ec": expectation consistency (mean confidence equals accuracy). "ts": temperature scaling (least cross-entropy). Or
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
      temperature=1.993, method='ec'
      (model): Identity()
    )
    >>> f"{calibrated.found.ts:.2f} {calibrated.found.accuracy:.3f}"
    '1.98 0.570'
    """
    chosen = nishimori.calibrator(method)
    network = model.model if isinstance(model, Calibrated) else model
    temperature, found = _chosen(chosen, source(*read(network, loader, labels, device, progress)))
    calibrated = Calibrated(network, temperature)
    calibrated.method, calibrated.found = chosen.method, found
    return calibrated


def _chosen(chosen: "Calibrator", data: Source) -> tuple[float, Temperatures]:
    """The temperature that ``chosen`` finds, and those of EC and TS, which share its readings where they can."""
    from nishimori._calibrators import OneTemperature  # noqa: PLC0415 - scikit-learn, which serving a network does not need

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


def _wide(logits: Tensor) -> torch.dtype:
    """The dtype for the division: at least float32."""
    return torch.promote_types(logits.dtype, torch.float32)
