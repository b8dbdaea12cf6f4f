"""A temperature per predicted class or per group, as far as the data tell the groups apart."""

from dataclasses import dataclass
from itertools import compress
from typing import Any, ClassVar, Self

import numpy as np

from nishimori._calibrators.calibrator import PREDICTIONS, Calibrator, fit_grouped_rows
from nishimori._fit.groups import match_groups
from nishimori._fit.search import match
from nishimori._kernels.kernel import Method
from nishimori._methods.fitted_method import label_name
from nishimori._methods.table import Traits
from nishimori._rows.question import question
from nishimori._rows.rows import Rows
from nishimori._sums.groups import By, Grouping, group_names
from nishimori._sums.observables import Confidence, Energy
from nishimori._support.formatting import join_names
from nishimori._support.numbers import one_of
from nishimori._support.warnings import notice
from nishimori.errors import FormatError, InputWarning
from nishimori.maps.map import Map
from nishimori.maps.temperature import ClassTemperatures, GroupTemperatures


@dataclass(kw_only=True, eq=False, repr=False)
class GroupConsistency(Calibrator):
    """Divide logits by a temperature per group of samples: per predicted class, or per group that you name.

    One temperature makes mean confidence equal to accuracy over all samples, and leaves single groups wrong. This calibrator
    starts from that temperature and moves each group towards the temperature at which its own mean confidence equals its own
    accuracy, as far as the data tell the groups apart: temperatures are shrunk towards the common one by a random-effects
    model. Where the data cannot tell groups apart, all of them have the common temperature. Mean confidence stays equal to
    accuracy over all samples, and predictions never change.

    Parameters
    ----------
    by : {"prediction", "groups"}
        What makes a group: the predicted class of a sample, or what ``groups`` of `fit` and `predict_proba` say, such as a
        site, a language or a sensor.
    method : {"ec", "ts"}
        What holds in each group: mean confidence equals accuracy (expectation consistency), or the cross-entropy is lowest
        (temperature scaling).
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits, such as log-probabilities. Numbers that all lie between 0 and 1 are refused until
        you say what they are; a `Rows` object says it.
    classes : sequence, optional
        The label of each column, in order. By default labels are the column numbers 0, 1, ...
    floor : float, "auto" or None
        Smaller probabilities are raised to this, with ``input="probabilities"``. "auto" takes the largest floor whose
        cross-validated log-loss, summed over samples, is within 0.5 of the lowest; `floor_` tells it. None raises only exact
        zeros, to the smallest positive normal number.

    Attributes
    ----------
    temperatures_ : array of shape (n_groups,)
        The temperature of each group.
    temperatures_se_ : array of shape (n_groups,) or None
        Their standard errors, in which the shrinking is included; None if a file does not have them.
    groups_ : array or tuple
        The label of the class, or the name of the group, of each temperature.
    common_temperature_ : float
        The temperature of all samples together, which groups that are not in `groups_` get.
    spread_ : float
        The standard deviation of log T between groups; 0 if all differences may be noise.
    used_spread_ : float
        The one that temperatures are shrunk with: for expectation consistency the lower limit of the 95 % confidence interval
        of the spread, for temperature scaling `spread_` itself.
    open_groups_ : tuple
        Groups that the data say nothing about: with fewer than two samples (or clusters), with logits on which T has hardly
        any effect, or with a T whose standard error is as large as itself. They have the common temperature.
    temperature_ : None
        There is no single temperature.
    map_ : ClassTemperatures or GroupTemperatures
        What is done to logits.
    floor_ : float or None
        The floor that is used: the one that was passed, or that "auto" chose. It is saved with the calibration.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        The names of the columns, if ``X`` had any. Other or permuted names are then refused.
    n_samples_ : int
        How many samples had a positive weight.
    n_passes_ : int
        How often all logits were read.

    Raises
    ------
    NoTemperatureError
        From `fit`, if the common temperature does not exist.

    See Also
    --------
    group_gaps : which groups are off, before or after calibration.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> validation, test = network.validation, network.test
    >>> calibrator = nishimori.GroupConsistency().fit(validation.logits, validation.labels)
    >>> print(f"common T {calibrator.common_temperature_:.2f}, spread of log T {calibrator.spread_:.2f}")
    common T 1.61, spread of log T 0.58
    >>> for label in (2, 6):
    ...     print(f"class {label}: T = {calibrator.temperatures_[label]:.2f} ± {calibrator.temperatures_se_[label]:.2f}")
    class 2: T = 3.51 ± 0.15
    class 6: T = 0.42 ± 0.10
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=True, streams=True, from_sketch=False, error_bars=True)
    by: By = "prediction"
    method: str = "ec"

    fit = fit_grouped_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the temperatures from ``data``, which are the rows of ``X``."""
        observable = self._observable()
        grouping = _grouping(data, self.by)
        matched = match(data, observable, label_name=label_name(X))
        common, fit_info = matched.solution(0)
        by_group = match_groups(data, grouping, observable, common, fit_info.temperature_se)
        if self.by == "prediction" or data.groups is None:
            map_: Map = ClassTemperatures(by_group.temperatures)
        else:
            map_ = GroupTemperatures(data.groups.names, by_group.temperatures, by_group.common)
        estimates = {"common": by_group.common, "spread": by_group.spread, "used_spread": by_group.used_spread}
        estimates |= {f"temperature_se[{i}]": error for i, error in enumerate(by_group.errors.tolist())}
        estimates |= {f"open[{i}]": 1.0 for i in np.flatnonzero(by_group.is_open).tolist()}
        n_passes = fit_info.n_passes + by_group.n_passes
        self.learn(X, data, map_, fit_info.n_samples, by_group.residual, estimates=estimates, n_passes=n_passes)
        _warn_of_open(self.open_groups_, self.by, common)
        return self

    def _methods_without_groups(self) -> tuple[str, ...]:
        return () if self.by == "groups" else ("fit", *PREDICTIONS, "transform")

    def _observable(self) -> Confidence | Energy:
        """What is matched; refuses parameters that name nothing."""
        one_of("by", self.by, By)
        return Confidence() if one_of("method", self.method, Method) == "ec" else Energy()

    def _show(self) -> None:
        map_, values = self.map_, self._estimates_ or {}
        if not isinstance(map_, ClassTemperatures if self.by == "prediction" else GroupTemperatures):
            raise FormatError(
                f"A calibration of the method 'group' with by={self.by!r} cannot hold a map of the kind {map_.kind!r}. Fit and "
                "save again."
            )
        assert isinstance(map_, ClassTemperatures | GroupTemperatures), "as was checked"
        self.temperatures_ = map_.temperatures
        self.groups_ = self.classes_ if isinstance(map_, ClassTemperatures) else map_.groups
        self.common_temperature_ = values.get("common") if isinstance(map_, ClassTemperatures) else map_.common
        self.spread_, self.used_spread_ = values.get("spread"), values.get("used_spread")
        errors = [values.get(f"temperature_se[{i}]") for i in range(len(self.temperatures_))]
        self.temperatures_se_ = None if None in errors else np.array(errors, dtype=float)
        is_open = [f"open[{i}]" in values for i in range(len(self.temperatures_))]
        self.open_groups_ = tuple(compress(np.asarray(self.groups_).tolist(), is_open))


def _warn_of_open(names: tuple[Any, ...], by: By, common: float) -> None:
    """Say which groups have the common temperature."""
    if not names:
        return
    shown = join_names(names)
    one, many = ("class", "classes") if by == "prediction" else ("group", "groups")
    some = f"The {one} {shown} has" if len(names) == 1 else f"{len(names)} {many} ({shown}) have"
    of_class = "" if by == "groups" else " that are predicted as such"
    notice(
        f"{some} fewer than two samples{of_class}, or only samples on which a temperature has hardly any effect, or "
        f"too few to determine one: the common T = {common:.4g} is used.",
        InputWarning,
    )


@question("has no sums per group")
def _grouping(data: Rows, by: By) -> Grouping:
    """How the rows are divided."""
    return Grouping(by, data.n_classes if by == "prediction" else len(group_names(data)))
