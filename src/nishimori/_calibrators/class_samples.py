"""How many samples each class has, as methods with a curve per class need to know, and what they add to them."""

from typing import Any

from nishimori._rows.labels import Classes, class_labels, first_names
from nishimori._sums.class_claims import ClassWeights
from nishimori._support.numbers import between
from nishimori._support.warnings import notice
from nishimori.errors import DegenerateDataError, InputWarning

# More added samples than anybody has: a typing error.
_MOST_ADDED = 1e9


def checked_prior(prior: Any) -> float:
    """A number of samples that are added to those of the data."""
    return between("prior", prior, 0, _MOST_ADDED)


def check_samples(found: ClassWeights, classes: Classes, *, label_name: str) -> None:
    """Refuse samples of a single class, and tell of classes without samples and of samples that look alike."""
    labels = class_labels(classes, len(found.weights))
    present = labels[found.weights > 0].tolist()
    if len(present) == 1:
        raise DegenerateDataError(
            label_name,
            "hold samples of at least two classes",
            got=f"only one class, {present[0]!r}",
            remedy="A curve would say that every sample is of this class. Add samples of the others.",
        )
    if empty := labels[found.weights == 0].tolist():
        which = f"class {empty[0]!r}: its curve is"
        if len(empty) > 1:
            which = f"{len(empty)} of {len(labels)} classes ({first_names(empty)}): their curves are"
        notice(
            f"There are no samples of {which} close to zero wherever there are other samples. Add samples of all classes.",
            InputWarning,
        )
    if found.n_saturated > found.n_rows / 2:
        notice(
            f"{found.n_saturated:,} of {found.n_rows:,} samples have logits so far apart that their probability rounds to 1, "
            "and a curve cannot tell them apart. Divide the logits by a temperature first, as `TemperatureScaling` does, or "
            "use another method, such as 'platt' for two classes.",
            InputWarning,
        )
