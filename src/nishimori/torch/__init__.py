"""Calibration of PyTorch networks: `calibrate` a network from a loader, then serve it with or without a wrapper.

Needs torch: ``pip install 'nishimori[torch]'``. `calibrate` wraps a network so that its logits are divided by T, or calibrated
by another map. `fold_temperature` divides the weights of the last layer instead, so that serving costs nothing extra. `collect`
returns the logits and labels of a loader, for metrics, plots and the other functions of this library. `to_onnx` writes a
calibrated network to an ONNX file. `logits_processor` calibrates what ``generate`` samples from. `across_ranks` and `reduced`
are for the processes of a distributed job. `Ensemble` and `MCDropout` average several networks or several dropout masks.
"""

from nishimori._support.optional import require

require("torch", extra="torch", for_="nishimori.torch")

from nishimori.torch._calibrate import calibrate  # noqa: E402 - after the check that torch is installed
from nishimori.torch._calibrated import Calibrated, logits_processor  # noqa: E402
from nishimori.torch._fold import fold_temperature  # noqa: E402
from nishimori.torch._loader import Collected, collect  # noqa: E402
from nishimori.torch._members import Ensemble, MCDropout  # noqa: E402
from nishimori.torch._onnx import to_onnx  # noqa: E402
from nishimori.torch._ranks import across_ranks, reduced  # noqa: E402

__all__ = [
    "Calibrated",
    "Collected",
    "Ensemble",
    "MCDropout",
    "across_ranks",
    "calibrate",
    "collect",
    "fold_temperature",
    "logits_processor",
    "reduced",
    "to_onnx",
]
