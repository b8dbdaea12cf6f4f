"""What `_fit` asks, answered from top-k log-probabilities: temperatures that are known as far as their bounds are close."""

from collections.abc import Mapping

from nishimori._fit.search import TemperatureSolution, find_temperature
from nishimori._fit.temperatures import Temperatures, temperatures_of
from nishimori._sums.observables import BUILT_IN, Confidence, Energy, Observable, TopN
from nishimori._top_k.bounds import BoundedMatch
from nishimori._top_k.rows import TopKRows
from nishimori.errors import InputError


@find_temperature.register(TopKRows)
def _(
    data: TopKRows,
    observable: Observable,
    *,
    label_name: str = "labels",  # noqa: ARG001 - the rows know it
    counts: bool = False,
) -> TemperatureSolution:
    """Find the temperature of one observable; raises unless the listed classes determine it."""
    if not isinstance(observable, Confidence | TopN | Energy):
        raise InputError(
            "X",
            f"hold all logits for {type(observable).__name__}",
            got="top-k log-probabilities",
            remedy="Use the method 'ec' or 'ts'.",
        )
    matched = BoundedMatch(data, observable, counts=counts)
    (temperature,) = matched.found
    if temperature.error is not None:
        raise temperature.error
    assert temperature.value is not None
    matched.warn()
    return TemperatureSolution(temperature.value, matched.fit_info(0), temperature.bounds)


@temperatures_of.register(TopKRows)
def _(
    data: TopKRows,
    *,
    warn: bool = True,
    starts: Mapping[str, float] | None = None,  # noqa: ARG001 - bounds are searched from the even tail
    counts: bool = False,
) -> Temperatures:
    """Both temperatures with their bounds, or neither."""
    matched = BoundedMatch(data, *BUILT_IN.values(), counts=counts)
    if warn:
        matched.warn()
    ec, ts = matched.found
    return Temperatures(
        ec=ec.value,
        ts=ts.value,
        accuracy=matched.even.census.accuracy,
        n_passes=matched.n_passes,
        n_samples=matched.even.census.n_rows,
        ec_error=ec.error,
        ts_error=ts.error,
        ec_se=ec.se,
        ts_se=ts.se,
        ec_bounds=ec.bounds,
        ts_bounds=ts.bounds,
    )
