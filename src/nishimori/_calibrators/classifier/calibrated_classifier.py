"""Any classifier of scikit-learn with calibrated probabilities, by cross-validation."""

from collections.abc import Mapping
from copy import copy
from dataclasses import KW_ONLY, dataclass, replace
from functools import reduce
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score
from sklearn.svm import LinearSVC
from sklearn.utils import get_tags, indexable
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from nishimori._calibrators.calibrator import Calibrator
from nishimori._calibrators.classifier.arguments import (
    calibrator_request,
    classes_of,
    flat_targets,
    in_kind_of,
    metadata_by_name,
    prediction_arguments,
    route_metadata,
    routing_enabled,
)
from nishimori._calibrators.classifier.averaging import MeanOfClassifiers, gains_by_averaging
from nishimori._calibrators.classifier.calibration import Calibration, prepare_calibrator, warn_once
from nishimori._calibrators.classifier.response import (
    FoldScorer,
    HeldOutScores,
    ResponseMethod,
    Scorer,
    gives_one_score,
    known_classes,
    score_method,
)
from nishimori._calibrators.folds import Fold, check_folds, never_hold_out, out_of_fold, split_folds
from nishimori._calibrators.methods import new_calibrator
from nishimori._calibrators.private_sklearn import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from nishimori._rows.scores import Floor
from nishimori._support.arrays import Array, HostArray, is_array, on_host
from nishimori._support.warnings import collect_notices
from nishimori.errors import InputError


@dataclass(frozen=True)
class CalibratedPair:
    """A fitted classifier and the fitted calibrator of its scores.

    Attributes
    ----------
    estimator : classifier
        Gives the scores.
    calibrator : Calibrator
        Turns them into probabilities.
    scorer
        Which method of the classifier gives the scores, and the order of the classes.
    """

    estimator: Any
    calibrator: Calibrator
    scorer: Scorer

    @property
    def classes_(self) -> HostArray:
        """The label of each column of the probabilities."""
        return self.scorer.classes

    def scores(self, X: Any) -> HostArray:
        """What the calibrator is given for ``X``: (n, K), or flat for one decision value."""
        return self.scorer(self.estimator, X)

    def predict_proba(self, X: Any, **groups: Any) -> HostArray:
        """Calibrated probabilities, (n, K); ``groups`` as for the calibrator."""
        return np.asarray(self.calibrator.predict_proba(self.scores(X), **self._needed(groups)))

    def predict_log_proba(self, X: Any, **groups: Any) -> HostArray:
        """The logarithms of the calibrated probabilities, (n, K); ``groups`` as for the calibrator."""
        return np.asarray(self.calibrator.predict_log_proba(self.scores(X), **self._needed(groups)))

    def _needed(self, groups: dict[str, Any]) -> dict[str, Any]:
        """The groups, unless the calibrator treats all alike, as one of smoothed labels does in place of one per group."""
        return groups if self.calibrator.map_.needs_groups else {}


@dataclass(eq=False, repr=False)
class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A classifier with calibrated probabilities; drop-in for scikit-learn's ``CalibratedClassifierCV``.

    A classifier is overconfident on samples that it was trained on, so it is calibrated with scores for samples that it has not
    seen. `fit` gets them by cross-validation: in each fold the classifier is fitted to the training part and gives scores for
    the rest.

    Parameters
    ----------
    estimator : classifier, optional
        Any classifier with ``decision_function`` or ``predict_proba``. Wrap a fitted one in ``FrozenEstimator``: it is not
        fitted again, and all data are used to calibrate it. Default: ``LinearSVC(random_state=0)``, as in scikit-learn.
    calibrator : str or Calibrator
        The name of a method, one of `nishimori.methods`, or a calibrator. Its ``input`` and ``classes`` are set here. "best"
        chooses the method of the lowest out-of-fold loss, see `Best`, which may change predictions; "adaptive" is one
        temperature, which does not.
    cv : int, splitter or iterable
        How many stratified folds, or something else that scikit-learn takes for ``cv``.
    ensemble : bool, "pooled" or "auto"
        False: one calibrator is fitted to the scores of all folds, and one classifier to all data. "pooled": the same
        calibrator, applied to the mean of the scores of the folds' classifiers, which is decision values or probabilities,
        whichever the calibrator takes. True: the classifier of each fold has its own calibrator, and probabilities are
        averaged. "auto" is "pooled" for gradient boosting (of scikit-learn, LightGBM, XGBoost and CatBoost, also in a pipeline
        or a search), where the mean is better, and False for all others and for frozen classifiers.
    response_method : {"auto", "decision_function", "predict_proba", "predict_log_proba"}
        Where scores come from. "auto" is ``decision_function``, and ``predict_proba`` if there is none. Decision values and
        log-probabilities are taken as logits: one value z per sample means the logits (0, z).
    floor : float, "auto" or None
        Smaller probabilities are raised to this, if scores are probabilities. Forests and neighbours give exact zeros, and one
        zero for a true class is an infinite loss. "auto" leaves the choice to the calibrator, which takes the largest floor
        whose cross-validated log-loss, summed over samples, is within 0.5 of the lowest; its `floor_` tells it. A fixed
        calibrator, such as "none", has none. With None only exact zeros are raised.
    keep_scores : bool
        Whether to keep the scores that calibrators were fitted to, as `out_of_fold_scores_`.
    n_jobs : int, optional
        How many folds are fitted at the same time, as in scikit-learn.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, in the order of the columns of probabilities.
    calibrated_classifiers_ : list of CalibratedPair
        The fitted classifiers with their calibrators, as ``estimator`` and ``calibrator``; only one unless ``ensemble=True``.
    estimator_, calibrator_
        The two of that one. The calibrator has ``temperature_`` and its standard error, ``floor_``, and can be saved. Where
        classifiers are pooled, ``estimator_.estimators_`` are those of the folds.
    class_prior_ : array of shape (n_classes,)
        The share of each class among the samples that it was calibrated with, by weight; with ``ensemble=True`` the mean over
        folds. `with_prevalence` gives a classifier for other shares.
    chosen_ : str or list of str
        The method that "best" chose; with ``ensemble=True`` that of each fold. Other calibrators choose nothing, and the
        attribute is not there.
    response_method_ : str
        The method that scores come from.
    out_of_fold_scores_, out_of_fold_rows_ : array
        With ``keep_scores``, the scores that calibrators were fitted to, and which row of ``X`` each belongs to.
    n_features_in_, feature_names_in_
        As the classifier has them.

    Notes
    -----
    That a calibrator has no solution is no error: all samples may be classified correctly, a fold may have samples of one class
    only, or all scores may be equal. The calibrator is then replaced, with a warning, by one of smoothed labels: by
    `ExpectationConsistency` with ``smooth_labels=True`` for that method, and by `TemperatureScaling` with it for all others.
    The first matches mean confidence to (right + ½)/(n + 1). The second has the least cross-entropy if a sample whose class has
    N samples is of that class with probability (N + 1)/(N + K) and of each other of K classes with 1/(N + K). Where even that
    is not better than chance, all classes get the same probability.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.metrics import log_loss
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from nishimori import CalibratedClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X, test_X, y, test_y = train_test_split(X, y, random_state=0)
    >>> model = GaussianNB(var_smoothing=1e-3)
    >>> calibrated = CalibratedClassifier(model, "ec").fit(X, y)
    >>> print(f"T = {calibrated.calibrator_.temperature_:.1f} ± {calibrated.calibrator_.temperature_se_:.1f}")
    T = 6.3 ± 0.2
    >>> before, after = (log_loss(test_y, fitted.predict_proba(test_X)) for fitted in (model.fit(X, y), calibrated))
    >>> print(f"loss {before:.2f} before, {after:.2f} after")
    loss 1.52 before, 0.36 after
    """

    # Explicit arguments of `fit` are for the splitter and the calibrator, and are no metadata of this class itself.
    __metadata_request__fit = {"groups": UNUSED, "clusters": UNUSED}  # noqa: RUF012 - scikit-learn wants a plain dictionary

    estimator: Any = None
    calibrator: str | Calibrator = "best"
    _: KW_ONLY
    cv: Any = 5
    ensemble: bool | str = "auto"
    response_method: ResponseMethod = "auto"
    floor: Floor = "auto"
    keep_scores: bool = False
    n_jobs: int | None = None

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None, clusters: Any = None, **fit_params: Any
    ) -> Self:
        """Fit the classifier and calibrate it.

        With scikit-learn's metadata routing enabled, ``sample_weight``, ``groups``, ``clusters`` and ``fit_params`` go to
        those that request them, and weights always to the calibrator unless its request says otherwise. Without, they go
        where the list below says.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            What the classifier takes.
        y : array of shape (n_samples,)
            The true class of each sample: numbers or text.
        sample_weight : array of shape (n_samples,), optional
            For the calibrator, and for the classifier if it takes weights.
        groups : array of shape (n_samples,), optional
            For a splitter that keeps groups together, such as ``GroupKFold``, and for "best", which does the same.
        clusters : array of shape (n_samples,), optional
            Which samples belong together, for the standard errors of the calibrator.
        **fit_params
            For the classifier.
        """
        X, passed = indexable(X, y)
        y = flat_targets(on_host(y) if is_array(y) else y)
        labels = in_kind_of(y, passed)  # those of the classifier
        estimator = self._estimator()
        is_frozen = isinstance(estimator, FrozenEstimator)
        ensemble = self._checked_ensemble(estimator)
        method = score_method(estimator, self.response_method)
        scorer = Scorer(method, classes_of(y, sample_weight, known_classes(estimator) if is_frozen else None))
        calibrator = prepare_calibrator(self.calibrator, scorer, self.floor)
        arguments = {"sample_weight": sample_weight, "groups": groups, "clusters": clusters}
        if routing_enabled():
            of_estimator, of_split, of_calibrator = route_metadata(self, {**arguments, **fit_params})
        else:
            of_estimator, of_split, of_calibrator = metadata_by_name(estimator, calibrator, params=fit_params, **arguments)
        calibration = Calibration(calibrator, of_calibrator, y)
        models: list[Any] = []
        if is_frozen and ensemble is not True:
            scores = scorer(estimator, X)
            scored = [HeldOutScores(np.arange(len(y)), scores, gives_one_score(scores, scorer))]
        else:
            folds = self._folds(X, y, of_split)
            steps = FoldScorer(estimator, scorer, X, labels, of_estimator)
            models, scored = out_of_fold(folds, steps.fit, steps.predict, keep_models=bool(ensemble), n_jobs=self.n_jobs)
        if ensemble is True:
            weighted = calibration.parts_with_weight(scored)
            models, scored = [models[part] for part in weighted], [scored[part] for part in weighted]
            parts = scored
        else:
            parts = [HeldOutScores.pooled(scored)]
            models = [MeanOfClassifiers(models) if models else clone(estimator).fit(X, labels, **of_estimator)]
            scorer.refuse_one_vs_one(models[0])
        with collect_notices() as notices:
            fits = [calibration.fit_to(part) for part in parts]
        warn_once(notices, per_fold=len(parts) > 1)
        return self._keep([CalibratedPair(*pair, scorer) for pair in zip(models, fits, strict=True)], scored)

    def _folds(self, X: Any, y: HostArray, split: Mapping[str, Any]) -> list[Fold]:
        """The folds that ``cv`` makes, each with all classes in its training part."""
        cv = 5 if self.cv is None else self.cv
        if isinstance(cv, str) and cv == "prefit":
            raise InputError(
                "cv",
                "be a number of folds, a splitter or pairs of rows",
                got="'prefit'",
                remedy="Leave it out, and wrap the fitted classifier in `sklearn.frozen.FrozenEstimator` instead.",
            )
        folds = never_hold_out(split_folds(cv, X, y, **split), y)
        check_folds(folds, y, all_classes=True)
        return folds

    def _keep(self, pairs: list[CalibratedPair], scored: list[HeldOutScores]) -> Self:
        """Note what was fitted. Called last, so that a fit that fails leaves the classifier as it was."""
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        self.calibrated_classifiers_ = pairs
        self.classes_ = pairs[0].classes_
        self.response_method_ = pairs[0].scorer.method
        priors = [pair.calibrator.class_prior_ for pair in pairs]
        shares = [prior for prior in priors if prior is not None]
        self.class_prior_ = np.mean(shares, axis=0) if len(shares) == len(priors) else None
        chosen = [pair.calibrator.chosen_ for pair in pairs if hasattr(pair.calibrator, "chosen_")]
        if chosen:
            self.chosen_ = chosen if len(pairs) > 1 else chosen[0]
        if len(pairs) == 1:
            self.estimator_, self.calibrator_ = pairs[0].estimator, pairs[0].calibrator
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(pairs[0].estimator, name):
                setattr(self, name, getattr(pairs[0].estimator, name))
        if self.keep_scores:
            kept = HeldOutScores.pooled(scored)
            self.out_of_fold_rows_, self.out_of_fold_scores_ = kept.rows, kept.scores
        return self

    def with_prevalence(self, new: Any) -> Self:
        """A copy of this fitted classifier for classes of other frequencies, see `Calibrator.with_prevalence`.

        ``new`` has the share of each class: a dictionary by label, an array in the order of `classes_`, or one number for the
        second of two classes. The calibrator of each pair is changed from its own ``class_prior_``.
        """
        check_is_fitted(self, "calibrated_classifiers_")
        pairs = [replace(pair, calibrator=pair.calibrator.with_prevalence(new)) for pair in self.calibrated_classifiers_]
        other = copy(self)
        other.calibrated_classifiers_, other.class_prior_ = pairs, pairs[0].calibrator.class_prior_
        if len(pairs) == 1:
            other.calibrator_ = pairs[0].calibrator
        return other

    def predict_proba(self, X: Any, **params: Any) -> Array:
        """Calibrated probabilities of shape (n_samples, n_classes).

        They are a NumPy array or, where scikit-learn dispatches to array libraries, one of the library and device of ``X``.
        ``params`` go to the calibrator, if it requests them by metadata routing: ``groups`` of `GroupConsistency`.
        """
        return in_kind_of(self._average(X, "predict_proba", params), X)

    def predict_log_proba(self, X: Any, **params: Any) -> Array:
        """Logarithms of the calibrated probabilities, exact also where those round to 0; all else as there."""
        return in_kind_of(self._average(X, "predict_log_proba", params, logarithms=True), X)

    def _average(self, X: Any, method: str, params: dict[str, Any], *, logarithms: bool = False) -> HostArray:
        """The mean over classifiers of their calibrated probabilities, or its logarithm, for this method of the classifier."""
        check_is_fitted(self, "calibrated_classifiers_")
        pairs, groups = self.calibrated_classifiers_, prediction_arguments(self, method, params)
        parts = ((pair.predict_log_proba if logarithms else pair.predict_proba)(X, **groups) for pair in pairs)
        total: HostArray = reduce(np.logaddexp if logarithms else np.add, parts)
        if len(pairs) == 1:
            return total
        return total - np.log(len(pairs)) if logarithms else total / len(pairs)

    def predict(self, X: Any, **params: Any) -> Array:
        """The class of the largest calibrated probability of each sample; ``params`` as for `predict_proba`."""
        probabilities = self._average(X, "predict", params)  # first: unfitted, there are no classes
        return in_kind_of(self.classes_[probabilities.argmax(axis=1)], X)

    def score(self, X: Any, y: Any, sample_weight: Any = None, **params: Any) -> float:
        """The accuracy of `predict`, as of every classifier; ``params`` as for `predict_proba`."""
        return float(accuracy_score(y, self.predict(X, **params), sample_weight=sample_weight))

    def get_metadata_routing(self) -> Any:
        """Who gets which metadata, for scikit-learn: the classifier, the splitter and the calibrator."""
        fit = MethodMapping().add(caller="fit", callee="fit")
        predictions = MethodMapping().add(caller="fit", callee="fit")
        for caller in ("predict_proba", "predict_log_proba", "predict", "score"):
            predictions.add(caller=caller, callee="predict_proba")
        request = calibrator_request(new_calibrator(self.calibrator, "calibrator"))
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self._estimator(), method_mapping=fit)
            .add(splitter=self.cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
            .add(calibrator=request, method_mapping=predictions)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_estimator = get_tags(self._estimator())
        tags.input_tags = of_estimator.input_tags
        if of_estimator.classifier_tags is not None:  # but not its multi_label: several labels are refused
            tags.classifier_tags.multi_class = of_estimator.classifier_tags.multi_class
            tags.classifier_tags.poor_score = of_estimator.classifier_tags.poor_score
        return tags

    def _estimator(self) -> Any:
        """The classifier to calibrate."""
        if self.estimator is not None:
            return self.estimator
        default = LinearSVC(random_state=0)
        return default.set_fit_request(sample_weight=True) if routing_enabled() else default

    def _checked_ensemble(self, estimator: Any) -> bool | Literal["pooled"]:
        """Which classifiers predict, without "auto"; all folds of a frozen classifier have the same one."""
        if isinstance(self.ensemble, bool | np.bool_):
            return bool(self.ensemble)
        if self.ensemble not in ("auto", "pooled"):
            raise InputError("ensemble", "be True, False, 'pooled' or 'auto'", got=repr(self.ensemble))
        if isinstance(estimator, FrozenEstimator):
            return False
        return "pooled" if self.ensemble == "pooled" or gains_by_averaging(estimator) else False
