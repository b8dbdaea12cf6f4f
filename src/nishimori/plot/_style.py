"""The colours and markers of all pictures, by what they mean, and new axes where none are passed.

The colours are from the palettes of M. Okabe and K. Ito (jfly.uni-koeln.de/color, 2008) and P. Tol (SRON/EPS/TN/09-002, 2021).
Every two of them differ clearly, also for readers with deuteranopia; a test measures by how much.
"""

from typing import TYPE_CHECKING, Any

from nishimori._support.optional import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HUES = {
    "grey": "#949494",
    "green": "#117733",
    "vermilion": "#D55E00",
    "blue": "#0072B2",
    "black": "#000000",
    "indigo": "#332288",
    "purple": "#AA3377",
    "sky": "#56B4E9",
}

COLORS = {
    "before": HUES["grey"],
    "after": HUES["green"],
    "ec": HUES["vermilion"],
    "ts": HUES["blue"],
    "accuracy": HUES["black"],
    "confidence": HUES["indigo"],
    "ece": HUES["purple"],
    "loss": HUES["sky"],
}

# Pictures must be readable without colours.
MARKERS = {"before": "^", "after": "D", "ec": "o", "ts": "s"}

# For curves with other names. The colours of EC and TS come last, because readers recognise them.
OTHER_COLORS = [HUES[name] for name in ("indigo", "purple", "sky", "green", "black", "grey", "blue", "vermilion")]
OTHER_MARKERS = "oPvX*<>dph"


def meaning_of(name: str) -> str:
    """What a name of a curve means in the tables above; the method "adaptive" is what "after" is by default."""
    plain = name.lower().removeprefix("after ")
    return "after" if plain == "adaptive" else plain


def axes_for(picture: str, size: tuple[float, float], ax: "Axes | None") -> "Axes":
    """``ax``, or axes of a new figure of ``size`` inches."""
    if ax is not None:
        return ax
    figure: Any = require("matplotlib.pyplot", extra="plot", for_=picture).figure(figsize=size, layout="constrained")
    new: Axes = figure.add_subplot()
    return new
