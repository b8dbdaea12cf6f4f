"""The functions of `_evaluation` for top-k log-probabilities: metrics that do not depend on unlisted classes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

from nishimori._evaluation.compared_methods import names_for
from nishimori._evaluation.metrics.metric import Estimate, Metric
from nishimori._evaluation.metrics.table import can_measure
from nishimori._evaluation.scorecard import Scorecard, scorecards
from nishimori._top_k.rows import TopKRows
from nishimori.errors import InputError
from nishimori.maps.map import Map
from nishimori.maps.temperature import Temperature

_UNLISTED = "the probabilities of unlisted classes are not known. Pass all logits."


@can_measure.register(TopKRows)
def _(data: TopKRows, metric: Metric) -> bool:  # noqa: ARG001
    """Return True: metrics that depend on unlisted classes have a reason in place of a value."""
    return True


@scorecards.register(TopKRows)
def _(data: TopKRows, maps: Sequence[Map], **how: Any) -> list[Scorecard]:
    """The scorecards of the uncalibrated model, without metrics that depend on the tail."""
    if any(map_ != Temperature(1.0) for map_ in maps):
        raise InputError(
            "`temperature` and `calibrator` must be left out for top-k log-probabilities: metrics at other temperatures depend "
            "on the classes that are not listed. `TopK.probabilities(temperature)` gives bounds on probabilities."
        )
    why = {"all": _UNLISTED}
    if data.n_unknown:
        why["label"] = (
            f"the log-probability of the true class is not known in {data.n_unknown} of {data.n_rows} samples. Pass "
            "`label_log_probabilities` to TopK."
        )
    return [
        replace(card, estimates={name: _or_why_not(estimate, why) for name, estimate in card.estimates.items()})
        for card in scorecards(data.even, maps, **how)
    ]


def _or_why_not(estimate: Estimate, why: Mapping[str, str]) -> Estimate:
    """An estimate, or the reason why it is not known; ``why`` has reasons by what metrics need."""
    reason = why.get(estimate.metric.needs)
    return estimate if reason is None else Estimate(estimate.metric, nan, None, reason)


@names_for.register(TopKRows)
def _(data: TopKRows) -> tuple[str, ...]:  # noqa: ARG001
    """Return no methods: they need all logits."""
    return ()
