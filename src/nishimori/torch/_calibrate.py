"""`calibrate`: a network, calibrated from a validation loader by any method."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

import nishimori
from nishimori._matching import match
from nishimori._observables import BUILT_IN
from nishimori._sources import Source, source
from nishimori._temperatures import Temperatures, temperatures_of
from nishimori.errors import InputError
from nishimori.torch._batches import LABELS, Forward, Rule
from nishimori.torch._calibrated import Calibrated
from nishimori.torch._collect import NO_SOFTMAX, read

if TYPE_CHECKING:
    from nishimori import Calibrator


def calibrate(
    model: nn.Module,
    loader: Iterable[Any] | tuple[Any, ...],
    *,
    forward: Forward | None = None,
    method: "str | Calibrator" = "auto",
    labels: str = LABELS,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Calibrated:
    """The network, wrapped so that its logits are calibrated: divided by a temperature found on a validation loader, or more.

    The loader is read once. Weights and modes of the network stay the same. If ``model`` is a `Calibrated`, its network is
    calibrated again, and the result has a new map. If a temperature is folded into its weights, the new map comes on top of it.

    Parameters
    ----------
    model, loader, labels, device, progress
        As for `collect`. The network must not have been trained on the samples of the loader.
    forward : callable, optional
        As for `collect`. With one temperature per group, it returns the group of each sample too: (logits, labels, groups).
    method : str or Calibrator
        "auto": between the next two, and closer to "ec" the more samples there are (`AdaptiveConsistency`). "ec": expectation
        consistency (mean confidence equals accuracy). "ts": temperature scaling (lowest cross-entropy). "none": T = 1. Or
        another name that `nishimori.calibrator` takes, such as "group", "bias", "vector" or "matrix". Or a calibrator, to give
        it parameters: ``method=nishimori.ExpectationConsistency(top_n=5)``. It is copied before it is fitted.

    Returns
    -------
    Calibrated
        With the network as ``model``, what is applied to its logits as ``map``, for one temperature also as ``temperature``,
        the fitted calibrator as ``calibrator``, and the temperatures of EC and TS and the accuracy in ``found``.

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
    >>> calibrate(torch.nn.Identity(), (torch.tensor(x), torch.tensor(y)))
    Calibrated(
      temperature=1.978, method='auto'
      (model): Identity()
    )
    """
    chosen = _unfitted(method)
    network = model.model if isinstance(model, Calibrated) else model
    rows = read(network, loader, Rule(labels, forward, _needs_groups(chosen)), device, progress)
    data = source(rows.logits, rows.labels, groups=rows.groups, probability_remedy=NO_SOFTMAX)
    fitted, found = _fitted(chosen, data)
    calibrated = Calibrated(network, fitted)
    calibrated.found = found
    return calibrated


def _unfitted(method: "str | Calibrator") -> "Calibrator":
    """A calibrator of the user's own, copied, so that theirs stays as it was; or one by the name of its method."""
    # They import scikit-learn, which serving a network does not need.
    from sklearn.base import clone  # noqa: PLC0415

    from nishimori._calibrators import Calibrator  # noqa: PLC0415

    if not isinstance(method, Calibrator):
        return nishimori.calibrator(method)
    if method.input != "logits":
        raise InputError(
            f"`method` must take logits, as the network returns them, got a {type(method).__name__} with "
            f"`input={method.input!r}`. Leave `input` out."
        )
    copied: Calibrator = clone(method)
    return copied


def _needs_groups(chosen: "Calibrator") -> bool:
    """Whether a calibrator is fitted to groups that the user passes."""
    return getattr(chosen, "by", None) == "groups"


def _fitted(chosen: "Calibrator", data: Source) -> "tuple[Calibrator, Temperatures]":
    """``chosen``, fitted, and the temperatures of EC and TS, which share its readings where they can."""
    from nishimori._adapted import match_both  # noqa: PLC0415
    from nishimori._calibrators import AdaptiveConsistency, OneTemperature  # noqa: PLC0415

    if isinstance(chosen, AdaptiveConsistency):
        matched = match_both(data)
        return chosen.adopt(data, data, matched), Temperatures.of(matched)
    if isinstance(chosen, OneTemperature):
        observable = chosen.observable_for(data.n_classes)
        wanted = [*BUILT_IN.values(), *([] if observable in BUILT_IN.values() else [observable])]
        matched = match(data, *wanted)
        return chosen.adopt(data, data, matched, wanted.index(observable)), Temperatures.of(matched)
    return chosen.fit(data), temperatures_of(data, warn=False)
