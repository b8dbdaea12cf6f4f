"""Calibrated PyTorch networks: read a loader once, keep T beside the weights or fold it into them.

Needs torch: ``pip install 'nishimori[torch]'``. `calibrate` wraps a network so that it divides its own logits by T;
`fold_temperature` divides the weights of the last layer instead, which costs nothing when serving; `collect` gives the
logits and labels of a loader, for everything else in this library.
"""

from nishimori._optional import require

require("torch", extra="torch", for_="nishimori.torch")

from nishimori.torch._calibrated import Calibrated, calibrate  # noqa: E402 - only once torch is known to be there
from nishimori.torch._collect import Collected, collect  # noqa: E402
from nishimori.torch._fold import fold_temperature  # noqa: E402

__all__ = ["Calibrated", "Collected", "calibrate", "collect", "fold_temperature"]
