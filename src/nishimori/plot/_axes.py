"""New axes for a picture, where none are passed."""

from typing import TYPE_CHECKING, Any

from nishimori._support.optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes_for(picture: str, size: tuple[float, float], ax: "Axes | None") -> "Axes":
    """``ax``, or axes of a new figure of ``size`` inches."""
    if ax is not None:
        return ax
    figure: Any = require("matplotlib.pyplot", extra="plot", for_=picture).figure(figsize=size, layout="constrained")
    new: Axes = figure.add_subplot()
    return new
