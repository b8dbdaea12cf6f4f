"""The calibrator that chooses among others, by their losses on samples that they were not fitted to."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import clone

from nishimori._calibrators.calibrator import PREDICTIONS, Calibrator, fit_grouped_rows
from nishimori._calibrators.consistent import Consistent
from nishimori._calibrators.folds import Fold, check_folds, deal_folds, linked_units, out_of_fold, split_folds
from nishimori._calibrators.methods import new_calibrator, refuse_common, refuse_two_classes, set_common
from nishimori._calibrators.rescue import NO_SOLUTION, fit_always, rescue
from nishimori._calibrators.selection import NONE, CandidateScore, MethodSelection, RowScores, SampleUnits, Scoring, select
from nishimori._fit.collected_samples import CollectedSamples, collect_samples
from nishimori._methods.fitted_method import fit_checked
from nishimori._methods.table import CANDIDATES, Traits, methods_of_claims
from nishimori._rows.array_rows import ArrayRows
from nishimori._rows.rows import Rows
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import between, one_of, whole
from nishimori._support.warnings import collect_notices
from nishimori.errors import DegenerateDataError, InputError, NishimoriError
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

# This many scores tell the methods apart, of at least this many samples per class: with more data, a random part is compared,
# and the winner is fitted to everything.
_SCORES, _PER_CLASS = 2**20, 20

# What all fits of one candidate may cost by the formulas of the table, unless the user names it.
_MOST_SECONDS = 20.0


@dataclass(eq=False, repr=False)
class Best(Calibrator):
    """Choose among calibrators by their log-loss on samples that they were not fitted to.

    One temperature is right for most networks, and not where a model favours some classes, as behind classes of very different
    frequencies. Here several methods are fitted to all folds of the validation data but one and measured on that one, for each
    fold, and the method of the lowest mean loss is fitted to all data. Predictions may change, unless ``keep_predictions``.

    Parameters
    ----------
    candidates : list of names or calibrators, optional
        What to choose from. By default "adaptive", "ts", "ec", "platt" and "beta" (two classes) or "bias" (more), "vector",
        "isotonic" (from 1,000 samples on) and "matrix" (more than two classes), without those that would take long; with
        ``keep_predictions`` "adaptive", "ts", "ec" and "group". `selection_` tells which. Of methods with the same score, the
        first is taken.
    scoring : {"nll", "brier"}
        What is compared.
    cv : int, splitter or iterable
        How many folds, or something else that scikit-learn takes for ``cv``. Folds are stratified by class, and samples of a
        group or cluster are in one fold.
    keep_predictions : bool
        Whether only methods take part that never change the predicted class.
    max_seconds : float, optional
        No further method is tried after this time. The result then depends on how fast the machine is.
    random_state : int, optional
        Another number gives other folds. The folds are the same each time by default.
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
    selection_ : MethodSelection
        The out-of-fold score of each candidate, its difference from the chosen one with a standard error, and what was left
        out and why. ``print`` shows a table. The score of the chosen method is optimistic, because it is the lowest of several.
    chosen_ : str
        The name of the chosen method.
    calibrator_ : Calibrator
        The chosen method, fitted to all data. Files do not hold it: they hold its map.
    temperature_, temperature_se_ : float or None
        Those of the chosen method, where it has one temperature.
    map_ : Map
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

    See Also
    --------
    compare : measure methods on test data, and say what the numbers mean.
    CalibratedClassifier : a classifier of scikit-learn with this calibrator behind it.

    Notes
    -----
    Of more than 1,048,576 scores, n·K for n samples of K classes, a random part decides which method is chosen, of at least 10
    samples per class on average. The chosen method is fitted to all.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> best = nishimori.Best(["adaptive", "bias", "vector"]).fit(network.validation.logits, network.validation.labels)
    >>> best.chosen_
    'vector'
    >>> difference = best.selection_["adaptive"]
    >>> print(f"NLL of one temperature: higher by {difference.difference:.3f} ± {difference.difference_se:.3f}")
    NLL of one temperature: higher by 0.094 ± 0.006
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=False, streams=False, from_sketch=False, error_bars=False)
    takes_claims: ClassVar[bool] = True
    candidates: Any = None
    _: KW_ONLY
    scoring: Scoring = "nll"
    cv: Any = 5
    keep_predictions: bool = False
    max_seconds: float | None = None
    random_state: int | None = None

    fit = fit_grouped_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the method from ``data``, which are the rows of ``X``, and fit it to them."""
        seed = self._check_parameters()
        samples = collect_samples(data, max(_SCORES, _PER_CLASS * data.n_classes**2))
        folds = self._folds(samples, data, seed)
        codes = np.arange(samples.n_samples) if samples.clusters is None else samples.clusters
        units = SampleUnits(samples.weights, codes, data.counts)
        if self.candidates is None:
            methods, left_out = self._default_candidates(units.n_samples, data, len(folds) + 1)
        else:
            methods, left_out = self._named_candidates(data), {}
        scores, n_unsolved = self._score_candidates(methods, left_out, samples, folds)
        scored = units.subset(np.unique(np.concatenate([fold.test for fold in folds])))
        choose = partial(select, scores, scored, self.scoring, n_unsolved=n_unsolved, left_out=left_out, n_folds=len(folds))
        selection = choose()
        while isinstance(chosen := self._fit_chosen(methods, selection, data), str):
            left_out[selection.chosen] = chosen
            del scores[selection.chosen]
            selection = choose()
        assert chosen.n_samples_ is not None
        estimates = _as_estimates(selection)
        passes = getattr(chosen, "n_passes_", None)
        n_passes = None if passes is None else 1 + passes
        self.learn(X, data, chosen.map_, chosen.n_samples_, chosen.residual_, chosen.temperature_se_, estimates, n_passes)
        self.selection_, self.chosen_, self.calibrator_ = selection, selection.chosen, chosen
        return self

    def _methods_without_groups(self) -> tuple[str, ...]:
        # Not `fit`, whose folds keep groups together; and scikit-learn wants the same request of `transform` as of `fit`.
        calibrators = [calibrator for calibrator in self.candidates or () if isinstance(calibrator, Calibrator)]
        return PREDICTIONS if all(calibrator._methods_without_groups() for calibrator in calibrators) else ()

    def _check_parameters(self) -> int:
        """Refuse parameters that make no sense; the seed of the folds."""
        one_of("scoring", self.scoring, Scoring)
        if not isinstance(self.keep_predictions, bool | np.bool_):
            raise InputError("keep_predictions", "be True or False", got=repr(self.keep_predictions))
        if self.max_seconds is not None:
            between("max_seconds", self.max_seconds, 0, float("inf"))
        return 0 if self.random_state is None else whole("random_state", self.random_state, 0)

    def _folds(self, samples: CollectedSamples, data: Rows, seed: int) -> list[Fold]:
        """Which samples are fitted to, and which are held out, in each fold."""
        labels = samples.labels
        if len(np.unique(labels)) == len(labels):
            raise DegenerateDataError(
                "y",
                "have two samples of some class",
                got="1 sample" if len(labels) == 1 else "one sample at most of each",
                remedy="Use more validation samples.",
            )
        # Samples of a cluster are in one fold, those of a group, and all that are linked by either.
        units = linked_units(samples.clusters, None if samples.groups is None else samples.groups.codes)
        if not isinstance(self.cv, Integral | None):
            return _splitter_folds(self.cv, samples, units, data)
        names = [name for name, there in (("groups", samples.groups), ("clusters", samples.clusters)) if there is not None]
        unit_name = "sets of samples that share a group or a cluster" if len(names) > 1 else "".join(names)
        n_folds = 5 if self.cv is None else whole("cv", self.cv, 2)
        return deal_folds(labels, n_folds, units, seed=seed, unit_name=unit_name)

    def _default_candidates(self, n_samples: int, data: Rows, n_fits: int) -> tuple[dict[str, Calibrator], dict[str, str]]:
        """Calibrators of the table that suit the data and are fitted in time, by name, and why others were left out."""
        chosen, left_out, n_classes = {}, {}, data.n_classes
        more = f"more than {_MOST_SECONDS:.0f} s; name it in `candidates` to try it"
        of_claims = methods_of_claims(are_scores=data.are_scores)
        for name, entry in CANDIDATES.items():
            if not (name in of_claims if data.is_claims else entry.is_for(n_classes)):
                continue
            if entry.is_second_best and not self.keep_predictions:
                continue  # the other of the pair is there
            calibrator = new_calibrator(name, "candidates")
            seconds = n_fits * entry.seconds(n_samples, n_classes)
            if self.keep_predictions and not _keeps_predictions(calibrator):
                left_out[name] = "it can change predictions"
            elif n_samples < entry.least_samples:
                left_out[name] = f"it needs {entry.least_samples} samples; name it in `candidates` to try it"
            elif seconds > _MOST_SECONDS:
                left_out[name] = f"its {n_fits} fits would take about {seconds:.0f} s, {more}"
            else:
                chosen[name] = calibrator
        return chosen, left_out

    def _named_candidates(self, data: Rows) -> dict[str, Calibrator]:
        """The candidates that the user named, whatever they cost; refuses what cannot be one."""
        candidates = self.candidates
        if isinstance(candidates, str) or not isinstance(candidates, Sequence) or not candidates:
            raise InputError("candidates", "be a list of names or calibrators, such as ['ts', 'vector']", got=repr(candidates))
        chosen: dict[str, Calibrator] = {}
        for candidate in candidates:
            calibrator = new_calibrator(candidate, "candidates")
            name = _variant_name(calibrator)
            refuse_common(calibrator, "candidates", self)
            if calibrator.is_fixed:
                raise InputError(
                    "candidates", "be methods that learn something", got=repr(name), remedy="'none' is scored in any case."
                )
            if calibrator.method_name == "best":
                raise InputError("candidates", "be other methods than 'best' itself")
            refuse_two_classes(calibrator, "candidates", data.n_classes)
            calibrator._check_claims(data)
            if self.keep_predictions and not _keeps_predictions(calibrator):
                raise InputError(
                    "candidates",
                    "keep predictions, as `keep_predictions=True` asks for",
                    got=f"{name!r}, which can change them",
                )
            if name in chosen:
                raise InputError("candidates", "be different from each other", got=f"{name} twice")
            chosen[name] = calibrator
        return chosen

    def _score_candidates(
        self,
        methods: Mapping[str, Calibrator],
        left_out: dict[str, str],
        samples: CollectedSamples,
        folds: Sequence[Fold],
    ) -> tuple[dict[str, RowScores], dict[str, int]]:
        """The scores of all candidates on the samples that are held out, and in how many folds each had no solution.

        Why a candidate has no scores is added to ``left_out``.
        """
        rows = [fold.test for fold in folds]

        def fit(candidate: Calibrator, fold: Fold) -> tuple[Map, bool]:
            """Fit to all samples but those of a fold; say whether smoothed labels took the place of the method."""
            method: Calibrator = clone(candidate)
            fitted = fit_always(method, samples.rows(fold.train))
            return fitted.map_, fitted is not method

        def score(model: tuple[Map, bool], fold: Fold) -> RowScores:
            held = fold.test
            logits = samples.logits[held].astype(np.float64)
            return RowScores.after_map(model[0], logits, samples.labels[held], samples.groups_of(held))

        _, parts = out_of_fold(folds, lambda _: (Temperature(1.0), False), score)
        scores, n_unsolved = {NONE: RowScores.in_order(rows, parts)}, {}
        start, seconds = time.perf_counter(), self.max_seconds
        for name, candidate in methods.items():
            if seconds is not None and len(scores) > 1 and time.perf_counter() - start > seconds:
                left_out[name] = f"{seconds:g} s had passed"
                continue
            try:
                with collect_notices():
                    models, parts = out_of_fold(folds, partial(fit, candidate), score)
            except NishimoriError as error:
                if self.candidates is not None:
                    raise
                left_out[name] = str(error).rstrip(".")
                continue
            n_unsolved[name] = sum(is_rescued for _, is_rescued in models)
            scores[name] = RowScores.in_order(rows, parts)
        return scores, n_unsolved

    def _fit_chosen(self, methods: Mapping[str, Calibrator], selection: MethodSelection, data: Rows) -> Calibrator | str:
        """The chosen method after its fit to all data, or why another must be chosen.

        A method that had a solution in all folds can have none for all samples. What would take its place was not scored, so
        the best of the others is chosen. In folds without a solution smoothed targets were scored: then they are used here.
        What methods warn of, such as few samples of a class, has been measured out of fold.
        """
        chosen = set_common(clone(methods[selection.chosen]), input=self.input, classes=self.classes, floor=data.floor)
        try:
            with collect_notices():
                return fit_checked(chosen, data)
        except NO_SOLUTION as error:
            if len(selection.candidates) == 2 or selection[selection.chosen].n_unsolved:  # "none" is the other
                return rescue(chosen, error, data, chosen_by=self.method_name)
            return f"no solution for all samples: {error}".rstrip(".")

    def method_params(self) -> dict[str, Any]:
        """The parameters as a file keeps them: the names of candidates, and the number of folds."""
        params = super().method_params()
        if self.candidates is not None:
            params["candidates"] = [candidate.name for candidate in self.selection_.candidates if candidate.name != NONE]
        if not isinstance(self.cv, Integral | None):
            params["cv"] = self.selection_.n_folds
        return params

    def _show(self) -> None:
        """Show what a file has of the choice: neither `calibrator_`, nor the reasons in `selection_`."""
        self.selection_ = _from_estimates(self._estimates_ or {}, self.scoring)
        self.chosen_ = self.selection_.chosen
        self.n_passes_ = None


_NUMBERS = ("score", "difference", "difference_se", "nll", "n_unsolved")


def _as_estimates(selection: MethodSelection) -> dict[str, float]:
    """The scores of all candidates, one number per entry, as a file keeps them; it holds no infinite number."""
    numbers = {f"{name}[{row.name}]": getattr(row, name) for row in selection.candidates for name in _NUMBERS}
    finite = {name: float(value) for name, value in numbers.items() if value is not None and np.isfinite(value)}
    sizes = {"n_folds": float(selection.n_folds), "n_scored": float(selection.n_samples)}
    return {f"chosen[{selection.chosen}]": 1.0, **sizes, **finite}


def _from_estimates(values: Mapping[str, float], scoring: str) -> MethodSelection:
    """The selection that a file describes; scores that it does not have were infinite."""
    names = list(dict.fromkeys(name.partition("[")[2][:-1] for name in values if name.partition("[")[0] in _NUMBERS))
    chosen, infinite, rows = next((name for name in names if f"chosen[{name}]" in values), ""), float("inf"), []
    for name in names:
        score, difference, error, nll, unsolved = (values.get(f"{number}[{name}]") for number in _NUMBERS)
        score, nll = (infinite if value is None else value for value in (score, nll))
        rows.append(CandidateScore(name, score, difference, error, nll, int(unsolved or 0)))
    sizes = (int(values.get(name, 0)) for name in ("n_folds", "n_scored"))
    return MethodSelection(chosen, scoring, tuple(rows), {}, *sizes)


def _splitter_folds(cv: Any, samples: CollectedSamples, units: HostArray | None, data: Rows) -> list[Fold]:
    """The folds that a splitter of scikit-learn makes, or that were listed; refuses those that cannot be scored."""
    weights = data.weights if isinstance(data, ArrayRows) else np.ones(samples.n_samples)
    (kept,) = np.nonzero(weights)
    if len(kept) != samples.n_samples or len(weights) != data.n_rows:
        raise InputError(
            "cv",
            f"be a number of folds for data of more than {_SCORES:,} scores, or that are not in memory",
            got=type(cv).__name__,
        )
    # Rows of weight zero are part of the splitter's folds, and of nothing else.
    places, labels = np.full(len(weights), -1), np.zeros(len(weights), dtype=samples.labels.dtype)
    places[kept], labels[kept] = np.arange(len(kept)), samples.labels
    groups = None if data.groups is None else data.groups.codes
    try:
        folds = [
            Fold(places[fold.train], places[fold.test], fold.name)
            for fold in split_folds(cv, np.zeros((len(labels), 1)), labels, groups=groups)
        ]
    except (ValueError, TypeError, IndexError) as error:
        raise InputError(
            "cv",
            "be a number of folds, a splitter of scikit-learn, or pairs of row numbers",
            got=f"{cv!r:.60}",
            remedy=f"{error}",
        ) from None
    folds = [Fold(fold.train[fold.train >= 0], fold.test[fold.test >= 0], fold.name) for fold in folds]
    check_folds(folds, samples.labels, all_classes=False)
    for fold in folds:
        if np.isin(fold.test, fold.train).any():
            raise InputError("cv", "hold out samples that are not fitted to", got=f"a sample in both parts of {fold.name}")
        if units is not None and np.isin(units[fold.test], units[fold.train]).any():
            what = "cluster" if samples.groups is None else "group or cluster"
            raise InputError(
                "cv", f"keep the samples of a {what} together", got=f"one in both parts of {fold.name}", remedy="Pass `cv=5`."
            )
    return folds


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
