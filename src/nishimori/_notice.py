"""Warnings that name the line of the user's own code."""

import sys
import warnings


def notice(message: str, category: type[Warning]) -> None:
    """Warn at the line that called nishimori, directly or through scikit-learn."""
    levels, frame = 1, sys._getframe()  # what `warnings` itself uses
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("nishimori", "sklearn"):
        levels, frame = levels + 1, frame.f_back
    warnings.warn(message, category, stacklevel=levels)
