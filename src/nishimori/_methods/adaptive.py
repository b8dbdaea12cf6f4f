"""The method whose temperature lies between those of expectation consistency and temperature scaling."""

from dataclasses import replace
from math import exp
from typing import Any, Self, cast

from nishimori._fit.adaptive import Adapted, match_both
from nishimori._fit.match import FitInfo, Match
from nishimori._methods.fitted_method import FittedMethod
from nishimori._methods.record import Record
from nishimori._rows.labels import Classes
from nishimori._rows.rows import Rows
from nishimori._rows.scores import Floor, Input
from nishimori._support.roots import Root
from nishimori.maps.temperature import Temperature


class AdaptiveMethod(FittedMethod):
    """The temperature of EC, as far as the data can tell it from that of TS; the calibrator is `AdaptiveConsistency`."""

    fit_info_: FitInfo
    n_passes_: int
    weight_: float
    ec_: float | None
    ts_: float | None

    def __init__(self, *, input: Input | None = None, classes: Classes = None, floor: Floor = "auto") -> None:
        self.input: Input | None = input
        self.classes = classes
        self.floor: Floor = floor

    def expected_passes(self, data: Rows) -> int:  # noqa: ARG002
        """Two: the second is for the errors at both temperatures."""
        return 2

    @property
    def temperature_(self) -> float:
        return cast("float", super().temperature_)

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        clusters: Any = None,
        counts: bool = False,
        ignore_index: int | None = None,
    ) -> Self:
        """Choose the temperature from validation logits ``X`` and labels ``y``; parameters as for `ExpectationConsistency`.

        ``clusters`` and ``counts`` change not only the standard error, but also T: they say how noisy δ is. From a sketch, T is
        right to about a hundredth of its standard error, because a sketch interpolates the variance of δ.
        """
        data, counts = self.rows_to_fit(X, y, sample_weight, clusters, counts, ignore_index=ignore_index)
        label_name = self.label_name(X)
        return self.adopt(X, data, match_both(data, label_name=label_name, counts=counts))

    def adopt(self, X: Any, data: Rows, matched: Match) -> Self:
        """Choose from what `match_both` has found in ``data``, which are what ``X`` holds."""
        found = Adapted.from_match(matched)
        fit_info = _fit_info(matched, found)
        self.learn(X, data, Temperature(found.temperature), fit_info.n_samples, fit_info.residual, fit_info.temperature_se)
        self.n_passes_ = fit_info.n_passes
        self.fit_info_ = fit_info
        return self._keep(found)

    def restore(self, record: Record) -> Self:
        """Become what ``record`` describes, ready to use."""
        super().restore(record)
        return self._keep(Adapted.from_estimates(record.provenance.estimates or {}, self.temperature_))

    def estimates(self) -> dict[str, float] | None:
        """Both temperatures and their covariance, in logarithms: from these the interval can be had again."""
        return None if self._adapted_ is None else self._adapted_.estimates()

    def _keep(self, found: Adapted | None) -> Self:
        self._adapted_ = found
        if found is not None:
            self.ec_ = None if found.log_ec is None else exp(found.log_ec)
            self.ts_ = None if found.log_ts is None else exp(found.log_ts)
            self.weight_ = found.weight
        return self


def _fit_info(matched: Match, found: Adapted) -> FitInfo:
    """The fit info of the search for both temperatures, with the residual and the error of the one between them."""
    ec = matched.roots[0]
    if not isinstance(ec, Root):
        return matched.fit_info(1)
    step = -found.log_temperature - ec.x
    if step == 0:
        return matched.fit_info(0)
    predicted = ec.residual + ec.point.after(step) - ec.point.value
    return replace(matched.fit_info(0), residual=predicted, temperature_se=found.temperature_se, is_measured=False)
