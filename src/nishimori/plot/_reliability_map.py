"""Where in the image a network is too confident: confidence minus accuracy of each region, as a picture."""

from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from nishimori._evaluation.calibrated import CALIBRATORS_WORD
from nishimori._evaluation.group_gaps import group_gaps
from nishimori._rows.options import RowOptions, takes_rows
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import between, whole
from nishimori._support.optional import require
from nishimori.errors import InputError
from nishimori.plot._style import HUES, axes_for, note_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# More cells along a side than this are too small to see, and take a long time.
_MOST_CELLS = 256


@takes_rows(refuses={"groups": "its groups are the regions of the image"}, words=CALIBRATORS_WORD)
def reliability_map(
    logits: Any,
    labels: Any,
    *,
    cells: int = 16,
    temperature: float | None = None,
    calibrator: Any = None,
    limit: float | None = None,
    ax: "Axes | None" = None,
    **options: Unpack[RowOptions],
) -> "Axes":
    """Confidence minus accuracy in each region of the image, in points, over all images.

    A temperature makes the mean over all pixels right. What is left of the colours is what no single temperature can remove.

    Parameters
    ----------
    logits : array of shape (n, n_classes, height, width), or (n, height, width, n_classes)
        Scores before the softmax of each pixel. For the first order pass ``class_axis=1``.
    labels : array of shape (n, height, width)
        The true class of each pixel.
    cells : int
        How many regions the longer side of an image is cut into; regions are squares of whole pixels.
    temperature : float, optional
        Divide the logits by this first; 1 by default.
    calibrator : calibrator, optional
        A fitted calibrator to apply first, instead of a temperature.
    limit : float, optional
        The gap, in points, of the darkest colours; by default the largest one. Pass the same number for pictures to compare.
    ax : matplotlib axes, optional
        Where to draw; new axes by default.
    **options
        What is said about the data, see `rows`: ``sample_weight``, ``counts``, ``clusters``, ``input``, ``classes``, ``floor``,
        ``ignore_index``, ``shift_labels``, ``class_axis``, ``member_axis``. A dot marks a region whose gap is significant. If
        you pass the dimension of the classes, images count as independent for this, and their pixels do not.

    Returns
    -------
    matplotlib axes
        ``ax``, or the new axes.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(50, 4, 16, 16))
    >>> T = np.linspace(1, 3, 16)  # too confident on the right
    >>> labels = (logits / T + rng.gumbel(size=logits.shape)).argmax(axis=1)
    >>> ax = nishimori.plot.reliability_map(logits, labels, cells=4, class_axis=1)
    >>> ax.images[0].get_array()[0].round().tolist()
    [3.0, 15.0, 18.0, 21.0]
    >>> plt.close()
    """
    if limit is not None:
        between("limit", limit, 0, 100)
    shape = tuple(getattr(labels, "shape", ()))
    if len(shape) != 3:
        raise InputError("labels", "have shape (n, height, width)", got=f"shape {shape}" if shape else type(labels).__name__)
    side = -(-max(shape[1:]) // whole("cells", cells, 1, _MOST_CELLS))
    n_rows, n_columns = (-(-length // side) for length in shape[1:])
    region = np.arange(shape[1])[:, None] // side * n_columns + np.arange(shape[2]) // side
    options["groups"] = np.broadcast_to(region, shape)
    gaps = group_gaps(logits, labels, by="groups", temperature=temperature, calibrator=calibrator, **options)
    points: HostArray = np.full(n_rows * n_columns, np.nan)
    is_off = np.zeros(n_rows * n_columns, dtype=bool)
    for gap in gaps:
        points[gap.name], is_off[gap.name] = 100 * gap.gap, gap.is_off
    return _draw(points.reshape(n_rows, n_columns), is_off.reshape(n_rows, n_columns), side, shape, limit, ax)


def _draw(
    points: HostArray, is_off: HostArray, side: int, shape: tuple[int, ...], limit: float | None, ax: "Axes | None"
) -> "Axes":
    """The gaps as colours, with a dot on each that is significant. Axes count pixels."""
    ax = axes_for("reliability_map", (4.6, 4.0), ax)
    colors: Any = require("matplotlib.colors", extra="plot", for_="reliability_map")
    palette = colors.LinearSegmentedColormap.from_list("gaps", [HUES["blue"], "#ffffff", HUES["vermilion"]])
    palette = palette.with_extremes(bad="0.8")  # regions without labels
    most = float(np.nanmax(np.abs(points))) if limit is None else limit
    height, width = side * points.shape[0], side * points.shape[1]
    image = ax.imshow(points, cmap=palette, vmin=-most, vmax=most, extent=(-0.5, width - 0.5, height - 0.5, -0.5))
    ax.set(xlim=(-0.5, shape[2] - 0.5), ylim=(shape[1] - 0.5, -0.5), xlabel="column of pixels", ylabel="row of pixels")
    rows, columns = np.nonzero(is_off)
    middle = (side - 1) / 2
    ax.scatter(side * columns + middle, side * rows + middle, s=5, color="0.15", linewidths=0)
    ax.figure.colorbar(image, ax=ax, label="confidence − accuracy, points")
    note_below(ax, ["dots: significant"])
    return ax
