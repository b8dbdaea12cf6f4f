"""The one table of the library's own methods: what each is called, what it does, and where the class of its calibrator is.

Registry, shell, PyTorch, the names at the root of the package and the tests of every method follow from it. Nothing is imported
here, so that ``import nishimori`` costs nothing.
"""

from typing import NamedTuple


class BuiltIn(NamedTuple):
    """A method as ``nishimori methods`` lists it: in one line, and without an import of its class.

    ``place`` is its file in `_calibrators` and its class, whose `Traits` say the same about predictions and classes.
    """

    place: str
    summary: str
    keeps_predictions: bool = False
    is_for_two_classes: bool = False


METHODS = {
    "ec": BuiltIn("one_temperature:ExpectationConsistency", "one T, at which mean confidence equals accuracy", True),
    "ts": BuiltIn("one_temperature:TemperatureScaling", "one T, at which the cross-entropy is lowest", True),
    "adaptive": BuiltIn("adaptive:AdaptiveConsistency", "one T between those of ts and ec (default)", True),
    "best": BuiltIn("best:Best", "the method with the lowest cross-validated loss"),
    "none": BuiltIn("fixed:Uncalibrated", "nothing, T = 1, to compare others with", True),
    "group": BuiltIn("groups:GroupConsistency", "one T per predicted class, or per named group", True),
    "bias": BuiltIn("bias_corrected:BiasCorrected", "one T, and a bias per class"),
    "vector": BuiltIn("scaling:VectorScaling", "a factor and a bias per class"),
    "matrix": BuiltIn("scaling:MatrixScaling", "a matrix, and a bias per class"),
    "vector+ec": BuiltIn("consistent:Consistent", "vector, or any other method, and then ec"),
    "platt": BuiltIn("platt:Platt", "slope and intercept of the log-odds", is_for_two_classes=True),
    "beta": BuiltIn("beta:Beta", "weights of ln p and ln(1 − p), and an intercept", is_for_two_classes=True),
    "quadratic": BuiltIn("platt:Quadratic", "a parabola of the log-odds", is_for_two_classes=True),
    "classwise": BuiltIn("classwise:ClasswiseTemperature", "one T per class"),
    "ensemble": BuiltIn("ensemble:EnsembleTemperature", "a mixture of p, p at T, and equal probabilities", True),
    "dirichlet": BuiltIn("dirichlet:Dirichlet", "a matrix for log p, and a bias per class"),
    "isotonic": BuiltIn("isotonic:Isotonic", "an increasing curve per class"),
    "histogram": BuiltIn("histogram:HistogramBinning", "a frequency per bin and class"),
}

BUILT_IN = {name: f"nishimori._calibrators.{each.place}" for name, each in METHODS.items()}
"""Where the class of each method can be imported from, by the name of the method."""

FINISHED = "+ec"
"""The end of the name of a method that is finished by expectation consistency: NAME+ec, for every NAME."""

CONSISTENT = BUILT_IN["vector+ec"]
"""Where the class of all such methods is; "vector+ec" stands for them in lists."""

BARE = {
    "ec": "nishimori._methods.one_temperature:ExpectationConsistencyMethod",
    "ts": "nishimori._methods.one_temperature:TemperatureScalingMethod",
    "adaptive": "nishimori._methods.adaptive:AdaptiveMethod",
}
"""Where the methods are that the shell runs without scikit-learn, which takes longer to import than a small fit takes."""

# That a method does nothing needs no class at the root: it has a name.
_WITHOUT_NAME = "none"

CLASSES = {
    each.place.partition(":")[2]: f"_calibrators.{each.place.partition(':')[0]}"
    for name, each in METHODS.items()
    if name != _WITHOUT_NAME
}
"""The classes that can be imported from the root of the package, and the modules below it that they are in."""
