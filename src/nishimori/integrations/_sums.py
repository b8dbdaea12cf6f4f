"""Calibration of what a trainer evaluates: sums of its batches, and the ECE, the gap and T that follow from them.

No rows are kept. On several ranks, each adds its own batches, and at the end only sums travel.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch import Tensor

from nishimori import evaluate
from nishimori._rows.entry import open_rows
from nishimori._rows.labels import Labelling
from nishimori._rows.scores import ScoreRange
from nishimori._sketch.sketch import Sketch
from nishimori._support.warnings import collect_notices, notice
from nishimori.errors import InputError, InputWarning, NishimoriError, NoRowsError
from nishimori.torch._batches import Rule, naming_batch
from nishimori.torch._calibrate import new_calibrator
from nishimori.torch._loader import WITHOUT_SOFTMAX, sketch_for, takes_sums
from nishimori.torch._ranks import Exchange
from nishimori.torch._run import classes_last

if TYPE_CHECKING:
    from nishimori import Calibrator
    from nishimori.results import Scorecard


def calibrator_of_sums(method: "str | Calibrator") -> "Calibrator":
    """The calibrator that a user chose, if sums are enough to fit it."""
    chosen = new_calibrator(method)
    if not takes_sums(chosen):
        must = "be fitted to sums, as 'adaptive', 'ec' and 'ts' are"
        raise InputError("method", must, got=f"{chosen.method_name!r}, which needs all rows")
    return chosen


def scorecard_and_temperature(sketch: Sketch, chosen: "Calibrator") -> "tuple[Scorecard, float | None]":
    """The scorecard of a sketch, and the temperature of a method; None where no temperature fits.

    Without the warnings that a user who measures once would see: early in training few temperatures are certain.
    """
    temperature = None
    with collect_notices():
        card = evaluate(sketch)
        with suppress(NishimoriError):
            temperature = chosen.fit(sketch).temperature_
    return card, temperature


class EvaluationSums:
    """The sums of the batches of one evaluation on this rank.

    A network that diverges must not end in an error of a metric. So what is wrong with a batch is kept, and `close` warns of it
    on all ranks.
    """

    def __init__(self, method: "str | Calibrator", ignore_index: int | None, *, shift_labels: bool, class_axis: int) -> None:
        self._chosen = calibrator_of_sums(method)
        self._chosen.input = "logits"  # those of a network that is not trained yet may lie between 0 and 1
        self._rule = Rule(labelling=Labelling(ignore_index, shift_labels), class_axis=class_axis)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._sketch: Sketch | None = None
        self._range = ScoreRange()
        self._error: InputError | None = None
        self._n_batches = 0

    def fail(self, error: InputError) -> None:
        """Keep what is wrong with this evaluation; the first error counts."""
        self._error = self._error or error

    def add(self, logits: Tensor, labels: Any, arguments: Mapping[str, Any] | None = None) -> None:
        """Add a batch; ``arguments`` are those of the network, in which padding and labels that are not shifted are seen."""
        number, self._n_batches = self._n_batches, self._n_batches + 1
        if self._error is not None:
            return
        try:
            if arguments is not None:
                self._rule.refuse_padding(arguments, labels, number)
                if number == 0:
                    self._rule.check_shift(arguments, labels)
            with naming_batch(number):
                self._add(classes_last(logits.detach(), self._rule.class_axis), labels)
        except InputError as error:
            self.fail(error)

    def _add(self, logits: Tensor, labels: Any) -> None:
        labelling = self._rule.labelling
        how: Any = {"ignore_index": labelling.ignore_index, "shift_labels": labelling.shift_labels}
        with suppress(NoRowsError):  # a batch of padding
            rows = open_rows(logits, labels, guard="defer", **how)
            sketch = sketch_for(self._chosen, rows.n_classes) if self._sketch is None else self._sketch
            self._sketch = sketch.update(rows)
            self._range += rows.score_range or ScoreRange()

    def close(self, *, across_ranks: bool = True) -> tuple[Sketch | None, dict[str, float]]:
        """The sketch of all batches, and its ECE, gap and T; then all batches are forgotten.

        All ranks must call this if it is ``across_ranks``. Without rows there is no sketch and no value. Where no temperature
        fits, T is left out.
        """
        sketch, values = None, {}
        try:
            sketch, score_range = self._total(across_ranks=across_ranks)
            if sketch is not None:
                score_range.warn("logits", WITHOUT_SOFTMAX)
                card, temperature = scorecard_and_temperature(sketch, self._chosen)
                values = {"ece": card.ece, "gap": card.gap} | ({} if temperature is None else {"temperature": temperature})
        except NishimoriError as error:
            notice(f"Calibration was not measured in this evaluation. {error}", InputWarning)
        self.reset()
        return sketch, values

    def _total(self, *, across_ranks: bool) -> tuple[Sketch | None, ScoreRange]:
        """The sums and the range of the logits of all ranks, some of which may have no rows."""
        is_distributed = across_ranks and dist.is_available() and dist.is_initialized()
        parts = list(Exchange().values(self._own)) if is_distributed else [self._own()]
        sketches = [sketch for sketch, _ in parts if sketch is not None]
        ranges = [score_range for _, score_range in parts]
        return sum(sketches[1:], start=sketches[0]) if sketches else None, sum(ranges, start=ScoreRange())

    def _own(self) -> tuple[Sketch | None, ScoreRange]:
        if self._error is not None:
            raise self._error
        return self._sketch, self._range
