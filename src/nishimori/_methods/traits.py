"""What a method does and needs, in a few words that are known before it is fitted."""

from dataclasses import dataclass
from typing import Literal

NumberOfClasses = Literal["any", "two"]


@dataclass(frozen=True)
class Traits:
    """What users ask about a method before they choose it.

    Attributes
    ----------
    keeps_predictions : bool
        Whether the predicted class of every sample stays the same, with the default parameters.
    streams : bool
        Whether `fit` reads data in blocks, so that files and loaders larger than memory can be used.
    from_sketch : bool
        Whether a `Sketch` is enough, so that data can be read once and forgotten.
    error_bars : bool
        Whether the fitted parameters have standard errors, with the default parameters.
    n_classes : {"any", "two"}
        For how many classes it works.
    """

    keeps_predictions: bool
    streams: bool
    from_sketch: bool
    error_bars: bool
    n_classes: NumberOfClasses = "any"
