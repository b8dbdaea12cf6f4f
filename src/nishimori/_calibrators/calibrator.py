"""What all calibrators have in common: scikit-learn's contract around a map that `fit` chooses.

They sit behind any model: ``X`` is what the model says (logits or probabilities), not what it was asked about.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import numpy as np
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted, validate_data

from nishimori._calibrators.private_sklearn import (
    BaseEstimator,
    ClassifierMixin,
    OneToOneFeatureMixin,
    TransformerMixin,
    container_adapter,
)
from nishimori._methods.fitted_method import COMMON, FittedMethod, check_map, check_members, check_n_classes
from nishimori._methods.table import Traits
from nishimori._rows.batch import Groups
from nishimori._rows.column_names import column_names, refuse_permuted
from nishimori._rows.labels import Classes, flat_labels
from nishimori._rows.members import scores_of_members
from nishimori._rows.rows import Rows, is_rows
from nishimori._rows.scores import (
    FIT_AGAIN,
    FITTED_TO_PROBABILITIES,
    PERCENTAGES,
    Floor,
    Input,
    Members,
    Scores,
    move_classes_last,
    scores_of,
    warn_of_probabilities,
)
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, namespace
from nishimori._support.numbers import numeric
from nishimori._support.optional import import_object
from nishimori.errors import InputError
from nishimori.maps.map import apply_checked, in_blocks
from nishimori.maps.temperature import checked_groups, temperature_of

if TYPE_CHECKING:
    from nishimori._calibrators.fixed import FixedMap

# What predicts for arrays of Dask, as lazily as these.
_LAZY = "nishimori._dask.predictions:lazily"

# What a calibrator for other frequencies is, which is a subclass.
_FIXED = "nishimori._calibrators.fixed:FixedMap"

C = TypeVar("C", bound="Calibrator")

PREDICTIONS = ("predict", "predict_proba", "predict_log_proba")
"""The methods to which scikit-learn passes metadata when it predicts with the last step of a pipeline."""


def in_data_frame(array: Array, X: Any, estimator: Any, names: Callable[[], HostArray]) -> Any:
    """``array``, what ``estimator`` makes of ``X``, in the kind of data frame that it is set to; as it is by default.

    scikit-learn's own wrapper asks the estimator for the names of the columns. It does not know that a flat array of binary
    scores gives one column, so ``names`` are passed here.
    """
    adapter = container_adapter("transform", estimator)
    if adapter is None:
        return array
    table = X.to_frame() if hasattr(X, "to_frame") else X  # scikit-learn 1.6 takes the index of tables only, not of one column
    host = arrays.on_host(array)
    rows = host if host.ndim < 3 else host.reshape(-1, host.shape[-1])
    return adapter.create_container(rows, table, columns=names())


# scikit-learn must not wrap `transform`: it does not know that flat scores give one column. `in_data_frame` does it instead.
@dataclass(kw_only=True, eq=False, repr=False)
class Calibrator(ClassifierMixin, TransformerMixin, FittedMethod, BaseEstimator, auto_wrap_output_keys=()):
    """Everything except the choice of the map.

    A subclass has a `fit` that takes its data from `rows_from` and ends with ``return self.learn(...)``. Its constructor, if it
    has one, takes the parameters ``input``, ``classes`` and ``floor`` too and passes them to this one. Those of the library are
    dataclasses: their fields are the parameters, and they compare and print as all estimators of scikit-learn do.

    Attributes
    ----------
    traits : Traits, dict or None
        What the method does and needs, as a class attribute; None if its author does not say. A subclass of your own has a
        dictionary: ``{"keeps_predictions": False, "streams": True, "from_sketch": False, "error_bars": True}``.
    is_fixed : bool
        Whether `fit` learns nothing from the data, as a class attribute.
    class_prior_ : array of shape (n_classes,) or None
        After `fit`, the share of each class among the samples, by weight; None where it is not known, see `with_prevalence`.
    members_ : (size, axis) or None
        After `fit` with ``member_axis``, how many members were averaged and in which dimension they were.
    matches_confidence : bool
        Whether mean confidence equals accuracy on the samples that it was fitted to, whichever these are.
    """

    traits: ClassVar[Traits | None] = None
    input: Input | None = None
    classes: Classes = None
    floor: Floor = "auto"

    def fit_transform(self, X: Any, y: Any = None, *args: Any, **fit_params: Any) -> Any:
        """The calibrated logits of the data that are fitted to; arguments as for `fit`."""
        fitted = self.fit(X, y, *args, **fit_params)
        return fitted.transform(X, fit_params.get("groups") if self.map_.needs_groups else None)

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Learn from ``data``, the opened rows of ``X``, in calibrators whose `fit` is `fit_rows` or `fit_grouped_rows`."""
        raise NotImplementedError

    @property
    def method(self) -> str:
        """The name of the method; in some classes a parameter, such as "ec" or "ts" of `BiasCorrected`."""
        return self.method_name

    def _check_n_classes(self, n_classes: int) -> None:
        """Refuse parameters that do not suit this many classes; all do by default."""

    @property
    def matches_confidence(self) -> bool:
        return False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        traits: Any = cls.traits
        if isinstance(traits, dict):
            cls.traits = Traits(**traits)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "map_" in self.__dict__:  # a pickle, which may hold a map of any class
            check_map(self.map_, getattr(self, "n_features_in_", None))

    def _check_columns(self, X: Any, name: str = "X") -> None:
        """Refuse scores whose number or names of columns are not those that the calibrator was fitted to."""
        if is_rows(X):
            check_n_classes(self, X, name)
            return
        if hasattr(X, "columns") and not hasattr(self, "feature_names_in_"):
            refuse_permuted(column_names(X, name), self._names)
        if hasattr(self, "n_features_in_"):
            self._check_names(X, numeric(X, name).shape, name)

    def _check_names(self, X: Any, shape: tuple[int, ...], name: str = "X") -> None:
        if len(shape) != 2 and self.n_features_in_ != (2 if len(shape) == 1 else shape[-1]):
            remedy = f"Reshape your data: for one sample pass `[{name}]`." if len(shape) == 1 else ""
            remedy = remedy or move_classes_last(name, shape, self.n_features_in_)
            must = f"have {self.n_features_in_} columns, one per class"
            raise InputError(name, must, got=f"shape {tuple(shape)}", remedy=remedy)
        if len(shape) != 2 or (
            type(X) is np.ndarray and shape[1] == self.n_features_in_ and not hasattr(self, "feature_names_in_")
        ):
            return  # the shortest way for the commonest case
        try:
            validate_data(self, X, reset=False, skip_check_array=True)
        except ValueError as error:
            # scikit-learn's own words for a wrong number or wrong names of columns, as our error.
            text, remedy = str(error).strip().replace("X has", f"{name} has", 1), "Pass scores of the same model."
            if "feature names" in text.lower():
                remedy = (
                    "A wrong class order would assign probabilities to the wrong classes. "
                    f"Pass `{name}[list(calibrator.feature_names_in_)]`."
                )
            raise InputError(f"{text} {remedy}") from None

    def _scores(self, X: Any) -> Scores:
        """Check that ``X`` is what the calibrator was fitted to."""
        if "map_" not in self.__dict__:
            check_is_fitted(self, "map_")  # raises
        if getattr(X, "is_claims", False):
            remedy = "Use `predict_proba`, and compare its result with a threshold, such as the one of `nishimori.threshold`."
            raise InputError("X", "be an array", got="claims, which have no predicted class", remedy=remedy)
        if is_rows(X):
            raise InputError(
                "X",
                "be an array",
                got="a Rows object",
                remedy="Pass the array of scores that the rows were made from, or one batch of them.",
            )
        array = numeric(X, "X")
        options: Any = {"input": self.input_, "name": "X", "floor": self.floor_, "remedy": FITTED_TO_PROBABILITIES}
        if self._of_claims_:
            options["remedy"] = PERCENTAGES
        if self.members_ is None:
            if hasattr(self, "n_features_in_"):
                self._check_names(X, array.shape)
            scores = scores_of(array, **options)
        else:
            self._check_member_dimension(array.shape, self.members_)
            scores = scores_of_members(array, self.members_.axis, **options)
            self._check_names(scores.array, scores.array.shape)
        if self.input is None:
            warn_of_probabilities(scores, FIT_AGAIN)
        return scores

    def _check_member_dimension(self, shape: tuple[int, ...], members: Members) -> None:
        """Refuse scores with another number of members than were fitted to, or without a dimension for them."""
        least = 2 if self.n_features_in_ == 2 else 3  # of two classes there may be one score
        if len(shape) < least or not -len(shape) <= members.axis < len(shape):
            must = f"have dimension {members.axis} for the {members.size} members that the calibrator was fitted to"
            raise InputError("X", must, got=f"shape {tuple(shape)}")
        check_members(self, Members(int(shape[members.axis]), members.axis), "X")

    def predict_proba(self, X: Any, groups: Any = None) -> Array:
        """Calibrated probabilities of shape (n_samples, n_classes), in the array library, dtype and device of ``X``.

        ``X`` of more dimensions, such as (sequences, tokens, vocabulary), gives probabilities of the same shape. ``groups``
        name the group of each sample, or of each sequence of tokens, for calibrators that have a temperature per group; all
        others refuse it. Claims give one number each: how likely it is right.
        """
        if arrays.is_lazy(X):
            return import_object(_LAZY)(self, "predict_proba", X, groups)
        if getattr(X, "is_claims", False):
            return self.predict_proba(self._confidences(X))[:, 1]
        scores = self._scores(X)
        at_once = self.map_.probabilities_at_once(scores) if groups is None else None
        return self._from_logits(scores, self.map_.probabilities, groups) if at_once is None else scores.restore_shape(at_once)

    def _confidences(self, claims: Any) -> Any:
        """The numbers of claims, which mean what those meant that were fitted to."""
        if claims.confidence is None or isinstance(claims.confidence, str | os.PathLike):
            remedy = "Read the column of a file, and pass `claims(array)`. Or use nishimori apply."
            raise InputError("X", "be claims from an array", got="others", remedy=remedy)
        if claims.inside.input != self.input_:
            raise InputError("X", f"be claims of the input {self.input_!r}, as the calibrator's", got=repr(claims.inside.input))
        return claims.confidence

    def predict_log_proba(self, X: Any, groups: Any = None) -> Array:
        """Logarithms of the calibrated probabilities, exact also where those round to 0 or 1.

        ``groups`` are as for `predict_proba`.
        """
        if arrays.is_lazy(X):
            return import_object(_LAZY)(self, "predict_log_proba", X, groups)
        return self._from_logits(self._scores(X), self.map_.log_probabilities, groups)

    def predict(self, X: Any, groups: Any = None) -> Array:
        """The predicted label of each sample, in the shape of ``X`` before the classes; of equal largest scores the first.

        Without ``classes`` these are column numbers, in the array library of ``X``; with it, a NumPy array of its labels.
        ``groups`` are as for `predict_proba`, and can be left out where the calibrator keeps predictions.
        """
        if arrays.is_lazy(X):
            return import_object(_LAZY)(self, "predict", X, groups)
        scores = self._scores(X)
        checked = None if groups is None and self.map_.keeps_predictions else self._groups(groups, scores)
        columns = scores.restore_shape(in_blocks(scores, lambda rows: self._columns(scores, rows, checked)))
        if self._names is not None:
            return self.classes_[arrays.on_host(columns)]
        return columns

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of samples whose predicted label is ``y``; labels and weights may have any shape that `fit` takes.

        Give samples that must not count, such as tokens of padding, weight zero.
        """
        predicted = self.predict(X)
        if predicted.ndim > 1:
            shape = tuple(predicted.shape)
            predicted = np.asarray(arrays.on_host(predicted)).reshape(-1)
            positions = Scores(predicted[:, None], "logits", "X", leading=shape)
            y, sample_weight = flat_labels(y, positions, "y"), positions.per_row(sample_weight, "sample_weight")
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))

    def transform(self, X: Any, groups: Any = None) -> Array:
        """The calibrated logits, ``logits / temperature_`` for one temperature; flat if ``X`` is flat.

        What the dtype of ``X`` cannot hold becomes infinite, as in float16 beyond 65,504. ``groups`` are as for
        `predict_proba`. After ``set_output(transform="pandas")``, or "polars", the result is a data frame with the columns
        `get_feature_names_out` and, in pandas, the index of ``X``; a flat ``X`` gives one column. Where ``X`` has more than
        two dimensions, the data frame has one row per position before the classes, in their order.
        """
        if arrays.is_lazy(X):
            return import_object(_LAZY)(self, "transform", X, groups)
        scores = self._scores(X)
        rule = self._binary_logit if scores.is_binary_score else partial(apply_checked, self.map_)
        logits = self._from_logits(scores, rule, groups)
        return in_data_frame(logits, X, self, lambda: self._names_out(scores.n_classes, one_column=scores.is_binary_score))

    def get_metadata_routing(self) -> Any:
        """Who gets which metadata, for scikit-learn: groups go only to methods that use them, unless others request them.

        Groups are often for a splitter alone. A calibrator that has no use for them must not stop a grouped cross-validation.
        """
        request = super().get_metadata_routing()
        for name in self._methods_without_groups():
            of_method = getattr(request, name)
            if of_method.requests.get("groups", False) is None:
                of_method.add_request(param="groups", alias=False)
        return request

    def _methods_without_groups(self) -> tuple[str, ...]:
        """The methods whose results do not depend on groups, whatever the calibrator is fitted to."""
        return () if "groups" in signature(self.fit).parameters else ("fit", *PREDICTIONS, "transform")

    def get_feature_names_out(self, input_features: Any = None) -> HostArray:
        """The names of the columns of calibrated logits, for data frames and pipelines.

        They are the names of the columns of ``X``, where those are known. Otherwise they are the labels in ``classes``, as
        text, or "class0", "class1", ... A calibrator that was fitted to a flat array of binary scores has one column, with
        the name of the second class.

        Parameters
        ----------
        input_features : sequence of str, optional
            The names of the columns of ``X``, if the calibrator was fitted to an array without names.

        Returns
        -------
        array of str
            One name per column, of dtype object.
        """
        check_is_fitted(self, "map_")
        if not hasattr(self, "n_features_in_"):
            raise InputError(
                "`get_feature_names_out` needs the number of classes, which this calibrator does not know. Pass `classes` when "
                "you make it."
            )
        one_column = getattr(self, "_is_flat_", False)
        if one_column or (input_features is None and not hasattr(self, "feature_names_in_")):
            return self._names_out(self.n_features_in_, one_column=one_column)
        try:
            names: HostArray = OneToOneFeatureMixin.get_feature_names_out(self, input_features)
        except ValueError as error:
            raise InputError(f"{error}. Pass the names of the columns of `X`, or leave `input_features` out.") from None
        return names

    def _names_out(self, n_classes: int, *, one_column: bool) -> HostArray:
        """The names of this many columns of calibrated logits, or of the one column of flat scores."""
        if hasattr(self, "feature_names_in_") and not one_column:
            return self.feature_names_in_
        labels = [f"class{i}" for i in range(n_classes)] if self._names is None else map(str, self.classes_.tolist())
        names = np.array(list(labels), dtype=object)
        return names[1:] if one_column else names

    def _groups(self, groups: Any, scores: Scores) -> Groups | None:
        """The groups of all rows, if the map needs them."""
        if self.map_.needs_groups:
            return checked_groups(self.map_, scores.per_row(groups, "groups"), scores.n_samples)
        if groups is not None:
            raise InputError("groups", "be left out: this calibrator treats all groups alike")
        return None

    def _from_logits(self, scores: Scores, rule: Callable[[Array, Any], Array], groups: Any) -> Array:
        """``rule`` of the logits and groups of all rows, in the array library, dtype and device of the scores."""
        checked = self._groups(groups, scores)

        def of_rows(rows: slice | None) -> Array:
            with np.errstate(over="ignore"):  # beyond the range of float16: infinite
                values = rule(scores.logits(rows=rows), None if checked is None else checked.at_rows(rows))
                return arrays.to_dtype_of(values, scores.array)

        return scores.restore_shape(in_blocks(scores, of_rows))

    def _columns(self, scores: Scores, rows: slice | None, groups: Groups | None) -> Array:
        """The column of the largest calibrated score of each row."""
        if self.map_.keeps_predictions:  # different probabilities can have the same logarithm
            ranked = scores.table(rows=rows)
        else:
            ranked = apply_checked(self.map_, scores.logits(rows=rows), None if groups is None else groups.at_rows(rows))
        return namespace(ranked).argmax(ranked, axis=1)

    def _binary_logit(self, logits: Array, groups: Any) -> Array:
        """The calibrated logit of the second class over the first, one number per row."""
        if temperature_of(self.map_) is not None:  # the difference first: that of two infinite logits is NaN
            return self.map_.apply((logits[:, 1] - logits[:, 0])[:, None])[:, 0]
        mapped = apply_checked(self.map_, logits, groups)
        return mapped[:, 1] - mapped[:, 0]

    def with_prevalence(self, new: Any) -> "FixedMap":
        """A calibrator for classes of other frequencies, ready to use: ln(new/old) is added to the calibrated logits.

        The old frequencies are always ``class_prior_``, those of the calibration data, whatever the model was trained on:
        calibrated probabilities are those for the calibration data. It is right where the classes become more or less
        frequent and the samples of each class stay as they are.

        Parameters
        ----------
        new : float, dict or array of shape (n_classes,)
            The share of each class where probabilities will be used: a dictionary by label, an array in the order of the
            columns, or one number for the second of two classes. They sum to 1, and none is zero.

        Returns
        -------
        FixedMap
            Its ``class_prior_`` is ``new``. It is saved, folded and exported as every calibrator.

        Raises
        ------
        InputError
            If ``new`` is not the frequencies of these classes, if the calibrator does not know those of its data (sketches,
            top-k lists, Dask and more than 8,192 classes), or if the mean probability of a class was significantly off its
            share of them, as one temperature may leave it.

        Examples
        --------
        >>> import nishimori
        >>> logits = [[0.0], [1.0], [2.0], [-1.0], [0.5], [-2.0], [0.1], [-0.3]]
        >>> scores, labels = [row[0] for row in logits], [0, 1, 1, 0, 1, 0, 0, 1]
        >>> calibrator = nishimori.calibrator("platt").fit(scores, labels)
        >>> calibrator.class_prior_
        array([0.5, 0.5])
        >>> calibrator.with_prevalence(0.1).predict_proba([1.0]).round(3), calibrator.predict_proba([1.0]).round(3)
        (array([[0.78, 0.22]]), array([[0.283, 0.717]]))
        """
        check_is_fitted(self, "map_")
        return cast("FixedMap", import_object(_FIXED).with_other_prevalence(self, new))

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted calibrator to a small JSON file; `nishimori.load` reads it back.

        Parameters
        ----------
        path : str or path
            Where to. An existing file is kept unless ``overwrite``.
        overwrite : bool
            Replace an existing file.
        """
        check_is_fitted(self, "map_")
        super().save(path, overwrite=overwrite)


for name in COMMON:  # the defaults are those of the constructor: one of a user's own has to set the attributes
    delattr(Calibrator, name)


def fit_rows(
    self: C,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    clusters: Any = None,
    counts: bool = False,
    ignore_index: int | None = None,
    member_axis: int | None = None,
) -> C:
    """Learn from validation logits ``X`` and labels ``y``; the class says what the method makes of weights and clusters.

    Parameters
    ----------
    X : array of shape (n_samples, n_classes), or (n_samples,), or (..., n_classes)
        Logits, or probabilities if ``input`` says so, of data the model was not trained on; flat for a binary score. With
        more dimensions, such as (sequences, tokens, vocabulary), each position is a sample. For one temperature also a `TopK`
        of the most probable classes.
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
    member_axis : int, optional
        Which dimension of ``X`` is that of the members of an ensemble, or of dropout masks. The log of their mean softmax is
        calibrated. Predictions then take ``X`` with the same number of members in this dimension.

    Raises
    ------
    NoTemperatureError, DegenerateDataError, NotConvergedError
        If the data are valid but do not determine what is fitted; the class says when.
    """
    data = self.rows_from(X, y, sample_weight, clusters, counts=counts, ignore_index=ignore_index, member_axis=member_axis)
    return self._fit_rows(X, data)


def fit_grouped_rows(
    self: C,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    groups: Any = None,
    clusters: Any = None,
    counts: bool = False,
    ignore_index: int | None = None,
    member_axis: int | None = None,
) -> C:
    """Learn from validation logits ``X`` and labels ``y`` of samples that may belong to groups.

    Parameters
    ----------
    X : array of shape (n_samples, n_classes), or (n_samples,), or (..., n_classes)
        Logits, or probabilities if ``input`` says so, of data the model was not trained on; flat for a binary score. With
        more dimensions, such as (sequences, tokens, vocabulary), each position is a sample.
    y : array of shape (n_samples,), or as ``X`` before the classes
        True classes.
    sample_weight : array of the shape of ``y``, optional
        A weight of w counts a sample w times as much. Where samples are tokens, also one weight per sequence.
    clusters : array of the shape of ``y``, optional
        Which samples belong together, such as the tokens of a document or the frames of a video. Standard errors then take
        clusters as independent, and samples of a cluster as not.
    counts : bool
        Whether a weight of w stands for w independent samples. By default it is one sample that counts w times as much.
    ignore_index : int, optional
        Samples with this label do not count, such as tokens of padding with the label -100. Their logits may be anything.
    member_axis : int, optional
        Which dimension of ``X`` is that of the members of an ensemble, or of dropout masks. The log of their mean softmax is
        calibrated. Predictions then take ``X`` with the same number of members in this dimension.
    groups : array of shape (n_samples,), optional
        The group of each sample, such as a site, a language or a patient: text or numbers, or the name of a column if ``X`` is
        a file of a table. Of a data frame, pass the column itself. ``GroupConsistency(by="groups")`` has a temperature for
        each, `Consistent` passes them to its method, and `Best` keeps the samples of a group in one fold.

    Raises
    ------
    InputError
        If there are groups and the calibrator has no use for them, or fewer samples, groups or clusters than folds.
    NoTemperatureError, DegenerateDataError, NotConvergedError
        If the data are valid but do not determine what is fitted; the class says when.
    """
    if groups is not None and "fit" in self._methods_without_groups():
        must = "be left out: this calibrator treats all groups alike"
        raise InputError("groups", must, remedy="Use GroupConsistency(by='groups') for a temperature per group.")
    data = self.rows_from(
        X, y, sample_weight, clusters, groups, counts=counts, ignore_index=ignore_index, member_axis=member_axis
    )
    return self._fit_rows(X, data)


fit_rows.__qualname__ = fit_grouped_rows.__qualname__ = "Calibrator.fit"  # what messages about wrong arguments call them
