"""Calibration in the evaluations of Hugging Face's `Trainer`.

    trainer.add_callback(CalibrationCallback(trainer))

logs ``eval_ece``, ``eval_gap`` (mean confidence minus accuracy) and ``eval_temperature`` (the T that
`nishimori.torch.calibrate` would choose) after each evaluation. `ComputeCalibration` computes the same as ``compute_metrics``.

A calibrated network can be evaluated as any other: ``Trainer(model=calibrated, ...).evaluate()``.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nishimori._sketch.sketch import Sketch
from nishimori._support.optional import require
from nishimori.errors import InputError
from nishimori.integrations._sums import EvaluationSums
from nishimori.torch._batches import IGNORED, LABELS
from nishimori.torch._run import logits_of

require("transformers", extra="transformers", for_="nishimori.integrations.transformers")
require("accelerate", extra="transformers", for_="nishimori.integrations.transformers")

from accelerate.state import GradientState, PartialState  # noqa: E402 - after the check that it is installed
from transformers import EvalPrediction, Trainer, TrainerCallback  # noqa: E402

if TYPE_CHECKING:
    from nishimori import Calibrator

__all__ = ["CalibrationCallback", "ComputeCalibration"]

_INSTEAD = "Pass `compute_metrics=ComputeCalibration()` to the Trainer instead of this callback."


class CalibrationCallback(TrainerCallback):
    """Logs ECE, gap and T of each evaluation of a `Trainer`.

    ``eval_ece``, ``eval_gap`` and ``eval_temperature`` are in what `Trainer.evaluate` returns, in ``trainer.state.log_history``
    and in all trackers of ``report_to``, and can be ``metric_for_best_model``. `Trainer.predict` returns ``test_ece`` and so on
    if there are labels. Logits are summed in a `Sketch` and not kept, and sums of all processes are added.

    Parameters
    ----------
    trainer : transformers.Trainer
        Callbacks do not know their trainer, whose ``log`` reports the values.
    method : str or Calibrator
        How T is chosen, as for `nishimori.torch.calibrate`: "adaptive", "ec", "ts", or another method for which sums are
        enough. Where no temperature fits, as early in training, T is left out.
    ignore_index, shift_labels, class_axis
        As for `nishimori.torch.collect`: which labels do not count, whether the label of each position is found at the next
        one, as for causal language models, and which dimension of the logits is that of the classes.

    Attributes
    ----------
    sketch : Sketch or None
        The sums of the last evaluation: ``nishimori.evaluate(callback.sketch)`` has all metrics and the reliability diagram.

    Notes
    -----
    It sees what the network is called with and what it returns. Where the labels do not reach the network, as with label
    smoothing, use `ComputeCalibration`. What cannot be measured, as logits that are NaN, is a warning.

    Examples
    --------
    >>> import torch
    >>> from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
    >>> from nishimori.integrations.transformers import CalibrationCallback
    >>> size = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    >>> model = BertForSequenceClassification(BertConfig(vocab_size=9, **size))
    >>> rows = [{"input_ids": torch.arange(4), "labels": i % 2} for i in range(6)]
    >>> arguments = TrainingArguments(use_cpu=True, report_to="none", disable_tqdm=True)
    >>> trainer = Trainer(model=model, args=arguments, eval_dataset=rows)
    >>> trainer.add_callback(CalibrationCallback(trainer))
    >>> values = trainer.evaluate()  # doctest: +ELLIPSIS
    {'eval_loss': ...
    >>> "eval_ece" in values
    True
    """

    def __init__(
        self,
        trainer: Trainer,
        *,
        method: "str | Calibrator" = "adaptive",
        ignore_index: int | None = IGNORED,
        shift_labels: bool = False,
        class_axis: int = -1,
    ) -> None:
        self.sketch: Sketch | None = None
        self._trainer = trainer
        self._sums = EvaluationSums(method, ignore_index, shift_labels=shift_labels, class_axis=class_axis)
        self._calls: dict[int, tuple[dict[str, Any], Any]] = {}  # those of the replicas of DataParallel in the same step
        self._loader: Any = None
        self._is_unlabelled = False
        self._watch(trainer.model)

    def _watch(self, model: Any) -> None:
        """See the calls of a network."""
        self._model = model
        self._hook = model.register_forward_hook(self._keep_call, with_kwargs=True)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _keep_call(self, module: nn.Module, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        """Keep the arguments and the output of a call until it is known whether it was a step of an evaluation."""
        if module.training:
            self._calls.clear()
        else:
            self._calls[id(module)] = (kwargs, output)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Follow a Trainer that makes a new network for each training, as with ``model_init``."""
        if self._trainer.model is not self._model:
            self._hook.remove()
            self._watch(self._trainer.model)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add the batch that the network has just seen."""
        if kwargs.get("eval_dataloader") is not self._loader:  # an evaluation was interrupted before this one
            self._loader = kwargs.get("eval_dataloader")
            self._sums.reset()
            self._is_unlabelled = False
        names = self._trainer.label_names
        name = names[0] if len(names) == 1 else LABELS
        calls, self._calls = self._calls, {}
        for arguments, output in calls.values():
            labels = arguments.get(name)
            if labels is None:
                self._is_unlabelled = True
                continue
            try:
                logits = logits_of(output, _INSTEAD)
            except InputError as error:
                self._sums.fail(error)
                continue
            n_own = _rows_that_count(len(logits))
            self._sums.add(logits[:n_own], labels[:n_own], {**_cut(arguments, len(logits), n_own), name: labels[:n_own]})

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add the values to the metrics, and log them."""
        if self._is_unlabelled:
            must, got = "reach the network, as an argument of its call", "a batch without, as with label smoothing"
            self._sums.fail(InputError("labels", must, got=got, remedy=_INSTEAD))
        values = self._finish(kwargs["metrics"])
        if values:
            self._trainer.log(values)

    def on_predict(self, args: Any, state: Any, control: Any, metrics: dict[str, float], **kwargs: Any) -> None:
        """Add the values to the metrics, if there were labels."""
        self._finish(metrics)

    def _finish(self, metrics: dict[str, float]) -> dict[str, float]:
        """Add the values of this evaluation to its metrics, with the same prefix."""
        self.sketch, values = self._sums.close()
        prefix = min((key for key in metrics if key.endswith("_runtime")), key=len, default="eval_runtime")
        named = {f"{prefix.removesuffix('runtime')}{name}": value for name, value in values.items()}
        metrics.update(named)
        return named


class ComputeCalibration:
    """ECE, gap and T as ``compute_metrics`` of a `Trainer`.

    With ``batch_eval_metrics=True`` among the `TrainingArguments`, batches are added to a `Sketch` as they come. Without it,
    `Trainer` keeps all logits first.

    Parameters
    ----------
    method, ignore_index, shift_labels, class_axis
        As for `CalibrationCallback`.

    Attributes
    ----------
    sketch : Sketch or None
        The sums of the last evaluation.

    Examples
    --------
    >>> import numpy as np
    >>> from transformers import EvalPrediction
    >>> from nishimori.integrations.transformers import ComputeCalibration
    >>> rng = np.random.default_rng(0)
    >>> logits = 3 * rng.normal(size=(2000, 5))
    >>> labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)  # drawn at T = 2
    >>> values = ComputeCalibration()(EvalPrediction(logits, labels))  # as `Trainer(compute_metrics=...)` does
    >>> print({name: round(value, 2) for name, value in values.items()})
    {'ece': 0.18, 'gap': 0.18, 'temperature': 1.98}
    """

    def __init__(
        self,
        *,
        method: "str | Calibrator" = "adaptive",
        ignore_index: int | None = IGNORED,
        shift_labels: bool = False,
        class_axis: int = -1,
    ) -> None:
        self.sketch: Sketch | None = None
        self._sums = EvaluationSums(method, ignore_index, shift_labels=shift_labels, class_axis=class_axis)

    def __call__(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        """Add what was predicted, and return the values after the last batch; `Trainer` adds the prefix."""
        logits = prediction.predictions
        if isinstance(logits, tuple):  # before what else the network returns
            logits = logits[0]
        self._sums.add(torch.as_tensor(logits), torch.as_tensor(prediction.label_ids))
        if not compute_result:
            return {}
        self.sketch, values = self._sums.close(across_ranks=False)  # of which each has all rows
        return values


def _rows_that_count(n_rows: int) -> int:
    """How many of the rows of this rank are not repeated: the last batches of all ranks are filled up to the same size."""
    last = GradientState()
    if not last.end_of_dataloader or last.remainder <= 0:
        return n_rows
    return min(max(last.remainder - PartialState().process_index * n_rows, 0), n_rows)


def _cut(arguments: dict[str, Any], n_rows: int, n_own: int) -> dict[str, Any]:
    """The first rows of the tensors among the arguments."""
    return {
        name: value[:n_own]
        for name, value in arguments.items()
        if isinstance(value, Tensor) and value.ndim and len(value) == n_rows
    }
