"""What all pictures share: colours and markers by what they mean, notes, and new axes where none are passed.

The colours are from the palettes of M. Okabe and K. Ito (jfly.uni-koeln.de/color, 2008) and P. Tol (SRON/EPS/TN/09-002, 2021).
Every two of them differ clearly, also for readers with deuteranopia; a test measures by how much.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nishimori._support.optional import require
from nishimori.errors import InputError

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

_NOTE = "_notes"


def axes_for(picture: str, size: tuple[float, float], ax: "Axes | None") -> "Axes":
    """``ax``, or axes of a new figure of ``size`` inches."""
    if ax is not None:
        return ax
    figure: Any = require("matplotlib.pyplot", extra="plot", for_=picture).figure(figsize=size, layout="constrained")
    new: Axes = figure.add_subplot()
    return new


def by_name(results: Any, argument: str, name: str | None = None) -> dict[str | None, Any]:
    """What to draw, by the names in a legend; a single result has the ``name`` that is passed."""
    if not isinstance(results, Mapping):
        return {name: results}
    if not results:
        raise InputError(argument, "hold at least one result", got="an empty dict")
    return {str(own): result for own, result in results.items()}


def looks(ax: "Axes", names: Sequence[str | None]) -> dict[str | None, tuple[str, str]]:
    """Colour and marker of each name: those of its meaning, else the first that neither the axes nor other names have.

    The method "adaptive" is what "after" is by default.
    """
    chosen: dict[str | None, tuple[str, str]] = {}
    for name in names:
        plain = (name or "").lower().removeprefix("after ")
        meaning = "after" if plain == "adaptive" else plain
        if meaning in MARKERS and (COLORS[meaning], MARKERS[meaning]) not in chosen.values():
            chosen[name] = (COLORS[meaning], MARKERS[meaning])
    drawn = [line for line in ax.get_lines() if not str(line.get_label()).startswith("_")]
    # A colour may be an array, which cannot be compared with a text.
    used = [(str(line.get_color()), str(line.get_marker())) for line in drawn] + list(chosen.values())
    for name in names:
        if name not in chosen:
            colors, markers = zip(*used, strict=True) if used else ((), ())
            chosen[name] = (min(OTHER_COLORS, key=colors.count), min(OTHER_MARKERS, key=markers.count))
            used.append(chosen[name])
    return {name: chosen[name] for name in names}


def note_below(ax: "Axes", lines: Sequence[str]) -> None:
    """Add lines to the note below the label of the x axis, where they cover nothing; a line that is there is not repeated."""
    note: Any = next((text for text in ax.texts if text.get_label() == _NOTE), None)
    if note is None:
        below: Any = {"xycoords": ax.xaxis.label, "xytext": (0, -2), "textcoords": "offset points", "ha": "center", "va": "top"}
        note = ax.annotate("", (0.5, 0), fontsize="x-small", color="0.35", label=_NOTE, **below)
    lines_before = note.get_text().splitlines()
    note.set_text("\n".join([*lines_before, *(line for line in lines if line not in lines_before)]))
