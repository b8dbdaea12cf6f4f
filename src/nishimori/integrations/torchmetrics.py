"""Calibration as a metric of torchmetrics: ECE, gap, NLL, Brier score and T from one state of fixed size."""

from math import inf, nan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from nishimori._rows.entry import open_rows
from nishimori._rows.scores import Input, ScoreRange
from nishimori._sketch.sketch import Sketch
from nishimori._support.optional import require
from nishimori.errors import NoRowsError
from nishimori.integrations._sums import calibrator_of_sums, scorecard_and_temperature
from nishimori.torch._run import classes_last

require("torchmetrics", extra="torchmetrics", for_="nishimori.integrations.torchmetrics")

from torchmetrics import Metric  # noqa: E402 - after the check that it is installed

if TYPE_CHECKING:
    from nishimori import Calibrator

__all__ = ["CalibrationMetric"]

_METRICS = ("ece", "gap", "nll", "brier", "confidence", "accuracy")
_STATES = ("sums", "lows", "highs")
_REMEDY = (
    'Pass `CalibrationMetric(input="probabilities")` if these are probabilities, or `CalibrationMetric(input="logits")` if '
    "they are scores before the softmax."
)


class CalibrationMetric(Metric):
    """ECE, gap, NLL, Brier score and T of a classifier, from the sums of a `Sketch`.

    `compute` returns a dictionary with "ece", "gap" (mean confidence minus accuracy), "nll", "brier", "confidence", "accuracy"
    and "temperature" (the T that `nishimori.torch.calibrate` would choose; NaN where no temperature fits, as early in
    training).
    All values are NaN if there are no rows.

    Parameters
    ----------
    method : str or Calibrator
        How T is chosen: "adaptive", "ec", "ts", or another method for which sums are enough.
    ignore_index : int, optional
        Samples with this label do not count.
    class_axis : int
        Which dimension of ``preds`` is that of the classes. Metrics of torchmetrics have it at 1.
    input : {"logits", "probabilities"}, optional
        What ``preds`` are. Without it they are logits, and `compute` refuses numbers that all lie between 0 and 1.
    floor : float, optional
        What smaller probabilities are raised to; by default only exact zeros are.
    **kwargs
        What every `torchmetrics.Metric` takes, such as ``sync_on_compute``.

    Notes
    -----
    The state is a vector of float64 of some thousand numbers, whatever the number of samples and classes, and stays in float64
    when a network is converted to half precision. Processes add theirs.

    Examples
    --------
    >>> import torch
    >>> from nishimori.integrations.torchmetrics import CalibrationMetric
    >>> metric = CalibrationMetric()
    >>> generator = torch.Generator().manual_seed(0)
    >>> for _ in range(10):  # batches
    ...     logits = 3 * torch.randn(200, 5, generator=generator)
    ...     labels = torch.multinomial((logits / 2).softmax(dim=1), 1, generator=generator)[:, 0]  # drawn at T = 2
    ...     metric.update(logits, labels)
    >>> for name, value in metric.compute().items():
    ...     print(f"{name} {value:.2f}")
    ece 0.19
    gap 0.19
    nll 1.34
    brier 0.62
    confidence 0.76
    accuracy 0.57
    temperature 2.06
    """

    is_differentiable = False
    full_state_update = False

    sums: Tensor
    lows: Tensor
    highs: Tensor

    def __init__(
        self,
        *,
        method: "str | Calibrator" = "adaptive",
        ignore_index: int | None = None,
        class_axis: int = -1,
        input: Input | None = None,
        floor: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.ignore_index, self.class_axis, self.input, self.floor = ignore_index, class_axis, input, floor
        self._chosen = calibrator_of_sums(method)
        state = self._empty_sketch().state
        self._sizes = [len(array) for array in state.values()]
        # The last two say how far scores reach, which shows whether they can be logits.
        self.add_state("sums", torch.zeros(sum(self._sizes), dtype=torch.float64), "sum")
        self.add_state("lows", torch.tensor([inf, 1, 1], dtype=torch.float64), "min")
        self.add_state("highs", torch.tensor([-inf, 0], dtype=torch.float64), "max")

    def _empty_sketch(self) -> Sketch:
        return Sketch(input=self.input or "logits", floor=self.floor)

    @property
    def sketch(self) -> Sketch:
        """The sums of this process; inside ``with metric.sync_context():`` those of all.

        ``nishimori.evaluate(metric.sketch).reliability`` is the reliability diagram.
        """
        sketch = self._empty_sketch()
        parts = np.split(self.sums.cpu().numpy(), np.cumsum(self._sizes)[:-1])
        sketch.state = dict(zip(sketch.state, parts, strict=True))
        return sketch

    def update(self, preds: Tensor, target: Tensor) -> None:
        """Add a batch of logits, or of probabilities, and its labels."""
        how: Any = {"input": self.input, "floor": self.floor, "ignore_index": self.ignore_index, "names": ("preds", "target")}
        try:
            rows = open_rows(classes_last(preds.detach(), self.class_axis), target, guard="defer", **how)
        except NoRowsError:
            return
        state = self.sketch.update(rows).state
        device, reach = self.sums.device, rows.score_range or ScoreRange()
        self.sums = torch.from_numpy(np.concatenate([*state.values()])).to(device)
        lows, highs = [reach.lowest, reach.are_floats, reach.sum_to_one], [reach.highest, reach.is_flat]
        self.lows = torch.minimum(self.lows, torch.tensor(lows, dtype=torch.float64, device=device))
        self.highs = torch.maximum(self.highs, torch.tensor(highs, dtype=torch.float64, device=device))

    def compute(self) -> dict[str, Tensor]:
        """All values, of all processes."""
        sketch = self.sketch
        values = dict.fromkeys((*_METRICS, "temperature"), nan)
        if sketch.n_samples:
            if self.input is None:
                (lowest, are_floats, sum_to_one), (highest, is_flat) = self.lows.tolist(), self.highs.tolist()
                reach = lowest, highest, sketch.n_samples, bool(are_floats), bool(sum_to_one), bool(is_flat)
                ScoreRange(*reach).check("preds", _REMEDY)
            card, temperature = scorecard_and_temperature(sketch, self._chosen)
            values |= {name: getattr(card, name) for name in _METRICS} | (
                {} if temperature is None else {"temperature": temperature}
            )
        return {name: torch.tensor(value, dtype=self.dtype, device=self.sums.device) for name, value in values.items()}

    def _apply(self, fn: Any, exclude_state: Any = ()) -> Any:  # noqa: ARG002
        """Move the state with the module, but keep it in float64, which Apple's GPUs do not have."""
        super()._apply(fn, exclude_state=_STATES)
        device = "cpu" if self.device.type == "mps" else self.device
        for name in _STATES:
            setattr(self, name, getattr(self, name).to(device))
        return self
