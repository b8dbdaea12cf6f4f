"""What `lightning` and `pytorch_lightning` have in common: the same classes on two bases."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nishimori._sketch.sketch import Sketch
from nishimori.errors import InputError
from nishimori.integrations._sums import EvaluationSums
from nishimori.torch._batches import IGNORED, LABELS
from nishimori.torch._run import structure

if TYPE_CHECKING:
    from nishimori import Calibrator
    from nishimori.torch import Calibrated


class LogsCalibration:
    """The hooks of `CalibrationMonitor`."""

    def __init__(
        self,
        *,
        method: "str | Calibrator" = "adaptive",
        ignore_index: int | None = IGNORED,
        shift_labels: bool = False,
        class_axis: int = -1,
    ) -> None:
        self.sketches: list[Sketch | None] = []
        how: Any = {"shift_labels": shift_labels, "class_axis": class_axis}
        self._new_sums = partial(EvaluationSums, method, ignore_index, **how)
        self._new_sums()  # which checks the method
        self._sums: list[EvaluationSums] = []

    def on_validation_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin with no rows for each loader."""
        self._start(trainer.num_val_batches)

    def on_test_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin with no rows for each loader."""
        self._start(trainer.num_test_batches)

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Add a batch."""
        self._sums[dataloader_idx].add(*_rows_of(outputs, batch, "validation_step"))

    def on_test_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Add a batch."""
        self._sums[dataloader_idx].add(*_rows_of(outputs, batch, "test_step"))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the values of the epoch."""
        if not trainer.sanity_checking:
            self._log(pl_module, "val")

    def on_test_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the values of the test."""
        self._log(pl_module, "test")

    def _start(self, n_batches: list[Any]) -> None:
        self._sums = [self._new_sums() for _ in n_batches]

    def _log(self, pl_module: Any, stage: str) -> None:
        closed = [sums.close() for sums in self._sums]
        self.sketches = [sketch for sketch, _ in closed]
        for number, (_, values) in enumerate(closed):
            of_loader = f"/dataloader_{number}" * (len(closed) > 1)
            named = {f"{stage}_{name}{of_loader}": value for name, value in values.items()}
            # All ranks have the same values. Without `sync_dist` Lightning would warn that they may not.
            pl_module.log_dict(named, sync_dist=True)


def _rows_of(outputs: Any, batch: Any, step: str) -> tuple[Tensor, Any]:
    """The logits that a step has returned, and the labels, which may be in its batch."""
    if not isinstance(outputs, Mapping) or not isinstance(outputs.get("logits"), Tensor):
        must, remedy = "return a dictionary with the logits", 'Write `return {"loss": loss, "logits": logits}`.'
        raise InputError(step, must, got=structure(outputs), remedy=remedy)
    holder = outputs if LABELS in outputs else batch
    if isinstance(holder, Mapping) and LABELS in holder:
        return outputs["logits"], holder[LABELS]
    if isinstance(holder, tuple | list) and len(holder) > 1:
        return outputs["logits"], holder[-1]
    must, remedy = "also return the labels of this batch", 'Write `return {"loss": loss, "logits": logits, "labels": labels}`.'
    raise InputError(step, must, got=f"{structure(outputs)} for the batch {structure(batch)}", remedy=remedy)


class PredictsCalibrated:
    """The step of `CalibratedModule`."""

    def __init__(self, calibrated: "Calibrated") -> None:
        super().__init__()
        self.calibrated = calibrated

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the calibrated network returns."""
        return self.calibrated(*args, **kwargs)

    def predict_step(self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0) -> Tensor:
        """The calibrated probabilities of a batch."""
        if isinstance(batch, Mapping):
            return self.calibrated.predict_proba(**{name: value for name, value in batch.items() if name != LABELS})
        if isinstance(batch, tuple | list):
            return self.calibrated.predict_proba(*batch[: max(1, len(batch) - 1)])
        return self.calibrated.predict_proba(batch)
