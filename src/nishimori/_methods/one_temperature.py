"""Methods that divide all logits by one temperature: each is an observable whose means must agree."""

from abc import abstractmethod
from typing import Any, Self, cast

import numpy as np

from nishimori._fit.match import FitInfo, Match
from nishimori._fit.search import TemperatureSolution, find_temperature
from nishimori._fit.smoothed import match_smoothed
from nishimori._methods.fitted_method import FittedMethod
from nishimori._methods.record import Record
from nishimori._rows.labels import Classes
from nishimori._rows.rows import Rows
from nishimori._rows.scores import Floor, Input
from nishimori._sums.observables import Confidence, Energy, Observable, TopN
from nishimori._support.intervals import Interval
from nishimori._support.numbers import whole
from nishimori.errors import InputError
from nishimori.maps.temperature import Temperature


class OneTemperatureMethod(FittedMethod):
    """The search for the temperature; subclasses choose the observable."""

    smooth_labels: bool = False
    fit_info_: FitInfo
    n_passes_: int
    temperature_bounds_: Interval | None = None
    is_uniform_: bool

    @abstractmethod
    def observable_for(self, n_classes: int) -> Observable:
        """What is matched; refuses parameters that do not suit this many classes."""

    def check_parameters(self, n_classes: int) -> None:
        """Refuse parameters that do not suit this many classes."""
        self.observable_for(n_classes)

    def expected_passes(self, data: Rows) -> int:
        """One, and another for the errors of clusters, which are measured at the temperature itself."""
        return 2 if data.has_clusters else 1

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
        """Choose the temperature from validation logits ``X`` and labels ``y``.

        Parameters
        ----------
        X : array of shape (n_samples, n_classes), or (n_samples,), or (..., n_classes)
            Logits, or probabilities if ``input`` says so, of data the model was not trained on; flat for a binary score. With
            more dimensions, such as (sequences, tokens, vocabulary), each position is a sample. Or a `TopK` of the most
            probable classes.
        y : array of shape (n_samples,), or as ``X`` before the classes
            True classes.
        sample_weight : array of the shape of ``y``, optional
            A weight of w counts a sample w times as much. Where samples are tokens, also one weight per sequence.
        clusters : array of the shape of ``y``, optional
            Which samples belong together, such as the tokens of a document or the frames of a video: any label of its cluster
            for each sample, or for each sequence of tokens. The standard error then takes clusters as independent, and samples
            of a cluster as not.
        counts : bool
            Whether a weight of w stands for w independent samples. By default it is one sample that counts w times as much.
        ignore_index : int, optional
            Samples with this label do not count, such as tokens of padding with the label -100. Their logits may be anything.

        Raises
        ------
        NoTemperatureError
            If no temperature satisfies the condition: every sample is right, say, or accuracy is not above chance.
        """
        data, counts = self.rows_to_fit(X, y, sample_weight, clusters, counts, ignore_index=ignore_index)
        observable = self.observable_for(data.n_classes)
        if self._smooths():
            return self._fit_smoothed(X, data, observable, counts=counts)
        return self._keep(X, data, find_temperature(data, observable, label_name=self.label_name(X), counts=counts))

    def adopt(self, X: Any, data: Rows, matched: Match, position: int) -> Self:
        """Keep the temperature of one observable of a search in ``data``, which are those of ``X``; raises if there is none."""
        return self._keep(X, data, TemperatureSolution(*matched.solution(position)))

    def _keep(self, X: Any, data: Rows, solution: TemperatureSolution) -> Self:
        """Keep what a search has found."""
        fit_info = solution.fit_info
        error = fit_info.temperature_se
        self.learn(X, data, Temperature(solution.temperature), fit_info.n_samples, fit_info.residual, temperature_se=error)
        self.n_passes_ = fit_info.n_passes
        self.fit_info_ = fit_info
        self.temperature_bounds_ = solution.bounds
        self.is_uniform_ = False
        return self

    def _smooths(self) -> bool:
        if not isinstance(self.smooth_labels, bool | np.bool_):
            raise InputError("smooth_labels", "be True or False", got=repr(self.smooth_labels))
        return bool(self.smooth_labels)

    def _fit_smoothed(self, X: Any, data: Rows, observable: Observable, *, counts: bool) -> Self:
        """Choose the temperature of smoothed labels, which has no standard error."""
        assert isinstance(observable, Confidence | TopN | Energy), "only these methods have the parameter"
        found = match_smoothed(data, observable, label_name=self.label_name(X), counts=counts)
        self.learn(X, data, Temperature(found.temperature), found.fit_info.n_samples, found.fit_info.residual)
        self.n_passes_ = found.fit_info.n_passes
        self.fit_info_ = found.fit_info
        self.temperature_bounds_ = None
        self.is_uniform_ = found.is_uniform
        found.warn()
        return self

    def estimates(self) -> dict[str, float] | None:
        """Whether the temperature stands for the uniform distribution, where that may be."""
        return {"uniform": float(self.is_uniform_)} if self.smooth_labels else super().estimates()

    def restore(self, record: Record) -> Self:
        """Become what ``record`` describes, ready to use."""
        super().restore(record)
        self.is_uniform_ = bool((record.provenance.estimates or {}).get("uniform"))
        return self


class ExpectationConsistencyMethod(OneTemperatureMethod):
    """The temperature at which mean confidence equals accuracy; the calibrator is `ExpectationConsistency`."""

    def __init__(
        self,
        *,
        top_n: int = 1,
        smooth_labels: bool = False,
        input: Input | None = None,
        classes: Classes = None,
        floor: Floor = "auto",
    ) -> None:
        self.top_n = top_n
        self.smooth_labels = smooth_labels
        self.input: Input | None = input
        self.classes = classes
        self.floor: Floor = floor

    def observable_for(self, n_classes: int) -> Observable:
        """Confidence, or the probability of the N largest classes."""
        n = whole("top_n", self.top_n, 1, n_classes - 1, which_is="one less than the number of classes")
        return Confidence() if n == 1 else TopN(n)


class TemperatureScalingMethod(OneTemperatureMethod):
    """The temperature at which the mean cross-entropy is lowest; the calibrator is `TemperatureScaling`."""

    def __init__(
        self, *, smooth_labels: bool = False, input: Input | None = None, classes: Classes = None, floor: Floor = "auto"
    ) -> None:
        self.smooth_labels = smooth_labels
        self.input: Input | None = input
        self.classes = classes
        self.floor: Floor = floor

    def observable_for(self, n_classes: int) -> Observable:  # noqa: ARG002
        """The logit itself."""
        return Energy()
