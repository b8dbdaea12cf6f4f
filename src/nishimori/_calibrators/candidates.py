"""The methods that `Best` chooses from, from the simplest to the richest, and why each is there.

The order is that of simplicity: a method comes before those that can do all that it does and more. What a fit costs is a
formula in the number of samples n and of classes K, with constants that were measured once, so that the same data always have
the same candidates: no clock decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.consistent import Consistent
from nishimori._calibrators.methods import new_calibrator, refuse_common
from nishimori.errors import InputError

Suits = Literal["any", "two", "several"]

MOST_SECONDS = 20.0
"""What all fits of one candidate may cost by the formulas, on one core of 2020."""


@dataclass(frozen=True)
class CandidateMethod:
    """A method that is worth trying, and what it costs.

    Attributes
    ----------
    name : str
        What the method is called.
    why : str
        Which fault of a model it mends.
    per_score : float
        Seconds that a fit takes per score, of which there are n·K.
    classes : float
        With this many classes a fit takes twice as long per score as with few.
    suits : {"any", "two", "several"}
        For how many classes it is.
    least_samples : int
        With fewer samples it does more harm than good.
    """

    name: str
    why: str
    per_score: float
    classes: float = float("inf")
    suits: Suits = "any"
    least_samples: int = 0

    def is_for(self, n_classes: int) -> bool:
        """Whether it is for this many classes."""
        return self.suits == "any" or (self.suits == "two") == (n_classes == 2)

    def seconds(self, n_samples: int, n_classes: int) -> float:
        """About how long a fit takes."""
        return self.per_score * n_samples * n_classes * (1 + n_classes / self.classes)


TABLE = (
    CandidateMethod("adaptive", "one factor for all logits: a network that is overconfident everywhere", 1e-8),
    CandidateMethod("ts", "one factor for all logits, by the lowest log-loss", 1e-8),
    CandidateMethod("ec", "one factor for all logits, by the mean confidence", 1e-8),
    CandidateMethod(
        "group", "a temperature per predicted class, shrunk: some classes are more overconfident than others", 1e-7
    ),
    CandidateMethod("platt", "a factor and a shift: classes of other frequencies than in training", 1e-7, suits="two"),
    CandidateMethod(
        "bias", "a factor and a shift per class: classes of other frequencies than in training", 6e-7, 1000, "several"
    ),
    CandidateMethod("beta", "two factors and a shift: scores that are distorted at one end", 1e-7, suits="two"),
    CandidateMethod("vector", "a factor and a shift per class, penalised: classes on different scales", 5e-7, 500),
    CandidateMethod("isotonic", "any increasing curve: scores that are no logits", 1.2e-7, least_samples=1000),
    CandidateMethod("matrix", "all factors and shifts, penalised: classes that are taken for each other", 1e-6, 200, "several"),
)
"""The candidates in the order of simplicity."""


def candidate(name: str) -> CandidateMethod:
    """The entry of a method in the table."""
    return next(entry for entry in TABLE if entry.name == name)


def reason(name: str) -> str:
    """Which fault of a model a candidate mends; empty for a method that is not in the table."""
    return next((entry.why for entry in TABLE if entry.name == name), "")


def default_candidates(
    n_samples: int, n_classes: int, n_fits: int, *, keep_predictions: bool
) -> tuple[dict[str, Calibrator], dict[str, str]]:
    """Calibrators of the table that suit this many classes and are fitted in time, by name, and why others were left out."""
    chosen, left_out = {}, {}
    for entry in TABLE:
        if not entry.is_for(n_classes):
            continue  # the other of the pair is there
        calibrator = new_calibrator(entry.name, "candidates")
        seconds = n_fits * entry.seconds(n_samples, n_classes)
        if keep_predictions and not _keeps_predictions(calibrator):
            left_out[entry.name] = "it can change predictions"
        elif n_samples < entry.least_samples:
            left_out[entry.name] = f"it needs {entry.least_samples} samples; name it in `candidates` to try it"
        elif seconds > MOST_SECONDS:
            left_out[entry.name] = (
                f"its {n_fits} fits would take about {seconds:.0f} s, more than {MOST_SECONDS:.0f} s; name it in `candidates` "
                "to try it"
            )
        else:
            chosen[entry.name] = calibrator
    return chosen, left_out


def named_candidates(candidates: Any, n_classes: int, *, keep_predictions: bool) -> dict[str, Calibrator]:
    """The candidates that the user named, whatever they cost; refuses what cannot be one."""
    if isinstance(candidates, str) or not isinstance(candidates, Sequence) or not candidates:
        raise InputError("candidates", "be a list of names or calibrators, such as ['ts', 'vector']", got=repr(candidates))
    chosen: dict[str, Calibrator] = {}
    for candidate in candidates:
        calibrator = new_calibrator(candidate, "candidates")
        name = _variant_name(calibrator)
        refuse_common(calibrator, "candidates", "Best")
        if calibrator.is_fixed:
            raise InputError(
                "candidates", "be methods that learn something", got=repr(name), remedy="'none' is scored in any case."
            )
        if calibrator.method_name == "best":
            raise InputError("candidates", "be other methods than 'best' itself")
        if calibrator.traits is not None and calibrator.traits.n_classes == "two" and n_classes > 2:
            raise InputError("candidates", f"work for {n_classes} classes", got=f"{name!r}, which is for two")
        if keep_predictions and not _keeps_predictions(calibrator):
            raise InputError(
                "candidates", "keep predictions, as `keep_predictions=True` asks for", got=f"{name!r}, which can change them"
            )
        if name in chosen:
            raise InputError("candidates", "be different from each other", got=f"{name} twice")
        chosen[name] = calibrator
    return chosen


def _variant_name(calibrator: Calibrator) -> str:
    """The name of the method, with those of its parameters in brackets that are not the usual ones."""
    name = calibrator.method_name
    usual = str(new_calibrator(name, "candidates")) if ":" not in name else f"{type(calibrator).__name__}()"
    return name if str(calibrator) == usual else f"{name}({str(calibrator).partition('(')[2]}"


def _keeps_predictions(calibrator: Calibrator) -> bool:
    if isinstance(calibrator, Consistent):  # one more temperature changes no prediction
        return _keeps_predictions(new_calibrator(calibrator.calibrator, "candidates"))
    traits = calibrator.traits
    return bool(getattr(calibrator, "preserve_accuracy", False)) or (traits is not None and traits.keeps_predictions)
