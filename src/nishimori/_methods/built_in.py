"""The one table of the library's own methods: what each is called, and where the class of its calibrator is.

Registry, shell, PyTorch, the names at the root of the package and the tests of every method follow from it. Nothing is imported
here, so that ``import nishimori`` costs nothing.
"""

# By file in `_calibrators`, and class.
_PLACES = {
    "ec": "one_temperature:ExpectationConsistency",
    "ts": "one_temperature:TemperatureScaling",
    "adaptive": "adaptive:AdaptiveConsistency",
    "best": "best:Best",
    "none": "fixed:Uncalibrated",
    "group": "groups:GroupConsistency",
    "bias": "bias_corrected:BiasCorrected",
    "vector": "scaling:VectorScaling",
    "matrix": "scaling:MatrixScaling",
    "vector+ec": "consistent:Consistent",
    "platt": "platt:Platt",
    "beta": "beta:Beta",
    "quadratic": "platt:Quadratic",
    "classwise": "classwise:ClasswiseTemperature",
    "ensemble": "ensemble:EnsembleTemperature",
    "dirichlet": "dirichlet:Dirichlet",
    "isotonic": "isotonic:Isotonic",
    "histogram": "histogram:HistogramBinning",
}

BUILT_IN = {name: f"nishimori._calibrators.{place}" for name, place in _PLACES.items()}
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
    place.partition(":")[2]: f"_calibrators.{place.partition(':')[0]}"
    for name, place in _PLACES.items()
    if name != _WITHOUT_NAME
}
"""The classes that can be imported from the root of the package, and the modules below it that they are in."""
