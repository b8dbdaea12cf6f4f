"""`MultilabelCalibrator`: calibration of a model that decides about several labels independently."""

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from nishimori._calibrators.methods import new_calibrator, refuse_common
from nishimori._calibrators.multilabel.decisions import Decisions, check_values, open_decisions, refuse_probabilities, scores_in
from nishimori._calibrators.multilabel.label_maps import LabelFit, LabelMaps, Sharing, fit_labels
from nishimori._calibrators.multilabel.label_record import read_labels, write_labels
from nishimori._calibrators.multilabel.targets import check_missing
from nishimori._calibrators.private_sklearn import BaseEstimator, ClassifierMixin, TransformerMixin
from nishimori._fit.floors import choose_floor
from nishimori._rows.batch import Groups
from nishimori._rows.column_names import column_names
from nishimori._rows.labels import Classes
from nishimori._rows.scores import FIT_AGAIN, FITTED_TO_PROBABILITIES, Floor, Input, Scores, is_auto, warn_of_probabilities
from nishimori._rows.stored_rows import Stored
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray, namespace
from nishimori._support.numbers import numeric, one_of
from nishimori.errors import InputError
from nishimori.maps.map import in_blocks


@dataclass(eq=False, repr=False)
class MultilabelCalibrator(ClassifierMixin, TransformerMixin, BaseEstimator):
    """Calibrate a model whose labels do not exclude each other: a sigmoid per label instead of one softmax.

    Each sample has any number of the labels, and the model says the logit of each, or its probability. A decision about one
    label is a binary problem: its confidence is the larger of p and 1 - p, and it is right if p > 0.5 exactly where the sample
    has the label.

    Parameters
    ----------
    calibrator : str or Calibrator
        The method that is fitted to the decisions: a name such as "ec", "ts" or "platt", or an unfitted calibrator. Any
        method that works for two classes can be used. Rare labels need one with a bias, such as "platt".
    parameters : {"shrunk", "shared", "per_label"}
        "shared" fits one map to the decisions about all labels, "per_label" one map to those about each label. "shrunk" is for
        "ec" and "ts": a temperature per label that is moved from the common one only as far as the data tell the labels
        apart, by the random-effects model of `GroupConsistency`. It needs one condition for all labels, so it has no
        "adaptive", whose share of EC is another one for each label.
    labels : sequence, optional
        The name of each label, in the order of the columns. By default the column names of ``y`` or of ``X`` if they are data
        frames, else 0, 1, ...
    missing : float, optional
        What stands for a label that is not known in ``y``, such as -1 or NaN. Such decisions do not count. By default all
        entries of ``y`` must be 0 or 1.
    input : "logits", "probabilities" or None
        What ``X`` holds: by default logits. Numbers that all lie between 0 and 1 are refused until you say what they are.
    floor : float, "auto" or None
        Smaller probabilities, and those above 1 - ``floor``, are moved to this distance from 0 and 1, with
        ``input="probabilities"``. None moves only exact zeros, to the smallest number of their dtype. "auto" takes
        one floor for all labels: the largest whose cross-validated log-loss, summed over all decisions, is within 0.5 of the
        lowest. All decisions about a sample are in the same fold.

    Attributes
    ----------
    maps_ : tuple of Map
        What is done to the two logits (0, z) of each decision, one per label.
    calibrators_ : tuple of Calibrator or None
        The fitted calibrator of each label, with what its method tells about its parameters, such as ``parameters_`` and
        ``parameters_se_`` of `Platt`. With "shared" all labels have the same one. None with "shrunk", and after `load`, because
        files hold the maps only.
    temperatures_, temperatures_se_ : array of shape (n_labels,) or None
        The temperature of each label and its standard error; None for a method that does more than to divide by one.
    temperature_, temperature_se_ : float or None
        The temperature of all decisions together and its standard error, in which the labels of a sample are not independent;
        None if it was not fitted.
    spread_, used_spread_ : float or None
        With "shrunk", the standard deviation of log T between labels, and the one that temperatures are shrunk with: for "ec"
        the lower limit of its 95 % confidence interval, for "ts" `spread_` itself.
    open_labels_ : tuple
        The labels that have the parameters of all decisions, because their own decisions do not tell: too few are known, or no
        temperature satisfies the condition, as where every decision is right.
    floor_ : float or None
        The floor that is used: the one that was passed, or that "auto" chose. It is saved with the calibration.
    classes_ : array
        The names of the labels.
    n_features_in_, n_samples_ : int
        The number of labels, and of samples with a positive weight.
    feature_names_in_ : array of str
        Column names, if ``X`` had any. Other or permuted names are then refused.

    See Also
    --------
    evaluate_multilabel : how well the probabilities of each label agree with how often it is there.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori.multilabel import MultilabelCalibrator
    >>> rng = np.random.default_rng(0)
    >>> logits = 4 * rng.normal(size=(3000, 3))
    >>> labels = logits / [1.0, 2.0, 4.0] + rng.logistic(size=logits.shape) > 0  # drawn at T = 1, 2 and 4
    >>> calibrator = MultilabelCalibrator(labels=["dog", "night", "rain"]).fit(logits, labels)
    >>> for name, T, se in zip(calibrator.classes_, calibrator.temperatures_, calibrator.temperatures_se_):
    ...     print(f"{name}: T = {T:.2f} ± {se:.2f}")
    dog: T = 0.99 ± 0.05
    night: T = 1.88 ± 0.09
    rain: T = 3.40 ± 0.20
    """

    calibrator: Any = "ec"
    _: KW_ONLY
    parameters: Sharing = "shrunk"
    labels: Classes = None
    missing: float | None = None
    input: Input | None = None
    floor: Floor = "auto"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's tools ask: ``y`` is a table with one column per label."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.one_d_labels = False
        tags.target_tags.two_d_labels = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, clusters: Any = None) -> Self:
        """Learn from validation scores ``X`` and the labels ``y`` that samples have.

        Parameters
        ----------
        X : array of shape (n_samples, n_labels)
            The logit of each label, or its probability if ``input`` says so: an array of any library, a data frame, the path of
            a .npy file, a memory map or an array in chunks. What lies on disk is read a few megabytes at a time.
        y : array of shape (n_samples, n_labels)
            1 (or True) where a sample has the label, 0 where not, ``missing`` where that is not known.
        sample_weight : array of shape (n_samples,), optional
            A weight of w counts all decisions of a sample w times as much.
        clusters : array of shape (n_samples,), optional
            Which samples belong together, for standard errors. By default samples are independent. The labels of one sample
            never are.

        Raises
        ------
        NoTemperatureError
            If there is no temperature of all decisions together, where one is needed.
        """
        one_of("parameters", self.parameters, Sharing)
        method = new_calibrator(self.calibrator, "calibrator")
        refuse_common(method, "calibrator", self)
        rows = self._decisions(X, y, sample_weight, clusters)
        fit = fit_labels(method, self.parameters, rows)
        floor = None if rows.floor is None else float(rows.floor)
        n_samples = int(np.count_nonzero(rows.weights))
        return self._keep(fit, rows.names, rows.scores.input, floor, column_names(X), n_samples)

    def _keep(
        self,
        fit: LabelFit,
        names: tuple[Any, ...],
        input: Input,
        floor: float | None,
        columns: Sequence[str] | None,
        n_samples: int,
    ) -> Self:
        """Note what was fitted, or what a file describes. Called last, so that a fit that fails leaves everything as it was."""
        self.maps_, self.calibrators_ = fit.maps, fit.calibrators
        self.temperatures_, self.temperatures_se_ = LabelMaps(fit.maps).temperatures, fit.temperatures_se
        self.temperature_, self.temperature_se_ = fit.temperature, fit.temperature_se
        self.spread_, self.used_spread_, self.open_labels_ = fit.spread, fit.used_spread, fit.open_labels
        self.input_, self.floor_, self.n_samples_ = input, floor, n_samples
        self.classes_ = np.array(names, dtype=object if len({type(name) for name in names}) > 1 else None)
        self.n_features_in_ = len(names)
        if columns is not None:
            self.feature_names_in_ = np.array(columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return self

    def _decisions(self, X: Any, y: Any, sample_weight: Any, clusters: Any) -> Decisions:
        """The binary rows to fit to."""
        check_missing(self.missing)
        scores = scores_in(X, self.input, None if is_auto(self.floor) else self.floor)  # type: ignore[arg-type]
        rows = open_decisions(scores, X, y, sample_weight, clusters, labels=self.labels, missing=self.missing)
        if self.input is None:
            refuse_probabilities(scores, rows.weights)
        return rows.with_floor(choose_floor(rows, "X")) if is_auto(self.floor) and scores.input == "probabilities" else rows

    def _check_columns(self, X: Any, name: str = "X") -> Scores:
        """The scores, whose number and names of columns must be those that the calibrator was fitted to."""
        check_is_fitted(self, "maps_")
        scores = replace(scores_in(X, self.input_, self.floor_, name), remedy=FITTED_TO_PROBABILITIES)
        if int(scores.array.shape[1]) != self.n_features_in_:
            raise InputError(
                f"X has {int(scores.array.shape[1])} features, but MultilabelCalibrator is expecting {self.n_features_in_} "
                f"features as input: `{name}` must have one column per label."
            )
        if column_names(X) is not None and hasattr(self, "feature_names_in_"):
            try:
                validate_data(self, X, reset=False, skip_check_array=True)
            except ValueError as error:
                raise InputError(f"{str(error).strip()} Pass `{name}[list(calibrator.feature_names_in_)]`.") from None
        return scores

    def predict_proba(self, X: Any) -> Array:
        """The calibrated probability of each label, of shape (n_samples, n_labels), in the array library and dtype of ``X``.

        Probabilities of a row do not sum to 1: each is that of one label.
        """
        return self._from_logits(X, lambda logits: 1 / (1 + namespace(logits).exp(-logits)))

    def transform(self, X: Any) -> Array:
        """The calibrated logit of each label, ``X / temperatures_`` where the method divides logits by a temperature."""
        return self._from_logits(X, lambda logits: logits)

    def predict(self, X: Any) -> Array:
        """1 for each label whose calibrated probability is above 0.5, else 0, of shape (n_samples, n_labels)."""
        return self._from_logits(X, _decide)

    def get_feature_names_out(self, input_features: Any = None) -> HostArray:  # noqa: ARG002 - scikit-learn's signature
        """The names of the labels, for the data frames that `transform` gives after ``set_output``."""
        check_is_fitted(self, "maps_")
        return np.array([str(name) for name in self.classes_.tolist()], dtype=object)

    def _from_logits(self, X: Any, rule: Any) -> Array:
        """``rule`` of the calibrated logits, block by block."""
        scores = self._check_columns(X)
        if isinstance(scores.array, Stored):  # results are in memory, so the scores may be too
            scores = replace(scores, array=numeric(X, "X"))
        if self.input is None:
            flat = namespace(scores.array).reshape(scores.array, (-1,))
            warn_of_probabilities(replace(scores, array=flat), FIT_AGAIN)
        maps, xp = LabelMaps(self.maps_), namespace(scores.array)

        def of_rows(rows: slice | None) -> Array:
            first, block = (0, scores.array) if rows is None else (rows.start, scores.array[rows, ...])
            flat = replace(scores, array=xp.reshape(block, (-1,)))
            n_samples, n_labels = (int(length) for length in block.shape)
            groups = Groups(np.tile(np.arange(n_labels), n_samples), ())
            with np.errstate(over="ignore"):
                predicted = rule(self._mapped(maps, flat, first * n_labels, groups))
            predicted = namespace(predicted).reshape(predicted, block.shape)
            return predicted if rule is _decide else arrays.to_dtype_of(predicted, scores.array)

        return in_blocks(scores, of_rows)

    def _mapped(self, maps: LabelMaps, flat: Scores, first: int, groups: Groups) -> Array:
        """The calibrated logit of each of some decisions, the first of which has this place in the table."""
        values = arrays.to_compute(arrays.numpy_view(flat.array))
        check_values(values, flat, first + np.arange(int(values.shape[0])), self.n_features_in_)
        logits, _ = flat.as_logits(values)
        if maps.temperatures is not None:  # the difference first, as in `Calibrator`
            return maps.apply(logits[:, 1:] - logits[:, :1], groups)[:, 0]
        mapped = maps.apply(logits, groups)
        return mapped[:, 1] - mapped[:, 0]

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted calibrator to a JSON file; `nishimori.load` reads it back.

        Parameters
        ----------
        path : str or path
            Where to. An existing file is kept unless ``overwrite``.
        overwrite : bool
            Replace an existing file.
        """
        check_is_fitted(self, "maps_")
        write_labels(self, path, overwrite=overwrite)

    @classmethod
    def from_content(cls, content: dict[str, Any], path: Path) -> Self:
        """The calibrator that the content of a file describes, ready to use."""
        parameters, learned = read_labels(content, path)
        return cls(**parameters)._keep(**learned)


def _decide(logits: Array) -> Array:
    xp = namespace(logits)
    return xp.argmax(xp.stack([xp.zeros_like(logits), logits], axis=-1), axis=-1)
