"""Pictures of calibration, drawn on the axes that you pass. Needs matplotlib: ``pip install 'nishimori[plot]'``.

Each function returns the axes and changes no global settings. `reliability_diagram`, `temperature_curve`, `risk_coverage` and
`group_gaps` draw a result that was computed before; `calibration` and `reliability_map` measure and draw in one
call, and so does `ReliabilityDisplay` from a scikit-learn estimator or its predictions.
"""

from nishimori.plot._group_gaps import group_gaps
from nishimori.plot._reliability_diagram import calibration, reliability_diagram
from nishimori.plot._reliability_display import ReliabilityDisplay
from nishimori.plot._reliability_map import reliability_map
from nishimori.plot._risk_coverage import risk_coverage
from nishimori.plot._temperature_curve import temperature_curve

__all__ = [
    "ReliabilityDisplay",
    "calibration",
    "group_gaps",
    "reliability_diagram",
    "reliability_map",
    "risk_coverage",
    "temperature_curve",
]


def __dir__() -> list[str]:
    return sorted(__all__)
