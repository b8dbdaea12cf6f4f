"""From a network and a validation loader to a calibrated network, in one reading."""

from collections.abc import Iterable
from typing import Any, Literal, get_args

import torch
from torch import nn

from nishimori._inputs import batches
from nishimori._observables import Confidence, Energy, Observable
from nishimori._temperatures import fit_one, temperatures_of
from nishimori.errors import InputError
from nishimori.torch._calibrated import Calibrated
from nishimori.torch._collect import read

Choice = Literal["ec", "ts"]


def calibrate(
    model: nn.Module,
    loader: Iterable[Any],
    *,
    method: Choice = "ec",
    labels: str = "labels",
    device: torch.device | str | None = None,
) -> Calibrated:
    """The network, wrapped so that its logits are divided by the temperature that suits a validation loader.

    The loader is read once, in eval mode and without gradients; its logits are kept on the CPU in the precision they came
    in. The network's weights and modes stay as they were. A `Calibrated` is calibrated afresh: its network is read, and the
    result has a new T.

    Parameters
    ----------
    model, loader, labels, device
        As for `collect`. The loader's samples must not be those the network was trained on.
    method : {"ec", "ts"}
        Expectation consistency, where mean confidence equals accuracy, or temperature scaling, where the cross-entropy is
        least.

    Returns
    -------
    Calibrated
        With the network as ``model``, T as ``temperature``, and both temperatures and the accuracy in ``found``.

    Raises
    ------
    NoTemperatureError
        If no temperature satisfies the condition; the message says why.

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
    if method not in get_args(Choice):
        raise InputError(f"`method` must be 'ec' or 'ts', got {method!r}.")
    network = model.model if isinstance(model, Calibrated) else model
    data = batches(*read(network, loader, labels, device))
    found = temperatures_of(data)
    temperature = found.ec if method == "ec" else found.ts
    if temperature is None:
        wanted: Observable = Confidence() if method == "ec" else Energy()
        temperature, _ = fit_one(data, wanted, right=Confidence())  # raises, with the reason
    calibrated = Calibrated(network, temperature)
    calibrated.method, calibrated.found = method, found
    return calibrated
