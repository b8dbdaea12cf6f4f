"""The classes of `nishimori.integrations.lightning` for those who import `pytorch_lightning`, whose bases are others."""

from nishimori._support.optional import require
from nishimori.integrations._lightning import LogsCalibration, PredictsCalibrated

require("pytorch_lightning", extra="lightning", for_="nishimori.integrations.pytorch_lightning")

from pytorch_lightning import Callback, LightningModule  # noqa: E402 - after the check that it is installed

__all__ = ["CalibratedModule", "CalibrationMonitor"]


def _on(base: type, mixin: type, name: str) -> type:
    return type(name, (mixin, base), {"__doc__": f"See `nishimori.integrations.lightning.{name}`.", "__module__": __name__})


CalibrationMonitor = _on(Callback, LogsCalibration, "CalibrationMonitor")
CalibratedModule = _on(LightningModule, PredictsCalibrated, "CalibratedModule")
