"""`calibrate`: a network, calibrated from a validation loader by any method."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

import nishimori
from nishimori._fit.search import match
from nishimori._fit.temperatures import Temperatures, temperatures_of
from nishimori._rows.array_rows import Guard, clusters_of
from nishimori._rows.labels import Labelling
from nishimori._support.numbers import between
from nishimori.errors import InputError, NotConvergedError
from nishimori.torch._batches import IGNORED, LABELS, Forward, Rule
from nishimori.torch._calibrated import Calibrated
from nishimori.torch._loader import AS_LOGITS, INSTEAD, NO_SOFTMAX, FitData, LoaderRows, observables_of, read_to_fit
from nishimori.torch._members import averaged, members_of
from nishimori.torch._ranks import Exchange, first_image, joint, warn_of_unused_ranks
from nishimori.torch._run import Pick

if TYPE_CHECKING:
    from nishimori import Calibrator


def calibrate(
    model: nn.Module | Sequence[nn.Module],
    loader: Iterable[Any] | tuple[Any, ...],
    *,
    forward: Forward | None = None,
    output: Pick = None,
    method: "str | Calibrator" = "adaptive",
    samples: int | None = None,
    labels: str = LABELS,
    clusters: str | Literal[False] | None = None,
    sample_weight: str | None = None,
    ignore_index: int | None = IGNORED,
    shift_labels: bool = False,
    class_axis: int = -1,
    groups_by_position: bool = False,
    keep_up_to: float | None = None,
    reread: bool = False,
    keep_probe: bool = True,
    device: torch.device | str | None = None,
    progress: bool | None = None,
    across_ranks: "bool | dist.ProcessGroup" = False,
) -> Calibrated:
    """The network, wrapped so that its logits are calibrated: divided by a temperature found on a validation loader, or more.

    The loader is read once. Weights and modes of the network stay the same. If ``model`` is a `Calibrated`, its network is
    calibrated again: the result has a new map, which comes on top of what is folded into the weights. A list of networks is an
    `Ensemble`: the log of their mean softmax is calibrated.

    Parameters
    ----------
    model, loader, forward, output, labels, clusters, sample_weight, ignore_index, shift_labels, class_axis, device, progress
        As for `collect`. A ``model`` that is a `Calibrated` knows its ``class_axis``. The network must not have been trained on
        these samples. For a temperature per group, ``forward`` returns groups too. Standard errors take clusters as
        independent, such as documents, and not samples, such as tokens; with ``class_axis`` they take images so, unless
        ``clusters=False``.
    method : str or Calibrator
        "adaptive": between the next two, and closer to "ec" the more samples there are (`AdaptiveConsistency`). "ec":
        expectation consistency (mean confidence equals accuracy). "ts": temperature scaling (lowest cross-entropy). "none":
        T = 1. Or another name that `nishimori.calibrator` takes, such as "group", "bias" or "vector". Or a calibrator, to give
        it parameters: ``method=nishimori.ExpectationConsistency(top_n=5)``. It is copied before it is fitted.
    samples : int, optional
        How many dropout masks are averaged: the network becomes an `MCDropout`, which predicts in the same way.
    groups_by_position : bool
        A temperature for each position of a sequence, or each pixel of an image, with ``method="group"``: the position is the
        group, as in `collect`. The `Calibrated` then knows the groups by itself. Positions without labels, such as the last one
        with ``shift_labels``, have the common temperature.
    keep_up_to : float, optional
        How many bytes of logits are kept, on the CPU. Beyond that, all rows are added to a `Sketch` and forgotten: T is that of
        all rows up to 1e-6 of its value. By default 100 MB; and 1 GB with clusters or for methods that need rows, such as
        "vector", which are refused beyond. ``inf`` keeps all.
    reread : bool
        Whether the network runs on all batches again for each pass, and once more if there are groups or clusters, instead
        of using a sketch. All passes must give the same data: a loader that augments, or dropout, is an error.
    keep_probe : bool
        Whether to keep up to four samples of the first batch, of at most 16 MB, on the CPU: `fold` and `save_pretrained` check
        with them that the network then gives the calibrated logits. They are in no file, pickle or state dict.
    across_ranks : bool or torch.distributed.ProcessGroup
        True: use the samples of all ranks of a distributed job, each with its own copy of the network and its own loader, and
        return the same T on all of them. All ranks must call this function. A process group: only its ranks. False: use the
        samples of this rank alone; where there are several ranks, a warning on rank 0 says so.

    Returns
    -------
    Calibrated
        With the network as ``model``, its ``map`` and ``temperature``, the fitted ``calibrator``, and both temperatures and the
        accuracy in ``temperatures``. If no temperature fits, a `NoTemperatureError` says why.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from nishimori.torch import calibrate
    >>> rng = np.random.default_rng(0)
    >>> x = 3 * rng.normal(size=(2000, 5))
    >>> y = (x / 2 + rng.gumbel(size=x.shape)).argmax(axis=1)  # drawn at T = 2
    >>> print(calibrate(torch.nn.Identity(), (torch.tensor(x), torch.tensor(y))).extra_repr())
    temperature=1.979, method='adaptive'
    """
    network = model.model if isinstance(model, Calibrated) else model
    pick = model._pick if output is None and isinstance(model, Calibrated) else output
    axis = model.class_axis if class_axis == -1 and isinstance(model, Calibrated) else class_axis
    network, pick = averaged(network, samples, pick, axis)

    def check_arguments() -> "tuple[Calibrator, Rule]":
        chosen, labelling = new_calibrator(method, groups_by_position=groups_by_position), Labelling(ignore_index, shift_labels)
        if keep_up_to is not None:
            between("keep_up_to", keep_up_to, 0, inf)
        fitted = getattr(chosen, "calibrator", chosen)  # the one that it finishes, if it is such a one
        needs_groups = getattr(fitted, "by", None) == "groups"
        if groups_by_position and not needs_groups:
            remedy = "Pass `method='group'`."
            raise InputError("method", "have groups where `groups_by_position=True`", got=repr(method), remedy=remedy)
        returns_groups, by_position = needs_groups and not groups_by_position, groups_by_position
        return chosen, Rule(labels, forward, returns_groups, clusters, labelling, axis, pick, sample_weight, by_position)

    opened: list[LoaderRows] = []

    def read(guard: Guard) -> FitData:
        options: dict[str, Any] = {"guard": guard, "progress": progress, "warns_of_dropout": True, "keeps_probe": keep_probe}
        data = LoaderRows(network, loader, rule, device, **options)
        opened.append(data)
        return read_to_fit(data, chosen, keep_up_to, reread=reread, progress=progress)

    members = members_of(network)
    ranks = None if across_ranks is False else Exchange(None if across_ranks is True else across_ranks)
    if ranks is None:
        warn_of_unused_ranks()
    # What is wrong with the arguments on one rank, all ranks say.
    chosen, rule = check_arguments() if ranks is None else ranks.own_value(check_arguments)
    guard: Guard = "refuse" if chosen.input is None else None  # for outputs that look like probabilities
    if ranks is None:
        data = read(guard)
        if data.sketch is None and data.clusters is not None:
            data.rows.clusters = clusters_of(data.clusters, np.ones(len(data.clusters)), are_images=opened[0].has_images)
    else:
        rule = rule._replace(first_image=first_image(ranks.rank))
        _refuse_other_calls(ranks, f"{chosen!r}, reread={reread}{f', {members.size} members' if members else ''}", rule)
        data = joint(ranks, network, lambda: read(guard and "defer"), guard)
    fitted, temperatures = _fit(chosen, data)
    fitted.members_ = members
    has_images = bool(opened) and opened[0].has_images
    if ranks is not None and rule.class_axis != -1:  # otherwise no rank has any
        has_images = any(list(ranks.values(lambda: has_images)))
    if temperatures.n_clusters is not None and has_images:
        temperatures = replace(temperatures, cluster_name="image")  # also of a sketch, which does not know it
    options: dict[str, Any] = {"class_axis": rule.class_axis, "output": pick, "groups_by_position": groups_by_position}
    calibrated = Calibrated(network, fitted, **options)
    calibrated.temperatures = temperatures
    calibrated.sketch = data.sketch
    calibrated._probe = opened[0].probe if opened else None
    return calibrated


def _refuse_other_calls(ranks: Exchange, chosen: str, rule: Rule) -> None:
    """Refuse another method, or other labels to ignore, on another rank: EC and TS, say, need the same sums."""
    label = rule.labelling
    own = f"{chosen}, ignore_index={label.ignore_index}, shift_labels={label.shift_labels}, class_axis={rule.class_axis}"
    calls = list(ranks.values(lambda: own))
    other = next((rank for rank, call in enumerate(calls) if call != calls[0]), None)
    if other is not None:
        raise InputError(
            "All ranks", "call `calibrate` with the same arguments", got=f"{calls[0]} on rank 0; {calls[other]} on rank {other}"
        )


def new_calibrator(method: "str | Calibrator", *, groups_by_position: bool = False) -> "Calibrator":
    """A calibrator of the user's own, copied, so that theirs stays as it was; or one by the name of its method."""
    # They import scikit-learn, which serving a network does not need.
    from sklearn.base import clone  # noqa: PLC0415

    from nishimori._calibrators.calibrator import Calibrator  # noqa: PLC0415
    from nishimori._methods.fitted_method import check_constructor  # noqa: PLC0415

    if not isinstance(method, Calibrator):
        named = groups_by_position and method == "group"
        return nishimori.calibrator(method, **({"by": "groups"} if named else {}))
    check_constructor(method)
    if method.input not in (None, "logits"):
        raise InputError(
            "method",
            "take logits, as the network returns them",
            got=f"an object of type {type(method).__name__} with `input={method.input!r}`",
            remedy="Leave `input` out.",
        )
    copied: Calibrator = clone(method)
    return copied


def _fit(chosen: "Calibrator", data: FitData) -> "tuple[Calibrator, Temperatures]":
    """``chosen``, fitted, and the temperatures of EC and TS; where a sketch is not enough, the error says what to do."""
    sketch = data.sketch
    if sketch is None:
        return _fit_to(data.rows, chosen)
    sketch.check_range(remedy=NO_SOFTMAX, logits_setting=AS_LOGITS)
    try:
        return _fit_to(sketch, chosen)
    except (InputError, NotConvergedError) as error:
        if sketch.n_clusters == 1:  # which is refused in every other way too
            raise
        if isinstance(error, InputError):
            raise error.changed(remedy=f"{error.remedy} {INSTEAD}".strip()) from None
        raise NotConvergedError(f"{error} {INSTEAD}") from None


def _fit_to(data: Any, chosen: "Calibrator") -> "tuple[Calibrator, Temperatures]":
    """``chosen``, fitted, and the temperatures of EC and TS, which share its passes where they can."""
    from nishimori._calibrators.one_temperature import OneTemperature  # noqa: PLC0415
    from nishimori._fit.adaptive import match_both  # noqa: PLC0415
    from nishimori._methods.fitted_method import fit_checked  # noqa: PLC0415
    from nishimori._methods.one_temperature import Adaptive, solution_of  # noqa: PLC0415

    if not isinstance(chosen, OneTemperature) or chosen.smooth_labels:
        return fit_checked(chosen, data), temperatures_of(data, warn=False)
    observable = chosen._observable(data.n_classes)
    if observable is None:
        matched = match_both(data)
        return chosen._adopt(data, data, Adaptive().choose(matched)), Temperatures.from_match(matched, data)
    wanted = observables_of(chosen, data.n_classes)
    matched = match(data, *wanted)
    return chosen._adopt(data, data, solution_of(matched, wanted.index(observable))), Temperatures.from_match(matched, data)
