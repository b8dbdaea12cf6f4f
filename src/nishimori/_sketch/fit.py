"""The functions of `_fit` for a sketch: they use its sums and read nothing."""

from collections.abc import Sequence

from nishimori._fit.adaptive import match_both
from nishimori._fit.floors import choose_floor
from nishimori._fit.match import Match
from nishimori._fit.roots import Root
from nishimori._fit.search import find_roots, find_temperature, refusal, rounding_decides
from nishimori._fit.temperatures import temperatures_of
from nishimori._rows.labels import check_number_of_clusters
from nishimori._sketch.interpolation import gaps_of, moments_of, root_of
from nishimori._sketch.sketch import Sketch
from nishimori._sums.observables import Confidence, Energy, Observable, TopN
from nishimori.errors import InputError, NishimoriError


@find_roots.register(Sketch)
def _(
    data: Sketch,
    *observables: Observable,
    right: TopN | None = None,
    starts: Sequence[float] | None = None,  # noqa: ARG001 - nothing is searched
    label_name: str = "labels",
) -> Match:
    """The match of observables in a sketch, from its sums."""
    if right is not None and right.n > 1:
        raise InputError("top_n", "be 1 for a sketch, which counts right answers of the top class", got=right.n)
    outcomes: list[Root | NishimoriError] = []
    for observable in observables:
        try:
            moments = moments_of(data, observable)
            outcomes.append(refusal(moments, data.census, label_name) or root_of(data, observable))
        except InputError as error:
            outcomes.append(error.with_traceback(None))
    roots = [(observable, root) for observable, root in zip(observables, outcomes, strict=True) if isinstance(root, Root)]
    gaps = None
    if roots and data.n_clusters != 1:  # there is no spread between clusters if there is one
        if data.n_clusters is not None:
            check_number_of_clusters(data.n_clusters)
        gaps = gaps_of(data, roots)
    return Match(observables, tuple(outcomes), data.census, 1, gaps)


find_temperature.register(Sketch)(find_temperature.of_rows)
temperatures_of.register(Sketch)(temperatures_of.of_rows)


@rounding_decides.register(Sketch)
def _(data: Sketch, temperature: float) -> bool:  # noqa: ARG001 - a sketch has no temperatures that low
    """Return False: the grid of a sketch ends before rounding could decide."""
    return False


@match_both.register(Sketch)
def _(data: Sketch, *, label_name: str = "labels") -> Match:
    """The match of EC and TS; its sums are already at both temperatures."""
    return find_roots(data, Confidence(), Energy(), label_name=label_name)


@choose_floor.register(Sketch)
def _(data: Sketch, name: str = "logits") -> None:
    """Choose no floor: a sketch was made for one."""
