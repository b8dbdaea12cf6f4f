"""The log-probabilities of the most probable classes, as hosted language models return them.

A `TopK` keeps the caller's arrays. Values are checked when it is made, except those of rows that cannot be lists: these may be
padding, and which rows count is known only with the labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nishimori._kernels.array_api import boltzmann
from nishimori._rows.batch import Batch, Clusters
from nishimori._rows.scores import Scores
from nishimori._support import arrays
from nishimori._support.arrays import HostArray
from nishimori._support.numbers import numeric, whole
from nishimori._support.numbers import temperature as checked_temperature
from nishimori._support.optional import import_object
from nishimori._top_k.unlisted_mass import TailLevels, Tails
from nishimori.errors import InputError, setting

_SLACK = 1e-3
"""How much a probability, or a sum of probabilities, may exceed its limit: log-probabilities are often rounded."""

_EPS = float(np.finfo(float).eps)

# Lists whose rest is below this in every row were normalised again, if some row lists a class this many times as probable.
_RENORMALISED, _TELLING = 1e-6, 1000.0

# The sampled class is not among the most probable ones in a smaller share of rows than this.
_MOST_EXTRA = 0.9

# Larger whole numbers are not exact in float64.
_MOST_CLASSES = 2**53

# Some services return this in place of a log-probability that they do not list.
_NOT_LISTED = -9999.0


# What reads the answers of servers, and makes objects of this class.
_SERVERS = "nishimori._top_k.servers"


class ProbabilityBounds(NamedTuple):
    """The smallest and the largest value that each probability can have."""

    low: HostArray
    high: HostArray


@dataclass(frozen=True)
class ListedScores(Scores):
    """Scores with some columns only: the last dimension is shorter than the number of classes."""

    vocabulary_size: int = 0

    @property
    def n_classes(self) -> int:
        return self.vocabulary_size


@dataclass(frozen=True, kw_only=True)
class ListedBatch(Batch):
    """Checked rows of a `TopK`: sorted log-probabilities (n, k + 1); the last column is an unlisted true class.

    ``labels`` say in which column the true class of each row is, and ``is_known`` whether its log-probability is known; if it
    is not, its column holds -inf. ``n_listed`` is the number of listed classes of each row. ``tails`` is what is known of the
    other classes, and ``levels`` a completion of them.
    """

    is_known: HostArray
    n_listed: HostArray
    tails: Tails
    levels: TailLevels
    vocabulary_size: int

    @property
    def n_classes(self) -> int:
        return self.vocabulary_size

    has_all_classes = False

    def other_sums(self, peaks: HostArray, betas: Sequence[float], order: int) -> HostArray:
        """The contribution of classes without a column to the power sums."""
        drops = self.levels.logs - peaks
        sums = np.empty((len(betas), order + 1, self.n_rows))
        for i, beta in enumerate(betas):
            weights = self.levels.numbers * boltzmann(drops, beta, np)
            for j in range(order + 1):
                sums[i, j] = weights.sum(axis=0)
                weights = weights * drops
        return sums


class TopK:
    """The log-probabilities of the k most probable classes of each sample, such as the tokens of a hosted language model.

    `temperatures`, `ExpectationConsistency`, `TemperatureScaling` and `evaluate` take it in place of logits. The classes that
    are not listed share the rest of the probability in a way that is not known, so that a temperature has bounds, and is given
    as a number only if the bounds are closer to each other than the standard error. Bounds hold for the log-probabilities as
    they are passed, up to the rounding of their dtype: the rest of the probability is only as exact as these are.

    Parameters
    ----------
    indices : integer array of shape (n_samples, k), or (..., k)
        Which classes are listed.
    log_probabilities : array of the shape of ``indices``
        Their natural logarithms of probability at T = 1, in any order: those of the softmax over the whole vocabulary, before
        any filter. A row that lists fewer than k classes is filled up with -inf. Rows that are only NaN or only -inf, or that
        have one index in all columns, are padding and must have weight zero or a label that is ignored.
    vocabulary_size : int
        How many classes there are, listed or not.
    label_log_probabilities : array of the shape of ``indices`` without its last dimension, optional
        The log-probability of the true class of each sample, as models return it for the tokens of a prompt; NaN where it is
        not known. Temperature scaling needs it for each sample whose true class is not listed.

    Examples
    --------
    >>> import numpy as np
    >>> import nishimori
    >>> rng = np.random.default_rng(0)
    >>> logits = 4 * rng.normal(size=(2000, 50))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    >>> listed = np.argsort(-log_p, axis=1)[:, :30]
    >>> top = nishimori.TopK(listed, np.take_along_axis(log_p, listed, axis=1), vocabulary_size=50)
    >>> found = nishimori.temperatures(top, labels)
    >>> print(f"{found.ec:.3f}, from {found.ec_bounds.low:.3f} to {found.ec_bounds.high:.3f}, standard error {found.ec_se:.2f}")
    1.939, from 1.933 to 1.946, standard error 0.05
    """

    kind: ClassVar[str] = "TopK"
    """The name in messages, by which `rows` also finds the function to open it."""

    def __init__(
        self, indices: Any, log_probabilities: Any, vocabulary_size: int, *, label_log_probabilities: Any = None
    ) -> None:
        logs = arrays.on_host(numeric(log_probabilities, "log_probabilities"))
        classes = arrays.on_host(numeric(indices, "indices"))
        if logs.ndim < 2 or not logs.size:
            must = "have shape (n_samples, k), with at least one row and column"
            raise InputError("log_probabilities", must, got=logs.shape, remedy="For one sample pass a list.")
        if classes.shape != logs.shape:
            raise InputError("indices", f"have the shape of `log_probabilities`, {logs.shape}", got=classes.shape)
        k = int(logs.shape[-1])
        size = whole("vocabulary_size", vocabulary_size, 2, _MOST_CLASSES)
        if k >= size:
            raise InputError(
                "log_probabilities",
                f"list fewer classes than `vocabulary_size`, {size}",
                got=f"{k} per sample",
                remedy="If they list all classes, put them in the order of the classes and pass them as logits.",
            )
        if arrays.kind(classes) == "float" and not (classes == np.floor(classes)).all():
            raise InputError("indices", "be whole numbers, the positions of the listed classes in the vocabulary")
        leading = logs.shape[:-1] if logs.ndim > 2 else ()
        flat = logs.reshape(-1, k)
        self.shape: tuple[int, ...] = tuple(logs.shape)
        self.k: int = k  # how many classes are listed per sample, at most
        self.vocabulary_size: int = size
        self.scores: ListedScores = ListedScores(flat, "logits", "log_probabilities", leading=leading, vocabulary_size=size)
        self._indices = classes.reshape(-1, k)
        self._label_logs = self._per_row(label_log_probabilities)
        self._is_checked = np.zeros(len(flat), dtype=bool)
        self._check()

    @staticmethod
    def from_vllm(prompt_logprobs: Any, *, labels: Any, vocabulary_size: int, logprobs: str) -> Any:
        """The lists in the ``prompt_logprobs`` of vLLM, and the label of each.

        Parameters
        ----------
        prompt_logprobs : list
            As in the answer, or as ``LLM.generate`` returns it: for each token of the prompt None or a dictionary from token
            ids to ``{"logprob": ..., "rank": ...}``; or a list of such lists. A token that was added to the most probable ones
            is used for its label only.
        labels : list of int
            The token ids of the prompt, which are text that others have written: what a model has sampled is no label.
        vocabulary_size : int
            How many tokens there are.
        logprobs : {"raw", "processed"}
            What the server returns. Processed ones, after temperature and filters, are refused.

        Returns
        -------
        tuple of TopK and array
            To pass as two arguments: ``nishimori.temperatures(*TopK.from_vllm(...))``.
        """
        options = {"labels": labels, "vocabulary_size": vocabulary_size, "logprobs": logprobs}
        return import_object(f"{_SERVERS}:from_vllm")(prompt_logprobs, **options)

    @staticmethod
    def from_openai(content: Any, *, labels: Any, tokenizer: Any, vocabulary_size: int, logprobs: str) -> Any:
        """The lists in ``choices[0].logprobs.content`` of OpenAI and servers like it, and the label of each.

        Parameters
        ----------
        content : list
            As in the answer: for each token a dictionary, or an object of the client, with "token" and "top_logprobs"; or a
            list of such lists. Where a sampled token is the least probable of its list, all lists lose their last entry: vLLM
            lists it in place of the last one.
        labels : list of str or int
            The true token of each entry. The tokens that the model has sampled are refused.
        tokenizer : dict or callable
            The id of each token's text.
        vocabulary_size, logprobs
            As for `from_vllm`.

        Returns
        -------
        tuple of TopK and array
            To pass as two arguments: ``nishimori.temperatures(*TopK.from_openai(...))``.
        """
        options = {"labels": labels, "tokenizer": tokenizer, "vocabulary_size": vocabulary_size, "logprobs": logprobs}
        return import_object(f"{_SERVERS}:from_openai")(content, **options)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> HostArray:
        """Refuse: the scores of unlisted classes are not known."""
        raise InputError(
            "X",
            "hold a score for each class",
            got="top-k log-probabilities",
            remedy="`TopK.probabilities(temperature)` gives bounds on the probabilities of the listed classes.",
        )

    def __repr__(self) -> str:
        labelled = "" if self._label_logs is None else ", with label_log_probabilities"
        return f"TopK(shape={self.shape}, vocabulary_size={self.vocabulary_size}{labelled})"

    def probabilities(self, temperature: float = 1.0) -> ProbabilityBounds:
        """The smallest and largest probabilities that the listed classes can have at a temperature.

        Parameters
        ----------
        temperature : float
            T, such as that of a calibrator; at 1 both are the probabilities as they were passed, up to rounding.

        Returns
        -------
        ProbabilityBounds
            A named tuple (low, high) of arrays of the shape of ``indices``, in its order. The largest entry of each row is the
            confidence. Where nothing is listed, both are 0.

        Examples
        --------
        >>> import numpy as np
        >>> import nishimori
        >>> top = nishimori.TopK([[7, 2]], np.log([[0.6, 0.2]]), vocabulary_size=1000)
        >>> low, high = top.probabilities(1.25)
        >>> print(low.round(3), high.round(3))
        [[0.326 0.135]] [[0.546 0.227]]
        """
        beta = 1 / checked_temperature(temperature)
        numbers = np.flatnonzero((self.scores.array != -np.inf).any(axis=1))
        logs = self._checked_logs(numbers)
        tails = self._tails(logs, numbers)
        peaks = logs.max(axis=1)
        weights = np.exp(beta * (logs - peaks[:, None]))
        both = []
        for levels in (tails.even_levels(), tails.concentrated_levels()):
            rest = (levels.numbers * np.exp(beta * (levels.logs - peaks))).sum(axis=0)
            probabilities = np.zeros((self.scores.n_samples, self.k))
            probabilities[numbers] = weights / (weights.sum(axis=1) + rest)[:, None]
            both.append(probabilities)
        # A weight has the rounding errors of two logarithms, and the sum of all weights has them too.
        rounding = np.zeros((self.scores.n_samples, 1))
        rounding[numbers, 0] = 4 * beta * self.rounding(numbers) + (self.k + 8) * _EPS
        low, high = np.minimum(*both) * (1 - rounding), np.maximum(*both) * (1 + rounding)
        return ProbabilityBounds(np.maximum(low, 0.0).reshape(self.shape), np.minimum(high, 1.0).reshape(self.shape))

    def rounding(self, numbers: HostArray) -> HostArray:
        """The rounding error of the log-probabilities of some rows, from their dtype."""
        logs = self.scores.array[numbers]
        # What was computed as a logit minus the logarithm of a sum has the errors of numbers of about 1 at least.
        sizes = np.maximum(np.abs(np.where(np.isfinite(logs), logs, 0)), 1).max(axis=1)
        rounding: HostArray = np.spacing(sizes.astype(logs.dtype)).astype(np.float64) / 2
        return rounding

    def batch(self, numbers: HostArray, labels: HostArray, weights: HostArray, clusters: Clusters | None) -> ListedBatch:
        """The rows with these ``numbers``, checked, with the even tail; ``labels`` are the true classes of all rows."""
        logs = self._checked_logs(numbers)
        indices = self._indices[numbers]
        tails = self._tails(logs, numbers)
        if not (logs[:, 1:] < logs[:, :-1]).all():
            # Of equal log-probabilities the first class counts as the prediction, as in an array of all logits.
            order = np.lexsort((indices, -logs), axis=1)
            logs, indices = np.take_along_axis(logs, order, axis=1), np.take_along_axis(indices, order, axis=1)
        is_label = (indices == labels[numbers, None]) & (logs > -np.inf)
        listed = is_label.any(axis=1)
        columns = np.where(listed, is_label.argmax(axis=1), self.k)
        label_logs, is_known = np.full(len(logs), -np.inf), listed
        if self._label_logs is not None:
            label_logs, is_known, tails = self._with_labels(numbers, listed, logs, columns, tails)
        only = ~is_known & (tails.numbers == 1) & (tails.masses > 0)  # the true class has all that is left
        if only.any():
            label_logs, is_known = np.where(only, np.log(np.where(only, tails.masses, 1.0)), label_logs), is_known | only
            others, masses, slacks = (np.where(only, 0.0, values) for values in (tails.numbers, tails.masses, tails.slacks))
            tails = Tails(others, masses, tails.ceilings, slacks)
        return ListedBatch(
            np.column_stack([logs, label_logs]),
            columns,
            np.ascontiguousarray(weights[numbers]),
            masked=False,
            clusters=None if clusters is None else clusters.at_rows(numbers),
            is_known=is_known,
            n_listed=(logs > -np.inf).sum(axis=1),
            tails=tails,
            levels=tails.even_levels(),
            vocabulary_size=self.vocabulary_size,
        )

    def listed(self, numbers: HostArray) -> tuple[HostArray, HostArray]:
        """The checked log-probabilities of the rows with these ``numbers``, and their classes."""
        return self._checked_logs(numbers), self._indices[numbers]

    def _per_row(self, values: Any) -> HostArray | None:
        """The log-probabilities of the labels, one per row."""
        if values is None:
            return None
        name = "label_log_probabilities"
        array = arrays.on_host(numeric(values, name))
        wanted = self.scores.leading or (self.scores.n_samples,)
        if array.shape != wanted:
            raise InputError(name, f"have shape {wanted}, one number per sample", got=array.shape)
        flat: HostArray = array.reshape(-1).astype(np.float64)
        return flat

    def _check(self) -> None:
        """Check that all rows can be lists of the most probable classes of a full softmax."""
        logs, indices = self.scores.array, self._indices
        is_padding = np.isnan(logs).all(axis=1) | (logs == -np.inf).all(axis=1)
        if self.k > 1:
            is_padding |= (indices == indices[:, :1]).all(axis=1)
        numbers = np.flatnonzero(~is_padding)
        if not len(numbers):
            return
        logs = self._checked_logs(numbers)
        listed = logs > -np.inf
        n_listed = listed.sum(axis=1)
        # One entry more than in all other rows is the sampled or the true class, of any rank.
        longer = n_listed == self.k
        are_extra = self.k > 1 and 0 < longer.mean() < _MOST_EXTRA and bool((n_listed[~longer] == self.k - 1).all())
        self._refuse(
            longer & are_extra,
            numbers,
            "list the most probable classes only",
            f"{self.k - 1} classes in {int((~longer).sum())} rows, and {self.k} in {int(longer.sum())}, first",
            "Some services (vLLM) add the sampled or the true class to its list where it is not among the most probable. "
            f"Replace the smallest log-probability of rows of {self.k} classes by -inf, and pass those of true classes as "
            "`label_log_probabilities`.",
        )
        masses = self._tails(logs, numbers).masses
        self._is_checked[numbers] = True
        least = np.exp(np.min(logs, axis=1, where=listed, initial=0.0))
        telling = (n_listed > 1) & (least > _TELLING * _RENORMALISED)
        self._refuse(
            telling & bool((masses <= _RENORMALISED).all()),
            numbers,
            "be log-probabilities from the softmax over the whole vocabulary",
            "lists that sum to 1 in every row, although {others} classes are not listed, such as {listed} classes down to a "
            "probability of {least:.3g}",
            "They were probably normalised again after a top-k or top-p filter, and give wrong temperatures. Pass "
            "log-probabilities from before the filter. If the other classes have probability 0, pass logits of all classes "
            "with -inf for these.",
            others=self.vocabulary_size - n_listed,
            listed=n_listed,
            least=least,
        )

    def _checked_logs(self, numbers: HostArray) -> HostArray:
        """The log-probabilities of some rows, in float64, none of them above 0."""
        logs = self.scores.array[numbers].astype(np.float64)
        capped: HostArray = np.minimum(logs, 0.0)
        if self._is_checked[numbers].all():
            return capped
        listed = logs > -np.inf
        not_listed = f"Some services return {_NOT_LISTED:.0f} for a class that they do not list: pass -inf there."
        for bad, must, remedy in (
            (np.isnan(logs), "not be NaN", "Fill up rows that list fewer classes with -inf."),
            (
                logs > _SLACK,
                "be at most 0",
                "Pass natural logarithms of probabilities that sum to 1 over the whole vocabulary.",
            ),
            (listed & (logs <= _NOT_LISTED), "be the log-probabilities of listed classes", not_listed),
        ):
            self._refuse(bad, numbers, must, "{logs:.6g}", remedy, logs=logs)
        remedy = f"Give such samples weight zero, or a label that {setting('ignore_index')} names."
        self._refuse(~listed.any(axis=1), numbers, "list at least one class per sample", "only -inf", remedy)
        indices = self._indices[numbers]
        is_outside = listed & ((indices < 0) | (indices >= self.vocabulary_size))
        must = f"be from 0 to {self.vocabulary_size - 1}"
        self._refuse(is_outside, numbers, must, "{index:.0f}", "Check `vocabulary_size`.", "indices", index=indices)
        # What is not listed gets a number of its own, which no class has.
        distinct = np.sort(np.where(listed, indices, -1 - np.arange(self.k)), axis=1)
        is_repeated = distinct[:, 1:] == distinct[:, :-1]
        must = "list each class at most once per sample"
        self._refuse(is_repeated, numbers, must, "{index:.0f} twice", "", "indices", index=distinct[:, 1:])
        return capped

    def _tails(self, logs: HostArray, numbers: HostArray) -> Tails:
        """The mass that the listed classes leave."""
        listed = logs > -np.inf
        total = np.exp(logs).sum(axis=1)
        self._refuse(
            total > 1 + _SLACK,
            numbers,
            "be of probabilities that sum to at most 1",
            "a sum of {total:.6g}",
            "If these are logits, subtract the logarithm of the sum of exponentials over the whole vocabulary.",
            total=total,
        )
        ceilings = np.min(logs, axis=1, where=listed, initial=0.0)
        slacks = self.rounding(numbers) * total + (self.k + 4) * _EPS
        return self._tail(1 - total, self.vocabulary_size - listed.sum(axis=1), ceilings, slacks, numbers)

    def _tail(self, masses: HostArray, others: HostArray, ceilings: HostArray, slacks: HostArray, numbers: HostArray) -> Tails:
        """Tails of ``others`` classes, none of them above exp(``ceilings``)."""
        largest = np.exp(ceilings)
        most = others * largest
        self._refuse(
            masses > most + _SLACK,
            numbers,
            "list the most probable classes",
            "{others:.0f} classes that are not listed and share {masses:.3g}, although none of them can be more probable than "
            "the last listed one, {largest:.3g},",
            "Check `vocabulary_size`, and that no listed class was dropped or has another temperature. Some services (vLLM) "
            "add the sampled or the true class to the list whatever its rank: replace its log-probability by -inf.",
            others=others,
            masses=masses,
            largest=largest,
        )
        return Tails(others.astype(np.float64), np.clip(masses, 0.0, most), ceilings, slacks)

    def _with_labels(
        self, numbers: HostArray, listed: HostArray, logs: HostArray, columns: HostArray, tails: Tails
    ) -> tuple[HostArray, HostArray, Tails]:
        """Log-probabilities of unlisted true classes, which true classes are known, and the tails without them."""
        assert self._label_logs is not None
        name, got, passed = "label_log_probabilities", "{passed:.6g}", self._label_logs[numbers]
        is_known = ~np.isnan(passed)
        remedy = "Pass NaN where the log-probability of the true class is not known."
        bad = is_known & ((passed > _SLACK) | (passed <= _NOT_LISTED))
        self._refuse(bad, numbers, "be between -9999 and 0", got, remedy, name, passed=passed)
        tolerance = _SLACK * np.maximum(1.0, np.abs(passed))
        own = logs[np.arange(len(logs)), np.minimum(columns, self.k - 1)]
        remedy = "Check that labels and log-probabilities are of the same samples."
        bad = is_known & listed & ~(np.abs(passed - own) <= tolerance)
        must = "be the log-probability that is listed for the true class, {own:.6g}"
        self._refuse(bad, numbers, must, got, remedy, name, own=own, passed=passed)
        added = is_known & ~listed
        bad = added & ~(passed <= tails.ceilings + tolerance)
        must = "be at most the least listed log-probability, {least:.6g}, where the true class is not listed"
        self._refuse(bad, numbers, must, got, remedy, name, least=tails.ceilings, passed=passed)
        label_logs = np.where(added, np.minimum(passed, tails.ceilings), -np.inf)
        left = np.where(added, np.maximum(tails.masses - np.exp(label_logs), 0.0), tails.masses)
        reduced = self._tail(left, tails.numbers - added, tails.ceilings, tails.slacks, numbers)
        return label_logs, is_known | listed, reduced

    def _refuse(
        self,
        bad: HostArray,
        numbers: HostArray,
        must: str,
        got: str,
        remedy: str,
        name: str = "log_probabilities",
        **values: HostArray,
    ) -> None:
        """Refuse the first bad entry, or row; ``must`` and ``got`` can name its ``values``."""
        if bad.any():
            place = tuple(np.argwhere(bad)[0])
            words = {label: array[place] for label, array in values.items()}
            row = self.scores.row(int(numbers[place[0]]))
            raise InputError(name, must.format(**words), got=got.format(**words), remedy=remedy, row=row)
