"""What calibrators of binary scores have in common: the calibrated log-odds are a sum of a few functions of the scores."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.parameters import Layout, flat_entries, read_errors
from nishimori._fit.logistic import Coefficients, LogisticSearch, Overview, OverviewPass, Regression
from nishimori._methods.record import Record
from nishimori._methods.traits import Traits
from nishimori._rows.labels import Classes, class_labels
from nishimori._rows.rows import Rows, refuse_counted_clusters
from nishimori._rows.scores import Floor, Input
from nishimori._sums.census import CountZeros, warn_of_zeros
from nishimori._sums.passes import together
from nishimori._support.arrays import HostArray
from nishimori.errors import DegenerateDataError, InputError, NotConvergedError, setting
from nishimori.maps.map import Map


def _no_se_if_smoothed() -> str:
    return (
        "The labels are smoothed, which draws the parameters towards zero: a standard error would not say how far they are "
        f"from the true ones. Fit with {setting('smooth_labels', False)} to have standard errors."
    )


class BinaryCalibrator(Calibrator):
    """Everything except which functions of the log-odds are combined, and what map their coefficients give."""

    traits: ClassVar[Traits | None] = Traits(
        keeps_predictions=False, streams=True, from_sketch=False, error_bars=False, n_classes="two"
    )
    n_passes_: int
    parameters_: dict[str, float]
    parameters_se_: dict[str, float] | None
    why_no_se_: str | None

    def __init__(
        self,
        *,
        smooth_labels: bool = True,
        input: Input | None = None,
        classes: Classes = None,
        floor: Floor = "auto",
    ) -> None:
        self.smooth_labels = smooth_labels
        self.input: Input | None = input
        self.classes = classes
        self.floor: Floor = floor

    @property
    @abstractmethod
    def _terms(self) -> dict[str, str]:
        """The name of each parameter, and of the function of the log-odds that it multiplies; "1" comes last."""

    @abstractmethod
    def _map_for(self, parameters: Mapping[str, float]) -> Map:
        """The map with these parameters."""

    def _fit_coefficients(self, search: LogisticSearch, regression: Regression) -> Coefficients:
        """The coefficients to use."""
        return search.least_loss(regression)

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
        """Choose the parameters from validation scores ``X`` of two classes and labels ``y``.

        Parameters
        ----------
        X : array of shape (n_samples,) or (n_samples, 2)
            The score of the second class of each sample, or logits of both classes; probabilities if ``input`` says so.
        y : array of shape (n_samples,)
            True classes.
        sample_weight : array of shape (n_samples,), optional
            A weight of w counts a sample w times as much.
        clusters : array of shape (n_samples,), optional
            Which samples belong together: any label of its cluster for each sample. It changes the standard errors.
        counts : bool
            Whether a weight of w stands for w independent samples. By default it is one sample that counts w times as much.
        ignore_index : int, optional
            Samples with this label do not count.

        Raises
        ------
        InputError
            If there are more than two classes.
        DegenerateDataError
            If ``y`` has one class only, or if all scores are equal.
        NotConvergedError
            If no finite parameters have the least loss: with ``smooth_labels=False`` because the scores separate the classes
            perfectly, else because there are too few different scores.
        """
        terms = self._terms
        data, counts = self.rows_to_fit(X, y, sample_weight, clusters, counts, ignore_index=ignore_index)
        self._refuse_other_data(data, counts=counts)
        functions = tuple(each for each in terms.values() if each != "1")
        zeros, seen = data.gather(together(CountZeros(), OverviewPass(functions))).items
        self._refuse(seen, self.label_name(X))
        warn_of_zeros(int(zeros.total), int(zeros.weight), "the fit", fits=True)
        has_constant = len(functions) < len(terms)
        regression = Regression.from_overview(
            functions, seen, has_constant=has_constant, smoothing=self._smoothing(seen, counts=counts)
        )
        search = LogisticSearch(data, seen)
        try:
            found = self._fit_coefficients(search, regression)
        except NotConvergedError as error:
            self._explain(error)
        errors = None if self.smooth_labels else search.standard_errors(found, counts=counts)
        parameters = self._values_by_name(found.regression, found.values)
        self.learn(X, data, self._map_for(parameters), seen.n_rows, found.residual)
        self.n_passes_ = 1 + search.n_passes
        self.parameters_ = parameters
        self.parameters_se_ = None if errors is None else self._values_by_name(found.regression, errors)
        self.why_no_se_ = _no_se_if_smoothed() if errors is None else None
        return self

    def _refuse_other_data(self, data: Rows, *, counts: bool) -> None:
        """Raise if these parameters cannot be fitted to such data."""
        if not isinstance(self.smooth_labels, bool | np.bool_):
            raise InputError("smooth_labels", "be True or False", got=repr(self.smooth_labels))
        refuse_counted_clusters(data, counts=counts)
        if data.n_classes != 2:
            raise InputError(
                "X",
                f"have two classes for the method {self.method_name!r}",
                got=data.n_classes,
                remedy=(
                    "Only binary classification is supported. Use 'vector' or 'matrix', which work for any number of classes."
                ),
            )

    def _smoothing(self, seen: Overview, *, counts: bool) -> tuple[float, float]:
        """How far the labels are moved from 0 and 1: J. Platt's 1/(N + 2), where N samples have the same class."""
        if not self.smooth_labels:
            return 0.0, 0.0
        return 1 / (seen.negative.number(counts=counts) + 2), 1 / (seen.positive.number(counts=counts) + 2)

    def _refuse(self, seen: Overview, label_name: str) -> None:
        """Raise if the data cannot determine any parameter."""
        names = class_labels(self.classes, 2).tolist()
        for rows, name in ((seen.negative, names[1]), (seen.positive, names[0])):
            if not rows.n_rows:
                raise DegenerateDataError(
                    label_name,
                    "have samples of both classes",
                    got=f"only class {name!r}",
                    remedy="Use more validation samples.",
                )
        if seen.is_constant:
            raise DegenerateDataError(
                "X",
                "have different scores",
                got=(
                    f"the same log-odds {seen.negative.least:.4g} for all {seen.n_rows} samples: no function of them "
                    "tells the classes apart"
                ),
                remedy="Check that `X` holds the scores of the model.",
            )
        if self._separates(seen) and not self.smooth_labels:
            self._explain(None)

    def _separates(self, seen: Overview) -> bool:
        """Whether a threshold of the score is known to separate the classes."""
        return seen.negative.largest <= seen.positive.least or seen.positive.largest <= seen.negative.least

    def _explain(self, error: NotConvergedError | None) -> NoReturn:
        """Raise the error that says why there are no parameters."""
        name = type(self).__name__
        if self.smooth_labels:
            raise NotConvergedError(
                f"The parameters of {name} are not determined. The usual causes are that there are too few different scores, "
                "or that rounding hides the differences between them. Use more validation samples, scores "
                "of a larger size, or a method with fewer parameters, such as 'platt' or 'ts'."
            ) from error
        raise NotConvergedError(
            f"No finite parameters of {name} fit best. The usual cause is that the scores separate the two classes perfectly, "
            "so that larger parameters always fit better. Use more validation samples, or "
            f"{setting('smooth_labels', True)}."
        ) from error

    def _values_by_name(self, regression: Regression, values: HostArray) -> dict[str, float]:
        """One number per coefficient by the name of its parameter; zero for functions that were left out."""
        by_term = dict.fromkeys(self._terms.values(), 0.0)
        by_term |= zip((*regression.terms, "1") if regression.has_constant else regression.terms, values.tolist(), strict=True)
        return {name: by_term[term] for name, term in self._terms.items()}

    def estimates(self) -> dict[str, float] | None:
        """The parameters and their standard errors."""
        return flat_entries(self.parameters_) | flat_entries(self.parameters_se_ or {}, "_se")

    def restore(self, record: Record) -> Self:
        """Become what ``record`` describes, ready to use."""
        super().restore(record)
        layout = Layout(tuple((name, ()) for name in self._terms))
        self.parameters_ = layout.read(record.provenance.estimates or {}) or {}
        self.parameters_se_, self.why_no_se_ = read_errors(record, layout, _no_se_if_smoothed() if self.smooth_labels else None)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
