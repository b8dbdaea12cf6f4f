"""Calibrated logits inside ``generate`` of Hugging Face's models, which calls the network and not a wrapper around it."""

from typing import TYPE_CHECKING

from torch import Tensor, nn

from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.torch._calibrated import Calibrated

if TYPE_CHECKING:
    from nishimori import Calibrator


class CalibratedLogits:
    """What ``generate`` calls for the scores of each next token: a logits processor of transformers, without importing it."""

    def __init__(self, calibrated: Calibrated) -> None:
        self.calibrated = calibrated

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:  # noqa: ARG002 - as transformers calls it
        """The calibrated scores of the next tokens, of shape (sequences, vocabulary)."""
        self.calibrated.to(scores.device)  # of a few numbers
        return self.calibrated.mapped(scores).to(scores.dtype)

    def __repr__(self) -> str:
        return f"CalibratedLogits({self.calibrated.extra_repr()})"


class _NoNetwork(nn.Module):
    """Stands where the network of a map would be."""

    def forward(self, scores: Tensor) -> Tensor:
        return scores


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
    calibrated = temperature if isinstance(temperature, Calibrated) else Calibrated(_NoNetwork(), temperature)
    if calibrated.needs_groups:
        must = "not have a temperature per group: `generate` does not say which group a sequence is of"
        raise InputError("temperature", must, remedy="Make one processor per group.")
    if isinstance(temperature, Calibrated):  # its network may be on several devices
        calibrated = Calibrated(_NoNetwork(), temperature.map)
    return CalibratedLogits(calibrated)
