"""Calibrators with scikit-learn's contract: thin clothes for `_temperatures`.

They sit behind any model: ``X`` is what the model says (logits or probabilities), not what it was asked about.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import nishimori
from nishimori import _array
from nishimori._array import Array, HostArray, namespace
from nishimori._calibrators._record import Method, Record
from nishimori._inputs import Batches, batches, inverse, is_whole
from nishimori._labels import Classes, class_labels, refuse_permuted
from nishimori._observables import Confidence, Energy, Observable, TopN
from nishimori._scores import Input, Scores, check_input, numeric, scores
from nishimori._temperatures import Receipt, fit_one
from nishimori.errors import InputError


class _OneTemperature(ClassifierMixin, TransformerMixin, BaseEstimator, ABC):
    """Everything but the choice of the temperature."""

    method: ClassVar[Method]
    input: Input
    classes: Classes
    temperature_: float
    classes_: HostArray
    n_features_in_: int
    n_samples_: int | None

    @abstractmethod
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from scores ``X`` and true classes ``y``."""

    def _batches(self, X: Any, y: Any, sample_weight: Any) -> Batches:
        refuse_permuted(_column_names(X), self.classes)
        return batches(X, y, sample_weight, input=self.input, classes=self.classes, names=("X", "y"))

    def _fit(self, data: Batches, X: Any, observable: Observable, right: TopN) -> Self:
        temperature, receipt = fit_one(data, observable, right)
        # Only now, so that a fit that fails leaves the calibrator as it was.
        self._learn_columns(X, data.scores)
        self.temperature_ = temperature
        self.n_samples_ = receipt.n_samples
        self.n_passes_ = receipt.n_passes
        self.receipt_: Receipt = receipt
        return self

    def _learn_columns(self, X: Any, checked: Scores) -> None:
        self.n_features_in_ = checked.n_classes
        self.classes_ = class_labels(self.classes, checked.n_classes)
        self.name_columns(_column_names(X))

    def name_columns(self, names: Sequence[str] | None) -> None:
        """Note what the columns of ``X`` are called where ``X`` itself cannot say; other names are refused from then on."""
        refuse_permuted(names, self.classes)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _scores(self, X: Any) -> Scores:
        """Check that ``X`` is what the calibrator was fitted to."""
        check_is_fitted(self, "temperature_")
        array = numeric(X, "X")
        if hasattr(self, "n_features_in_"):
            if len(array.shape) == 2:
                self._check_columns(X)
            elif len(array.shape) == 1 and self.n_features_in_ != 2:
                raise InputError(
                    f"`X` must have {self.n_features_in_} columns, one a class, got shape {tuple(array.shape)}. "
                    "Reshape your data: for one sample pass `[X]`."
                )
        return scores(array, input=self.input, name="X")

    def _check_columns(self, X: Any) -> None:
        """scikit-learn's own words for a wrong number or wrong names of columns, as our error."""
        try:
            validate_data(self, X, reset=False, skip_check_array=True)
        except ValueError as error:
            named = "\nA wrong class order makes nonsense of probabilities." if "feature names" in str(error).lower() else ""
            raise InputError(f"{error}{named}") from None

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities of shape (n_samples, n_classes), in the array library, dtype and device of ``X``."""
        checked = self._scores(X)
        weights, totals, _ = _softmax_parts(checked.logits(), self.temperature_)
        return _array.like(weights / totals, checked.array)

    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the calibrated probabilities, exact also where those round to 0 or 1."""
        checked = self._scores(X)
        _, totals, exponents = _softmax_parts(checked.logits(), self.temperature_)
        return _array.like(exponents - namespace(totals).log(totals), checked.array)

    def predict(self, X: Any) -> Array:
        """The predicted label of each sample; of equal largest scores the first.

        Without ``classes`` these are column numbers, in the array library of ``X``; with it, a NumPy array of its labels.
        """
        checked = self._scores(X)
        logits = checked.logits()
        columns = namespace(logits).argmax(logits, axis=1)
        if self.classes is None:
            return columns
        return self.classes_[_array.on_host(columns)]

    def transform(self, X: Any) -> Array:
        """The scaled logits, ``logits / temperature_``; flat if ``X`` is flat.

        What the dtype of ``X`` cannot hold becomes infinite, as in float16 beyond 65,504.
        """
        checked = self._scores(X)
        logits = checked.logits()
        if checked.is_binary_score:
            logits = logits[:, 1] - logits[:, 0]
        with np.errstate(over="ignore"):
            return _array.like(logits / self.temperature_, checked.array)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted calibrator to a small JSON file; `nishimori.load` reads it back.

        Parameters
        ----------
        path : str or path
            Where to. An existing file is kept unless ``overwrite``.
        overwrite : bool
            Replace an existing file.
        """
        check_is_fitted(self, "temperature_")
        names = getattr(self, "feature_names_in_", None)
        record = Record(
            temperature=float(self.temperature_),
            method=self.method,
            top_n=int(getattr(self, "top_n", 1)),
            input=self.input,
            classes=None if self.classes is None else self.classes_.tolist(),
            columns=None if names is None else names.tolist(),
            n_classes=len(self.classes_) if hasattr(self, "classes_") else None,
            n_samples=self.n_samples_,
            library_version=nishimori.__version__,
        )
        record.write(path, overwrite=overwrite)


def _softmax_parts(logits: Array, temperature: float) -> tuple[Array, Array, Array]:
    """Weights, their row totals, and the exponents behind them, shifted so that the largest is 0."""
    xp = namespace(logits)
    exponents = logits - xp.max(logits, axis=1, keepdims=True)
    with np.errstate(over="ignore"):  # the least float32, a mask by habit, becomes -inf at T < 1, as it should
        exponents /= temperature
    weights = xp.exp(exponents)
    return weights, xp.sum(weights, axis=1, keepdims=True), exponents


def _column_names(X: Any) -> list[str] | None:
    """The names of the columns of a data frame, if they are text."""
    names = list(getattr(X, "columns", []))
    texts = [isinstance(name, str) for name in names]
    if not any(texts):
        return None
    if not all(texts) or len(set(names)) != len(names):
        raise InputError(f"`X` must have columns with distinct names, all of them text or none, got {names}. Rename them.")
    return names


def _check_top_n(top_n: Any, n_classes: int) -> None:
    if not is_whole(top_n) or not 1 <= top_n < n_classes:
        raise InputError(
            f"`top_n` must be an integer from 1 to {n_classes - 1}, one less than the number of classes, got {top_n!r}."
        )


class ExpectationConsistency(_OneTemperature):
    """Divide logits by the temperature at which mean confidence equals accuracy.

    Parameters
    ----------
    top_n : int
        How many of the largest classes count as right, from 1 to one less than the number of classes. With N the condition is
        mean top-N probability = top-N accuracy; 1 is the usual confidence.
    input : {"logits", "probabilities"}
        What ``X`` holds. Log-probabilities are logits; probabilities are calibrated through their logarithms.
    classes : sequence, optional
        The label of each column in order; by default labels are the column numbers 0, 1, ...

    Attributes
    ----------
    temperature_ : float
        T, by which logits are divided before the softmax. Above 1 it makes the model less sure.
    classes_ : array
        The label of each column.
    n_features_in_ : int
        The number of classes.
    feature_names_in_ : array of str
        Column names, if ``X`` had any. Other or permuted names are then refused.
    n_samples_, n_passes_ : int
        How many samples were used, and how often all logits were read.
    receipt_ : Receipt
        Residual, convergence, zeros and masks: how the temperature was found.

    See Also
    --------
    TemperatureScaling : the same with the least cross-entropy as condition.
    temperatures : both at once, without scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import ExpectationConsistency
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> calibrator = ExpectationConsistency().fit(logits, labels)
    >>> round(calibrator.temperature_, 2)
    1.99
    >>> p = calibrator.predict_proba(logits)
    >>> bool(np.isclose(p.max(axis=1).mean(), (p.argmax(axis=1) == labels).mean()))
    True
    """

    method = "ec"

    def __init__(self, *, top_n: int = 1, input: Input = "logits", classes: Classes = None) -> None:
        self.top_n = top_n
        self.input = input
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the temperature from validation logits ``X`` and labels ``y``.

        Parameters
        ----------
        X : array of shape (n_samples, n_classes), or (n_samples,)
            Logits, or probabilities if ``input`` says so, of data the model was not trained on; flat for a binary score.
        y : array of shape (n_samples,)
            True classes.
        sample_weight : array of shape (n_samples,), optional
            A weight of w counts a sample as w copies.

        Raises
        ------
        NoTemperatureError
            If mean confidence cannot equal accuracy: every sample is right, or accuracy is not above chance.
        """
        data = self._batches(X, y, sample_weight)
        _check_top_n(self.top_n, data.n_classes)
        observable = Confidence() if self.top_n == 1 else TopN(int(self.top_n))
        return self._fit(data, X, observable, right=observable)


class TemperatureScaling(_OneTemperature):
    """Divide logits by the temperature at which the mean cross-entropy is least.

    Parameters
    ----------
    input : {"logits", "probabilities"}
        What ``X`` holds. Log-probabilities are logits; probabilities are calibrated through their logarithms.
    classes : sequence, optional
        The label of each column in order; by default labels are the column numbers 0, 1, ...

    Attributes
    ----------
    temperature_, classes_, n_features_in_, feature_names_in_, n_samples_, n_passes_, receipt_
        As for `ExpectationConsistency`.

    Examples
    --------
    >>> import numpy as np
    >>> from nishimori import TemperatureScaling
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> round(TemperatureScaling().fit(logits, labels).temperature_, 2)
    1.98
    """

    method = "ts"

    def __init__(self, *, input: Input = "logits", classes: Classes = None) -> None:
        self.input = input
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the temperature from validation logits ``X`` and labels ``y``; see `ExpectationConsistency.fit`."""
        return self._fit(self._batches(X, y, sample_weight), X, Energy(), right=Confidence())


class FixedTemperature(_OneTemperature):
    """Divide logits by a temperature you know; `from_temperature` makes one that is ready to use.

    Parameters
    ----------
    temperature : float
        The temperature.
    input, classes
        As for `ExpectationConsistency`.
    """

    method = "fixed"

    def __init__(self, temperature: float = 1.0, *, input: Input = "logits", classes: Classes = None) -> None:
        self.temperature = temperature
        self.input = input
        self.classes = classes

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Check the data and note its columns; the temperature stays as it is."""
        data = self._batches(X, y, sample_weight)
        inverse(self.temperature)
        self._learn_columns(X, data.scores)
        self.temperature_ = float(self.temperature)
        self.n_samples_ = int(np.count_nonzero(data.weights))
        return self


def from_temperature(T: float, *, classes: Classes = None, input: Input = "logits") -> FixedTemperature:
    """A calibrator that is ready to use, from a temperature you know: for serving.

    Parameters
    ----------
    T : float
        The temperature, positive and finite.
    classes : sequence, optional
        The label of each column in order; then the number of columns is checked too.
    input : {"logits", "probabilities"}
        What the calibrator will be given.

    Examples
    --------
    >>> import nishimori
    >>> nishimori.from_temperature(2.0).predict_proba([[2.0, 0.0]]).round(3)
    array([[0.731, 0.269]])
    """
    calibrator = FixedTemperature(T, input=input, classes=classes)
    inverse(T, "T")  # refuses what is no temperature
    check_input(input)
    calibrator.temperature_ = float(T)
    calibrator.n_samples_ = None
    if classes is not None:
        calibrator.classes_ = class_labels(classes)
        calibrator.n_features_in_ = len(calibrator.classes_)
    return calibrator


def load(path: str | os.PathLike[str]) -> _OneTemperature:
    """The calibrator that `save` wrote to ``path``, ready to use.

    Raises
    ------
    FormatError
        If the file is damaged, is not a calibration, or was written by a newer format than this library reads.
    """
    record = Record.read(path)
    kinds: dict[Method, type[_OneTemperature]] = {each.method: each for each in _KINDS}
    calibrator = kinds[record.method]()
    calibrator.set_params(input=record.input, classes=record.classes)
    if isinstance(calibrator, ExpectationConsistency):
        calibrator.top_n = record.top_n
    if isinstance(calibrator, FixedTemperature):
        calibrator.temperature = record.temperature
    calibrator.temperature_ = float(record.temperature)
    calibrator.n_samples_ = record.n_samples
    if record.n_classes is not None:
        calibrator.classes_ = class_labels(record.classes, record.n_classes)
        calibrator.n_features_in_ = record.n_classes
    calibrator.name_columns(record.columns)
    return calibrator


_KINDS: tuple[type[_OneTemperature], ...] = (ExpectationConsistency, TemperatureScaling, FixedTemperature)
