"""A calibrator that is finished by expectation consistency: one more temperature, found on samples that were held out."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from math import sqrt
from typing import Any, ClassVar, Self

import numpy as np

from nishimori._calibrators.calibrator import Calibrator, fit_grouped_rows
from nishimori._calibrators.folds import Fold, deal_folds, in_row_order, out_of_fold
from nishimori._calibrators.methods import inner_name, new_calibrator, refuse_common, set_common
from nishimori._calibrators.one_temperature import ExpectationConsistency
from nishimori._calibrators.rescue import fit_always
from nishimori._fit.collected_samples import CollectedSamples, collect_samples
from nishimori._methods.fitted_method import own_parameters
from nishimori._methods.record import Record
from nishimori._methods.table import FINISHED, Traits
from nishimori._rows.rows import Rows
from nishimori._rows.scores import is_auto
from nishimori._sums.moments import Measure
from nishimori._sums.observables import Confidence
from nishimori._support.arrays import HostArray
from nishimori._support.json import as_python
from nishimori._support.numbers import whole
from nishimori._support.warnings import collect_notices
from nishimori.errors import DegenerateDataError, InputError
from nishimori.maps.around import temper
from nishimori.maps.map import Map

FOLDS = 10
"""The default number of folds: with fewer, the standard error of the temperature would be too uncertain."""

# What the estimates of the method inside are called in a file, before their own names.
_PREFIX = "calibrator."


@dataclass(eq=False, repr=False)
class Consistent(Calibrator):
    """Finish another method by EC: one more temperature, at which mean confidence equals accuracy on samples held out.

    The map with the least cross-entropy need not have a mean confidence equal to its accuracy: with few samples it is
    overconfident, and where its family cannot describe the data, the confidence is off wherever that costs little
    cross-entropy. Here the calibrated logits are divided by one more temperature. The samples are divided into ``cv`` folds;
    the method is fitted to all folds but one and applied to that one. Expectation consistency gives the temperature of these
    out-of-fold predictions. The map is that of all samples, followed by this temperature, which changes no prediction.

    Parameters
    ----------
    calibrator : str or Calibrator
        The method to finish: its name, or an unfitted calibrator, of which a copy is fitted. ``Consistent("matrix")`` can be
        written ``nishimori.calibrator("matrix+ec")``, and "matrix+ec" wherever a name is expected.
    cv : int, optional
        The number of folds, at least 2; by default 10, or the number of samples, or of clusters, if it is smaller. Each class
        is spread evenly over the folds, clusters stay in one fold, and the same data give the same folds.
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
    ec_temperature_ : float
        The temperature that divides the calibrated logits of the method.
    ec_temperature_se_ : float or None
        Its standard error, which includes that of the method's own parameters: see the notes. None if it is not known.
    calibrator_ : Calibrator
        The method as it was fitted to all samples, without that temperature.
    residual_ : float
        Mean confidence minus accuracy of the out-of-fold predictions, with the temperature.
    temperature_ : float or None
        What logits are divided by in all, if the method has one temperature; None otherwise.
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

    See Also
    --------
    VectorScaling, MatrixScaling : methods with several parameters, which have the least cross-entropy.

    Notes
    -----
    A map that has the least expected cross-entropy of a family in which all logits can be divided by a temperature has it at
    a further temperature of 1: any other one can only raise it. What is gained is the calibration of the confidence.

    The maps of the folds have fewer samples than the map of all, so that log T is off by about 1/(cv − 1) of its difference
    from that of infinitely many samples. Without penalties a map of fewer samples is more overconfident, and T is a little too
    large; penalties keep maps of few samples close to one temperature, and T may be a little too small.

    The standard error is that of a jackknife over the folds. Leaving out a fold changes the maps of all others; to first order
    this change is the one that leaving out the fold alone makes, so that no method is fitted a second time. A method that makes
    mean confidence equal to accuracy itself, such as "bias", leaves nothing to first order. Then the error is that of the
    difference between samples that were held out and samples that were not, from its spread over the folds. The error has
    cv − 1 degrees of freedom. With ``counts`` it is not known, because a row stands for several samples, and all of these are
    in one fold.

    Valid data are never refused. Where the method has no solution, temperature scaling with smoothed labels takes its place,
    or the smoothed frequencies of the classes if all logits of each row are equal, and is `calibrator_`, which is what a saved
    file names in place of the method; where EC has none, as where all held-out samples are right, mean confidence is
    (right + ½)/(n + 1); and where the answers are not better than chance, all classes are equally probable. A warning says so.

    Folds are made of samples in memory. Of more than 2²⁶ logits, a random part chooses the temperature; the method itself is
    fitted to all samples, which are read in blocks if it can do that.

    Examples
    --------
    >>> import nishimori
    >>> network = nishimori.data.load("cifar10/resnet20")
    >>> finished = nishimori.calibrators.Consistent("vector").fit(network.validation.logits, network.validation.labels)
    >>> print(f"T = {finished.ec_temperature_:.2f} ± {finished.ec_temperature_se_:.2f}")
    T = 1.04 ± 0.02
    >>> for fitted in (finished.calibrator_, finished):
    ...     card = nishimori.evaluate(network.test.logits, network.test.labels, calibrator=fitted)
    ...     print(f"{fitted.method_name}: confidence {card.confidence:.1%}, accuracy {card.accuracy:.1%}")
    vector: confidence 87.6%, accuracy 86.8%
    vector+ec: confidence 87.1%, accuracy 86.8%
    """

    traits: ClassVar[Traits | None] = Traits(keeps_predictions=False, streams=False, from_sketch=False, error_bars=True)
    calibrator: str | Calibrator = "vector"
    _: KW_ONLY
    cv: int | None = None

    fit = fit_grouped_rows

    def _fit_rows(self, X: Any, data: Rows) -> Self:
        """Choose the map and the temperature after it from ``data``, which are the rows of ``X``."""
        method = self._new_calibrator()
        samples = collect_samples(data)
        folds = deal_folds(samples.labels, self._n_folds(samples), samples.clusters)

        def fit_without(fold: Fold) -> Map:
            return fit_always(new_calibrator(method, "calibrator"), samples.rows(fold.train)).map_

        with collect_notices():  # the fit to all samples says what there is to say of the data
            maps, parts = out_of_fold(folds, fit_without, lambda map_, fold: samples.mapped(map_, fold.test))
        held_out = in_row_order([fold.test for fold in folds], parts)
        floor = data.floor if is_auto(self.floor) else self.floor
        fitted = fit_always(set_common(method, input=self.input, classes=self.classes, floor=floor), data)
        place = "the predictions for held-out samples"
        last = fit_always(ExpectationConsistency(), samples.rows(logits=held_out), where=place, may_be_frequencies=False)
        temperature, error = last.temperature_, None
        assert temperature is not None, "all that may take the place of EC has one"
        if not data.counts and last.temperature_se_ is not None:
            cross_fit = CrossFit(samples, folds, maps, held_out, fitted.map_)
            error = (cross_fit.correction_error if fitted.matches_confidence else cross_fit.temperature_error)(temperature)
        estimates = {"ec_temperature": temperature} | ({} if error is None else {"ec_temperature_se": error})
        estimates |= {f"{_PREFIX}{name}": value for name, value in (fitted._estimates_ or {}).items()}
        map_, n_samples = temper(fitted.map_, temperature), fitted.n_samples_ or samples.n_samples
        n_passes = 1 + getattr(fitted, "n_passes_", 1)
        self.learn(X, data, map_, n_samples, last.residual_, estimates=estimates, n_passes=n_passes)
        self.calibrator_ = fitted
        return self

    def _methods_without_groups(self) -> tuple[str, ...]:
        return new_calibrator(self.calibrator, "calibrator")._methods_without_groups()

    def _new_calibrator(self) -> Calibrator:
        """The method, unfitted; refuses one that takes the scores for something else."""
        method = new_calibrator(self.calibrator, "calibrator")
        refuse_common(method, "calibrator", self)
        if method.is_fixed:
            raise InputError(
                "calibrator", "be a method that is fitted", got=repr(method.method_name), remedy="Use ExpectationConsistency."
            )
        # Rows of folds are logits, whose probabilities have been raised to the floor before.
        return set_common(method, input="logits", classes=self.classes, floor=None)

    def _show(self) -> None:
        values = self._estimates_ or {}
        self.ec_temperature_, self.ec_temperature_se_ = values.get("ec_temperature", 1.0), values.get("ec_temperature_se")

    @property
    def method_name(self) -> str:
        return f"{new_calibrator(self.calibrator, 'calibrator').method_name}{FINISHED}"

    def method_params(self) -> dict[str, Any]:
        """The parameters of the method inside and the number of folds."""
        return self._params_with(new_calibrator(self.calibrator, "calibrator"))

    def _params_with(self, calibrator: Calibrator) -> dict[str, Any]:
        own = [name for name in own_parameters(type(self)) if name != "calibrator"]
        inner = {inner_name(name, own): value for name, value in calibrator.method_params().items()}
        return {name: as_python(getattr(self, name)) for name in own} | inner

    def _record(self) -> Record:
        """What a file keeps: the method that was fitted, which is another one where that of `calibrator` has no solution."""
        own, fitted = super()._record(), self.calibrator_
        origin = replace(own.provenance, method=f"{fitted.method_name}{FINISHED}", params=self._params_with(fitted))
        return replace(own, provenance=origin)

    def _n_folds(self, samples: CollectedSamples) -> int:
        """The number of folds; refuses data of which nothing can be held out."""
        what = "samples" if samples.clusters is None else "clusters"
        n_units = samples.n_samples if samples.clusters is None else len(np.unique(samples.clusters))
        if n_units < 2:
            raise DegenerateDataError(
                "X", f"have at least two {what}, one of which is held out", got=f"1 {what[:-1]}", remedy=f"Add {what}."
            )
        return min(FOLDS, n_units) if self.cv is None else self.cv

    def _check_n_classes(self, n_classes: int) -> None:
        if self.cv is not None:
            whole("cv", self.cv, 2)
        new_calibrator(self.calibrator, "calibrator")._check_n_classes(n_classes)

    def _restore(self, record: Record) -> Self:
        """Restore from ``record``, ready to use."""
        super()._restore(record)
        values = self._estimates_ or {}
        method = set_common(new_calibrator(self.calibrator, "calibrator"), **record.common_parameters)
        inner = replace(
            record.provenance,
            method=method.method_name,
            params=method.method_params(),
            residual=None,
            estimates={name.removeprefix(_PREFIX): values[name] for name in values if name.startswith(_PREFIX)} or None,
        )
        untempered = temper(record.map, 1 / self.ec_temperature_)
        self.calibrator_ = method._restore(replace(record, map=untempered, provenance=inner))
        return self


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Samples in folds, the map that was fitted without each fold, the held-out logits, and the map of all samples."""

    samples: CollectedSamples
    folds: Sequence[Fold]
    maps: Sequence[Map]
    held_out: HostArray
    map_of_all: Map

    def temperature_error(self, temperature: float) -> float | None:
        """The standard error of the temperature of EC after the maps: a jackknife over the folds.

        Without fold b, the sample i of fold k would have the logits of a map without both b and k. To first order they are
        u₋ₖ(i) + u₋ᵦ(i) − u(i), where u₋ₖ are those of the map without fold k and u those of the map of all samples. One step of
        Newton's method then gives the temperature without fold b.
        """
        samples, changes = self.samples, []
        of_all = samples.mapped(self.map_of_all)
        for fold, map_ in zip(self.folds, self.maps, strict=True):
            rest = fold.train
            held_out = self.held_out[rest]
            with np.errstate(invalid="ignore"):
                logits = held_out + (samples.mapped(map_, rest) - of_all[rest])
            # Where a class has no probability, as curves give, there is no first order.
            logits = np.where(np.isfinite(logits), logits, held_out)
            excess, slope = self._gap(logits, rest, temperature)
            if not slope > 0:  # a temperature has no effect on these logits
                return None
            changes.append(excess / slope)
        n_folds = len(changes)
        return temperature * sqrt((n_folds - 1) * float(np.var(changes)))

    def correction_error(self, temperature: float) -> float | None:
        """The standard error where mean confidence equals accuracy on the samples that a map was fitted to, whatever they are.

        The temperature for those samples is then 1, without any error, and all that is left is what holding out changes. A
        jackknife would be wrong: its terms of first order cancel, and it multiplies the rest, in which samples whose prediction
        changes come and go, by the number of folds. The map without fold k differs from that of all by a step. What this step
        does to the gap in fold k, beyond what it does elsewhere, is nearly independent from fold to fold. Elsewhere the steps
        of all folds cancel.
        """
        samples, corrections = self.samples, []
        of_all = samples.mapped(self.map_of_all)
        _, slope = self._gap(self.held_out, slice(None), temperature)
        if not slope > 0:
            return None
        for fold, map_ in zip(self.folds, self.maps, strict=True):
            inside, elsewhere = (
                self._gap(mapped, rows, temperature)[0] - self._gap(of_all[rows], rows, temperature)[0]
                for mapped, rows in ((self.held_out[fold.test], fold.test), (samples.mapped(map_, fold.train), fold.train))
            )
            corrections.append(inside - elsewhere * samples.weights[fold.test].sum() / samples.weights[fold.train].sum())
        return temperature * sqrt(len(corrections) * float(np.var(corrections, ddof=1))) / slope

    def _gap(self, logits: HostArray, chosen: HostArray | slice, temperature: float) -> tuple[float, float]:
        """Σw(confidence − correct) of some samples with these logits over T, and how fast it falls with log T."""
        rows = self.samples.rows(chosen, logits)
        (moments,) = rows.gather(Measure(((Confidence(), (1 / temperature,)),))).items
        return float(moments.excess[0]), float(moments.slope[0]) / temperature
