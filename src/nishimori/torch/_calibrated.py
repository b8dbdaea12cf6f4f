"""A network that divides its own logits by T: the same inputs, the same kind of output, honest confidence.

T is a buffer, so it is saved, loaded and moved with the weights. It stays in float32 when they go to half precision, and the
division is done there: rounding T to eight bits could change every logit by half a percent.
"""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from nishimori._record import Method
from nishimori._temperatures import Temperatures
from nishimori.errors import InputError
from nishimori.torch._division import divide, number
from nishimori.torch._outputs import logits_of, with_logits
from nishimori.torch._run import check_module, device_of
from nishimori.torch._signature import signature_of_model


class Calibrated(nn.Module):
    """A network whose logits are divided by a temperature.

    It is called like the network and returns the same kind of output: a tensor, an object with ``.logits`` or a dict with
    "logits", in the same dtype. Other attributes (``config``, ``fc``, ...) are those of the network. `calibrate` makes one
    from a loader.

    Parameters
    ----------
    model : torch.nn.Module
        The network. It is not copied.
    temperature : float
        T, positive and finite. The default is for loading a state dict into.

    Attributes
    ----------
    model : torch.nn.Module
        The network as it was.
    temperature : Tensor
        T, a float32 buffer without dimensions.
    method : {"ec", "ts", "fixed"}
        How T was chosen; "fixed" if it was passed.
    found : Temperatures or None
        What `calibrate` measured: both temperatures, accuracy, number of samples. Not part of the state dict.

    Notes
    -----
    What the network computes from its own logits does not see T: a ``loss`` returned beside them, or a method that calls the
    network, such as ``generate``. Fold T into the weights if it should.

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
        self.model = model
        self.register_buffer("temperature", T)
        self.method: Method = "fixed"
        self.found: Temperatures | None = None
        self.training = model.training

    @signature_of_model
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the network returns for the same arguments, with its logits divided by T."""
        output = self.model(*args, **kwargs)
        return with_logits(output, self._scaled(logits_of(output)))

    def predict_proba(self, *args: Any, **kwargs: Any) -> Tensor:
        """Calibrated probabilities (n, n_classes) for the same arguments as the network's; a flat score z counts as (0, z).

        As when the network itself is called, dropout and the like are off only in eval mode.
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

        Both then give calibrated logits, the network without any extra cost. See `fold_temperature`.
        """
        divide(self.model, float(self.temperature), probe)
        self.temperature.fill_(1)
        return self.model

    def extra_repr(self) -> str:
        """T, for ``print``."""
        shown = "on meta" if self.temperature.is_meta else f"{float(self.temperature):.4g}"
        return f"temperature={shown}, method={self.method!r}"

    def _scaled(self, logits: Tensor) -> Tensor:
        wide = _wide(logits)
        return (logits.to(wide) / self.temperature.to(wide)).to(logits.dtype)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = self.temperature
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        # The value from before, because a cast to half precision and back would round it. A meta tensor has none to keep.
        after = self.temperature
        self.temperature = after.to(torch.float32) if before.is_meta else before.to(after.device)
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            model = self.__dict__.get("_modules", {}).get("model")  # not there yet while unpickling
            if model is None:
                raise
            return getattr(model, name)


def _wide(logits: Tensor) -> torch.dtype:
    """The dtype to divide in: its own, but float32 for halves."""
    return torch.promote_types(logits.dtype, torch.float32)
