"""The classes of `nishimori.integrations.lightning` for those who import `pytorch_lightning`, whose bases are others."""

from typing import TYPE_CHECKING

from nishimori._support.optional import require
from nishimori.integrations._lightning import LogsCalibration, PredictsCalibrated

require("pytorch_lightning", extra="lightning", for_="nishimori.integrations.pytorch_lightning")

from pytorch_lightning import Callback, LightningModule  # noqa: E402 - after the check that it is installed

if TYPE_CHECKING:
    from nishimori.torch import Calibrated

__all__ = ["CalibratedModule", "CalibrationCallback"]


class CalibrationCallback(LogsCalibration, Callback):
    """See `nishimori.integrations.lightning.CalibrationCallback`."""


class CalibratedModule(PredictsCalibrated, LightningModule):
    """See `nishimori.integrations.lightning.CalibratedModule`."""

    def __init__(self, calibrated: "Calibrated") -> None:
        super().__init__()
        self.calibrated = calibrated
