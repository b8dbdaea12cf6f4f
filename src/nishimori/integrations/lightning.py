"""Calibration in Lightning: a callback that logs it, and a module with which `Trainer.predict` gives probabilities.

    Trainer(callbacks=[CalibrationMonitor()])

logs ``val_ece``, ``val_gap`` (mean confidence minus accuracy) and ``val_temperature`` (the T that `nishimori.torch.calibrate`
would choose) at the end of each validation epoch. Where you import `pytorch_lightning`, import the same names from
`nishimori.integrations.pytorch_lightning`.
"""

from nishimori._support.optional import require
from nishimori.integrations._lightning import LogsCalibration, PredictsCalibrated

require("lightning.pytorch", extra="lightning", for_="nishimori.integrations.lightning")

from lightning.pytorch import Callback, LightningModule  # noqa: E402 - after the check that it is installed

__all__ = ["CalibratedModule", "CalibrationMonitor"]


class CalibrationMonitor(LogsCalibration, Callback):
    """Logs ECE, gap and T at the end of each validation epoch, and of each test.

    The names are ``val_ece``, ``val_gap`` and ``val_temperature``, or ``test_ece`` and so on; of several loaders
    ``val_ece/dataloader_0`` and so on. Logits are summed in a `Sketch` and not kept, and the sums of all processes are added.

    ``validation_step`` must return a dictionary with "logits", and with "labels" unless the batch is a mapping with "labels" or
    a tuple whose last entry holds them. ``test_step`` likewise.

    Parameters
    ----------
    method : str or Calibrator
        How T is chosen, as for `nishimori.torch.calibrate`: "adaptive", "ec", "ts", or another method for which sums are
        enough. Where no temperature fits, as early in training, T is left out.
    ignore_index, shift_labels, class_axis
        As for `nishimori.torch.collect`: which labels do not count, whether the label of each position is found at the next
        one, as for causal language models, and which dimension of the logits is that of the classes.

    Attributes
    ----------
    sketches : list of Sketch
        The sums of the last epoch for each loader: ``nishimori.evaluate(callback.sketches[0])`` has all metrics and the
        reliability diagram.

    Notes
    -----
    What cannot be measured, as logits that are NaN, is a warning. On several devices, Lightning's sampler repeats samples so
    that all have equally many; repeated ones count twice.

    Examples
    --------
    >>> import lightning
    >>> import torch
    >>> from nishimori.integrations.lightning import CalibrationMonitor
    >>> class Classifier(lightning.LightningModule):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.network = torch.nn.Linear(4, 3)
    ...
    ...     def validation_step(self, batch, batch_idx):
    ...         x, y = batch
    ...         logits = self.network(x)
    ...         loss = torch.nn.functional.cross_entropy(logits, y)
    ...         return {"loss": loss, "logits": logits}
    >>> loader = torch.utils.data.DataLoader(list(zip(torch.randn(60, 4), torch.arange(60) % 3)), batch_size=20)
    >>> quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    >>> trainer = lightning.Trainer(callbacks=[CalibrationMonitor()], **quiet)
    >>> (values,) = trainer.validate(Classifier(), loader, verbose=False)
    >>> "val_ece" in values
    True
    """


class CalibratedModule(PredictsCalibrated, LightningModule):
    """A calibrated network for `Trainer.predict`, which then gives calibrated probabilities.

    Batches are those that `nishimori.torch.calibrate` takes: a tuple of inputs and, last, labels, which are left out; a mapping
    whose "labels" are left out; or a tensor, or a tuple of one, of inputs alone.

    Parameters
    ----------
    calibrated : Calibrated
        What `nishimori.torch.calibrate` returned.

    Examples
    --------
    >>> import lightning
    >>> import torch
    >>> from nishimori.integrations.lightning import CalibratedModule
    >>> from nishimori.torch import Calibrated
    >>> module = CalibratedModule(Calibrated(torch.nn.Linear(4, 3), temperature=2.0))
    >>> loader = torch.utils.data.DataLoader(torch.randn(6, 4), batch_size=4)
    >>> quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    >>> [p.shape for p in lightning.Trainer(**quiet).predict(module, loader)]
    [torch.Size([4, 3]), torch.Size([2, 3])]
    """
