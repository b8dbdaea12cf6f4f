"""The table of all methods: name, purpose and class of each, with functions to register and find methods.

Names come from three places: the library itself (`METHODS`), `add` in this process, and the entry points of installed packages,
which are imported only when their method is used. The shell, PyTorch and the tests of every method follow from this table. No
class of a method is imported before it is used, so that ``import nishimori`` costs nothing.
"""

from dataclasses import dataclass
from importlib.metadata import EntryPoint
from math import inf
from typing import Any, Literal, NamedTuple

from nishimori._support.optional import entry_points, import_object, load_entry_point
from nishimori.errors import InputError

NumberOfClasses = Literal["any", "two"]


@dataclass(frozen=True)
class Traits:
    """The facts that help users to choose a method.

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


class BuiltIn(NamedTuple):
    """A method in one line for ``nishimori methods``, without importing its class.

    ``place`` is its file in `_calibrators` and its class, whose `Traits` say the same about predictions and classes.
    """

    place: str
    summary: str
    keeps_predictions: bool = False
    is_for_two_classes: bool = False


METHODS = {
    "ec": BuiltIn("one_temperature:ExpectationConsistency", "one T, at which mean confidence equals accuracy", True),
    "ts": BuiltIn("one_temperature:TemperatureScaling", "one T, at which the cross-entropy is lowest", True),
    "adaptive": BuiltIn("one_temperature:AdaptiveConsistency", "one T between those of ts and ec (default)", True),
    "best": BuiltIn("best:Best", "the method with the lowest cross-validated loss"),
    "none": BuiltIn("fixed:Uncalibrated", "nothing: T = 1, for comparison", True),
    "group": BuiltIn("groups:GroupConsistency", "one T per predicted class, or per named group", True),
    "bias": BuiltIn("bias_corrected:BiasCorrected", "one T, and a bias per class"),
    "vector": BuiltIn("scaling:VectorScaling", "a factor and a bias per class"),
    "matrix": BuiltIn("scaling:MatrixScaling", "a matrix, and a bias per class"),
    "vector+ec": BuiltIn("consistent:Consistent", "vector, or any other method, and then ec"),
    "platt": BuiltIn("binary:Platt", "slope and intercept of the log-odds", is_for_two_classes=True),
    "intercept": BuiltIn("intercept:Intercept", "a shift of the log-odds: ec for claims", is_for_two_classes=True),
    "beta": BuiltIn("binary:Beta", "weights of ln p and ln(1 − p), and an intercept", is_for_two_classes=True),
    "quadratic": BuiltIn("binary:Quadratic", "a parabola of the log-odds", is_for_two_classes=True),
    "classwise": BuiltIn("scaling:ClasswiseTemperature", "one T per class"),
    "mixture": BuiltIn("temperature_mixture:TemperatureMixture", "a mixture of p, p at T, and equal probabilities", True),
    "dirichlet": BuiltIn("scaling:Dirichlet", "a matrix for log p, and a bias per class"),
    "isotonic": BuiltIn("class_curves:Isotonic", "an increasing curve per class"),
    "histogram": BuiltIn("class_curves:HistogramBinning", "a frequency per bin and class"),
}


@dataclass(frozen=True)
class Candidate:
    """A method that `Best` tries by default, with the cost of its fit.

    Attributes
    ----------
    mends : str
        Which fault of a model it mends.
    per_score : float
        Seconds that a fit takes per score, of which there are n·K: constants that were measured once, so that the same data
        always have the same candidates. No clock decides.
    classes : float
        With this many classes a fit takes twice as long per score as with few.
    suits : {"any", "two", "several", "claims"}
        For how many classes it is, or for claims alone.
    least_samples : int
        With fewer samples it does more harm than good.
    is_second_best : bool
        Whether another candidate that may change predictions does better wherever it helps.
    """

    mends: str
    per_score: float
    classes: float = inf
    suits: Literal["any", "two", "several", "claims"] = "any"
    least_samples: int = 0
    is_second_best: bool = False

    def is_for(self, n_classes: int) -> bool:
        """Whether the method supports this many classes."""
        return self.suits == "any" or (self.suits != "claims" and (self.suits == "two") == (n_classes == 2))

    def seconds(self, n_samples: int, n_classes: int) -> float:
        """About how many seconds a fit takes, on one core of 2020."""
        return self.per_score * n_samples * n_classes * (1 + n_classes / self.classes)


CANDIDATES = {
    "adaptive": Candidate("one factor for all logits: a network that is overconfident everywhere", 1e-8),
    "ts": Candidate("one factor for all logits, by the lowest log-loss", 1e-8),
    "ec": Candidate("one factor for all logits, by the mean confidence", 1e-8),
    "group": Candidate(
        "a temperature per predicted class, shrunk: some classes are more overconfident than others", 1e-7, is_second_best=True
    ),
    "intercept": Candidate("a shift: claims that are all too high, or all too low", 1e-7, suits="claims"),
    "platt": Candidate("a factor and a shift: classes of other frequencies than in training", 1e-7, suits="two"),
    "bias": Candidate("a factor and a shift per class: classes of other frequencies than in training", 6e-7, 1000, "several"),
    "beta": Candidate("two factors and a shift: scores that are distorted at one end", 1e-7, suits="two"),
    "vector": Candidate("a factor and a shift per class, penalised: classes on different scales", 5e-7, 500),
    "isotonic": Candidate("any increasing curve: scores that are not logits", 1.2e-7, least_samples=1000),
    "histogram": Candidate("a frequency per bin: a few levels that are out of order", 1e-7, suits="claims", least_samples=1000),
    "matrix": Candidate("all factors and shifts, penalised: classes that the model confuses", 1e-6, 200, "several"),
}
"""The candidates in order of simplicity: a method comes before more general ones."""

OF_CLAIMS = ("intercept", "platt", "beta", "isotonic", "histogram")
"""The methods that can be fitted to claims, which `Best` chooses among."""

OF_PROBABILITIES = ("intercept", "beta", "histogram")
"""The methods for claims that need probabilities, and not only their order."""


def methods_of_claims(*, are_scores: bool) -> tuple[str, ...]:
    """The methods that can be fitted to claims, or to claims that are scores."""
    return tuple(name for name in OF_CLAIMS if not (are_scores and name in OF_PROBABILITIES))


BUILT_IN = {name: f"nishimori._calibrators.{method.place}" for name, method in METHODS.items()}
"""The import path of each method's class, by the name of the method."""

ALIASES = {"sigmoid": "platt", "temperature": "ts"}
"""Scikit-learn's names for two methods; lists of methods have only nishimori's names."""

FINISHED = "+ec"
"""The suffix of methods followed by expectation consistency: NAME+ec, for every NAME."""

CONSISTENT = BUILT_IN["vector+ec"]
"""The import path of the class of all such methods; "vector+ec" represents them in lists."""

BARE = {
    "ec": "nishimori._methods.one_temperature:EC",
    "ts": "nishimori._methods.one_temperature:TS",
    "adaptive": "nishimori._methods.one_temperature:Adaptive",
}
"""The import paths of methods that the shell runs without scikit-learn, whose import takes longer than a small fit."""

GROUP = "nishimori.methods"
"""The entry point group through which installed packages add methods."""

# What was registered in this process, and what was imported of entry points.
_registered: dict[str, Any] = {}


def add(name: str, target: Any) -> None:
    """Put a checked ``target`` into the table."""
    if name in ALIASES:
        raise InputError("name", "be new", got=f"{name!r}, which is {ALIASES[name]!r}", remedy="Choose another name.")
    taken = import_object(BUILT_IN[name]) if name in BUILT_IN else _registered.get(name, target)
    if taken != target:
        other = taken.__name__ if isinstance(taken, type) else repr(taken)
        raise InputError("name", "be new", got=f"{name!r}, which is the name of {other}", remedy="Choose another name.")
    if name not in BUILT_IN:
        _registered[name] = target


def names() -> tuple[str, ...]:
    """All names, with names of entry points last; nothing is imported."""
    return tuple(dict.fromkeys([*BUILT_IN, *_registered, *(point.name for point in _entry_points())]))


def is_built_in(name: str) -> bool:
    """Whether this method, or the NAME in NAME+ec, is built in."""
    return _without_alias(unfinished(name)) in BUILT_IN


def unfinished(name: str) -> str:
    """The NAME in NAME+ec; other names are returned unchanged."""
    return name.removesuffix(FINISHED)


def find(name: Any) -> Any:
    """The observable or class called ``name``, or None."""
    name = _without_alias(name)
    if name in BUILT_IN:
        return import_object(BUILT_IN[name])
    if name not in _registered:
        for point in _entry_points():
            if point.name == name:
                _registered[name] = load_entry_point(point, "method")
    return _registered.get(name)


def find_bare(name: Any) -> Any:
    """The class of the method called ``name`` that needs no scikit-learn, or None if there is none."""
    name = _without_alias(name)
    return import_object(BARE[name]) if name in BARE else None


def _without_alias(name: Any) -> Any:
    return ALIASES.get(name, name) if isinstance(name, str) else name


def name_of(target: Any) -> str:
    """The name of a class or an observable: its name in the table, else its import path."""
    for name, other in _registered.items():
        if other is target or (not isinstance(other, type) and other == target) or other is type(target):
            return name
    kind = target if isinstance(target, type) else type(target)
    path = f"{kind.__module__}:{kind.__qualname__}"
    places = [*BUILT_IN.items(), *BARE.items(), *((point.name, point.value) for point in _entry_points())]
    return next((name for name, place in places if place == path), path)


def _entry_points() -> list[EntryPoint]:
    return list(entry_points(GROUP))
