"""Predictions for the rows of a batch, and the true classes: the view that every pass measures.

`Predictions` are a `Batch` at one inverse temperature: p(k) ∝ exp(βz_k). Kernels stand behind it. All that observables and
metrics are made of follows from power sums of the drop d = z - max(z), Σ d^j exp(βd) over the classes of each row, and is
computed when it is first asked for. The top class, whose weight is 1, is kept apart from the rest: a sure row has a rest of
1e-20, which 1 + rest forgets. Tables with a number per class are made only for what needs them: observables and metrics of
users, and classwise claims.

Views of one batch at several β share what one call of the kernel gave. `predictions_after` gives those after several maps.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from math import comb, log

import numpy as np

from nishimori._kernels.array_api import boltzmann
from nishimori._kernels.kernel import row_sums
from nishimori._kernels.sums import PowerSums
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Rows
from nishimori._sums.reliability import (
    BinnedClaims,
    Bins,
    Of,
    Reliability,
    Strategy,
    UnbinnedClaims,
    check_bins,
    check_claim,
    inner_edges,
    uniform_edges,
)
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import InputError
from nishimori.maps.around import Floored
from nishimori.maps.kinds import check_claims, claims_to_check
from nishimori.maps.map import Map, apply_checked
from nishimori.maps.temperature import temperature_of

POSITIVE_EDGES = uniform_edges(15)
"""The bins of the probability of the second of two classes."""


class Predictions:
    """Calibrated predictions for some samples, with the true classes: the argument of a `Metric`.

    The attributes that are listed here are NumPy arrays, whatever library the data come from, with an entry or a row per
    sample. Those that are not listed are arrays of the data's own library, on their device, for passes of the package.

    Attributes
    ----------
    labels : integer array of shape (n,)
        The column of each true class.
    probabilities : array of shape (n, n_classes)
        The calibrated probability of each class.
    predicted : integer array of shape (n,)
        The column of each predicted class.
    confidence : array of shape (n,)
        The probability of each predicted class.
    correct : boolean array of shape (n,)
        Whether each predicted class is the true one.
    log_likelihood : array of shape (n,)
        The logarithm of the probability of each true class, exact also where the probability rounds to 0 or 1.
    weights : array of shape (n,)
        The weight of each sample. What `Metric.of_rows` returns is weighted later.
    n_classes : int
        How many classes there are.
    clusters : integer array of shape (n,), or None
        The number of the cluster of each sample, where samples belong together.
    counts : bool
        Whether a weight of w stands for w independent samples.

    Notes
    -----
    Of top-k log-probabilities, `confidence` and `correct` are known for sure, and `labels`, `predicted` and `probabilities` are
    refused: their columns are places in the lists.

    ``batch`` are the rows, with their logits after all maps but a temperature, and ``beta`` is from 0 (uniform) to infinity
    (the maximum). ``sums`` are power sums of the rows, at this β or at several, where a kernel was asked for them already: what
    is missing is computed when it is asked for. ``edges`` are those of the bins of confidence. ``zero`` replaces a true
    class's probability of 0 in losses; None for the least of its dtype.
    """

    def __init__(
        self,
        batch: Batch,
        beta: float,
        sums: PowerSums | None = None,
        *,
        edges: HostArray = POSITIVE_EDGES,
        counts: bool = False,
        zero: float | None = None,
    ) -> None:
        self.batch = batch
        self.beta = beta
        self.edges = edges
        self.counts = counts
        self.zero = zero
        self._sums = [] if sums is None else [sums]

    # --- what kernels give: arrays of the data's own library -----------------------------------------------------------------

    def powers(self, order: int) -> Array:
        """Σ d^j exp(βd) over the classes other than the top one, for j from 0 to at least ``order``."""
        return self._sums_at(self.beta, order)

    @property
    def squares(self) -> Array:
        """The sum of the squared weights of all classes but the top one: of the weights at 2β."""
        if not any(sums.has(2 * self.beta) for sums in self._sums):
            self._sums.append(sums_for_scores(self.batch, (self.beta,)))
        return self._sums_at(2 * self.beta, 0)[0, ...]

    def _sums_at(self, beta: float, order: int) -> Array:
        for sums in self._sums:
            if sums.has(beta, order):
                return sums.at(beta)
        self._sums.append(row_sums(self.batch, (beta,), order))
        return self._sums[-1].at(beta)

    @property
    def _ranked(self) -> PowerSums | None:
        """What a kernel returned, if it was asked, and ranks classes as the batch does: by its logits."""
        batch = self.batch
        by_logits = batch.probabilities is None and batch.predicted is None and not batch.is_claim
        return self._sums[0] if self._sums and by_logits else None

    @cached_property
    def top_class(self) -> Array:
        """The predicted class of each row."""
        ranked = self._ranked
        return self.batch.top if ranked is None or ranked.top is None else ranked.top

    @cached_property
    def right(self) -> Array:
        """Whether the predicted class is the true one."""
        ranked = self._ranked
        if ranked is None:
            return self.batch.right
        return self.batch.label_logits == ranked.peak if ranked.top is None else ranked.top == self.batch.labels

    @cached_property
    def label_drops(self) -> Array:
        """The drop of each row's true class: 0 if it is a top class, -inf if it is masked."""
        if not self._sums:
            return self.batch.label_drops
        return arrays.in_double(self.batch.label_logits) - arrays.in_double(self._sums[0].peak)

    @cached_property
    def rest(self) -> Array:
        """The weight of all classes but the top one, which has weight 1."""
        return self.powers(0)[0, ...]

    @cached_property
    def peak_probability(self) -> Array:
        """The probability of the largest logit: of the predicted class, except in claims."""
        return 1 / (1 + self.rest)

    @cached_property
    def top_probability(self) -> Array:
        """The probability of the predicted class: the confidence."""
        return self._of_top(self.peak_probability, self.rest * self.peak_probability)

    @cached_property
    def doubt(self) -> Array:
        """One minus the confidence, without cancellation."""
        return self._of_top(self.rest * self.peak_probability, self.peak_probability)

    def _of_top(self, if_largest: Array, if_not: Array) -> Array:
        """Choose a number per row by whether the claim has the largest logit, which is always so except for claims."""
        if not self.batch.is_claim:
            return if_largest
        logits = self.batch.logits
        return self.batch.xp.where(logits[:, 1] >= logits[:, 0], if_largest, if_not)

    @property
    def nll(self) -> Array:
        """Minus the log-probability of each true class."""
        return self.batch.xp.log1p(self.rest) - self.beta * self.label_drops

    @property
    def brier(self) -> Array:
        """The squared distance between probabilities and truth, summed over classes; for claims, of their one number."""
        if self.batch.is_claim:
            return self.batch.xp.where(self.right, self.doubt, self.top_probability) ** 2
        xp, squares = self.batch.xp, self.squares  # first: one call of the kernel gives all that is needed here
        true = xp.exp(self.beta * self.label_drops)
        wrong_classes = xp.where(self.right, squares, 1 + squares - true**2) * self.top_probability**2
        return xp.where(self.right, self.doubt, 1 - true * self.top_probability) ** 2 + wrong_classes

    @cached_property
    def moments(self) -> tuple[Array, ...]:
        """⟨d⟩ to ⟨d⁵⟩."""
        powers = self.powers(5)
        return tuple(powers[j, ...] * self.peak_probability for j in range(1, 6))

    @cached_property
    def class_probabilities(self) -> Array:
        """A table with the probability of each class."""
        batch, xp = self.batch, self.batch.xp
        weights = boltzmann(batch.drops, self.beta, xp)
        if batch.live is not None:
            weights = xp.where(batch.live, weights, xp.zeros_like(weights))
        table = weights * self.peak_probability[:, None]
        return arrays.with_entries(table, self.top_class, self.top_probability[:, None])

    def over_classes(self, table: Array) -> Array:
        """The sum of each row of ``table``."""
        return table @ self.batch.ones

    @cached_property
    def losses(self) -> Array:
        """The loss of each row: the NLL, with ``zero`` in place of probabilities of 0."""
        if self.zero is None or self.batch.probabilities is None:
            return self.nll
        batch, xp = self.batch, self.batch.xp
        is_zero = batch.at(batch.probabilities, batch.labels) == 0
        return xp.where(is_zero, xp.full_like(self.nll, -log(self.zero)), self.nll)

    # --- what metrics see: NumPy arrays --------------------------------------------------------------------------------------

    @property
    def n_classes(self) -> int:
        return self.batch.n_classes

    @property
    def clusters(self) -> HostArray | None:
        return None if self.batch.clusters is None else self.batch.clusters.codes

    @cached_property
    def weights(self) -> HostArray:
        return arrays.on_host(self.batch.weights)

    @cached_property
    def labels(self) -> HostArray:
        self._refuse_lists("labels")
        return arrays.on_host(self.batch.labels)

    @cached_property
    def probabilities(self) -> HostArray:
        self._refuse_lists("probabilities")
        return self.claimed("classwise")

    @cached_property
    def predicted(self) -> HostArray:
        self._refuse_lists("predicted")
        return arrays.on_host(self.top_class)

    @cached_property
    def confidence(self) -> HostArray:
        return self.claimed("top")[:, 0]

    @cached_property
    def correct(self) -> HostArray:
        return arrays.on_host(self.right)

    @cached_property
    def log_likelihood(self) -> HostArray:
        return -arrays.on_host(self.losses)

    def _refuse_lists(self, name: str) -> None:
        if not self.batch.has_all_classes:
            raise InputError(
                f"A metric of top-k log-probabilities must not use `{name}`: their columns are places in the lists. Pass all "
                "logits, or use `confidence` and `correct`."
            )

    # --- claims: see `reliability` -------------------------------------------------------------------------------------------

    def claimed(self, of: Of) -> HostArray:
        """The claimed probabilities, (n, groups)."""
        batch = self.batch
        # Given probabilities are claims as they are: a logarithm and back would tell equal ones apart.
        passed = batch.probabilities if self.beta == 1 else None
        if of == "top":
            top = self.top_probability if passed is None else batch.at(passed, batch.top) / self.over_classes(passed)
            return arrays.on_host(top[:, None])
        table = self.class_probabilities if passed is None else passed / self.over_classes(passed)[:, None]
        claimed = arrays.on_host(table)
        return claimed[:, 1:] if of == "positive" else claimed

    def outcomes(self, of: Of) -> HostArray:
        """Which claims came true, (n, groups)."""
        if of == "top":
            return arrays.on_host(self.right)[:, None]
        labels = arrays.on_host(self.batch.labels)[:, None]
        return labels == (1 if of == "positive" else np.arange(self.batch.n_classes))

    def bin_claims(self, edges: HostArray, of: Of = "top") -> BinnedClaims:
        """Sort the claims into bins; ``edges`` has one row, or one for each class."""
        claimed, true = self.claimed(of), self.outcomes(of)
        inner = inner_edges(edges, self.batch.rounding)
        if len(edges) == 1:
            index = np.searchsorted(inner[0], claimed)
        else:
            index = np.stack([np.searchsorted(e, p) for e, p in zip(inner, claimed.T, strict=True)], axis=1)
        index += (edges.shape[1] - 1) * np.arange(claimed.shape[1])
        weights = arrays.on_host(self.batch.weights)[:, None]
        return BinnedClaims(edges, index, claimed, true, weights, self.batch.clusters, self.counts)

    @cached_property
    def top_claims(self) -> BinnedClaims:
        """The confidence of the predicted class of each row, in bins."""
        return self.bin_claims(self.edges)

    @cached_property
    def positive_claims(self) -> BinnedClaims:
        """The probability of the second of two classes, in bins."""
        return self.bin_claims(POSITIVE_EDGES, "positive")

    def unbinned_claims(self, of: Of) -> UnbinnedClaims:
        """The claims themselves, for quantiles."""
        return UnbinnedClaims((self.claimed(of),), (arrays.on_host(self.batch.weights),))


def derivatives(averages: Sequence[Array], moments: Sequence[Array]) -> tuple[Array, ...]:
    """The derivatives in β of an average a₀ = ⟨O⟩ from aⱼ = ⟨Odʲ⟩ and mⱼ = ⟨dʲ⟩: a⁽ⁿ⁾ = aₙ - Σ C(n, k)·a⁽ᵏ⁾·mₙ₋ₖ over k < n.

    It is Leibniz's rule for the product ⟨O⟩·Z, whose derivatives are the sums Σ O·dⁿ·exp(βd). Counted from the top of the row,
    which always holds at least 1/k of the probability, they lose no more digits than k has.
    """
    orders = [averages[0]]
    for n, average in enumerate(averages[1:], 1):
        orders.append(average - sum(comb(n, k) * orders[k] * moments[n - k - 1] for k in range(n)))
    return tuple(orders[1:])


def sums_for_scores(batch: Batch, betas: Sequence[float]) -> PowerSums:
    """The power sums that losses and Brier scores at some β need, from one call of the kernel."""
    return row_sums(batch, tuple(dict.fromkeys([*betas, *(2 * beta for beta in betas)])), 0)


def predictions_after(
    maps: Sequence[Map], edges: Sequence[HostArray], batch: Batch, *, counts: bool = False, zero: float | None = None
) -> Iterator[Predictions]:
    """The predictions for a batch after each of several maps, one at a time; one kernel call serves all temperatures.

    ``zero`` replaces probabilities of 0 in losses, see `Predictions`.
    """
    betas = inverse_temperatures(maps)
    shared = sums_for_scores(batch, betas) if betas else None
    for map_, own in zip(maps, edges, strict=True):
        mapped, beta = apply_map(map_, batch)
        sums = shared if mapped is batch else sums_for_scores(mapped, [beta])
        yield Predictions(mapped, beta, sums, edges=own, counts=counts, zero=zero)


def inverse_temperatures(maps: Sequence[Map]) -> list[float]:
    """The β of all maps that are temperatures."""
    return [1 / temperature for map_ in maps if (temperature := temperature_of(map_)) is not None]


def apply_map(map_: Map, batch: Batch) -> tuple[Batch, float]:
    """A batch, and the β that gives its calibrated distribution."""
    if isinstance(map_, Floored):
        batch, map_ = batch.raised_to(map_.floor), map_.inner
    temperature = temperature_of(map_)
    if temperature is not None:
        return batch, 1 / temperature
    mapped = apply_checked(map_, batch.double, batch.groups)
    if claims_to_check(map_):
        check_claims(map_, batch.double, mapped)
    return batch.with_logits(mapped, same_top=map_.keeps_predictions), 1.0


# --- the reliability curve ---------------------------------------------------------------------------------------------------


def tally(edges: HostArray, beta: float, of: Of, batch: Batch) -> Bins:
    """The pass that sorts claims into bins."""
    return Predictions(batch, beta).bin_claims(edges, of).bins


def keep_claims(beta: float, of: Of, batch: Batch) -> UnbinnedClaims:
    """The pass that keeps the claims: one number per row, or one per row and class for classwise claims."""
    return Predictions(batch, beta).unbinned_claims(of)


def reliability_of(data: Rows, *, beta: float, n_bins: int, strategy: Strategy, of: Of) -> Reliability:
    """The reliability curve of all rows, from one pass, or two for quantiles."""
    check_bins(n_bins, strategy)
    check_claim(data, of)
    edges = uniform_edges(n_bins) if strategy == "uniform" else data.gather(partial(keep_claims, beta, of)).edges(n_bins)
    return Reliability.from_bins(data.gather(partial(tally, edges, beta, of)))
