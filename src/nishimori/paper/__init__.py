"""The paper, artefact by artefact: arXiv:2303.02644, computed anew and compared with what it prints.

`train`, `logits` and `models` need PyTorch and are imported when they are first used; the artefacts run from bundled logits.

>>> from nishimori import paper
>>> "figure-temperatures" in paper.names()
True
"""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nishimori._optional import require
from nishimori._progress import Report, silent
from nishimori.errors import InputError
from nishimori.paper._artefact import Artefact, Finding, Scale
from nishimori.paper._runs import Outcome
from nishimori.paper._runs import check as _check
from nishimori.paper._runs import run as _run
from nishimori.paper.artefacts._bayes import Bayes
from nishimori.paper.artefacts._claims import Claims
from nishimori.paper.artefacts._figure_curves import FigureCurves
from nishimori.paper.artefacts._figure_density import FigureDensity
from nishimori.paper.artefacts._figure_ece import FigureEce
from nishimori.paper.artefacts._figure_reliability import FigureReliability
from nishimori.paper.artefacts._figure_temperatures import FigureTemperatures
from nishimori.paper.artefacts._figure_train_size import FigureTrainSize
from nishimori.paper.artefacts._table_corrupted import TableCorrupted
from nishimori.paper.artefacts._table_real import TableReal

if TYPE_CHECKING:
    from nishimori.paper import models as models
    from nishimori.paper.training._train import logits as logits
    from nishimori.paper.training._train import train as train

__all__ = ["Artefact", "Finding", "Outcome", "Scale", "artefact", "check", "logits", "models", "names", "run", "train"]

_LAZY = {"models": "models", "logits": "training._train", "train": "training._train"}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'nishimori.paper' has no attribute {name!r}")
    require("torch", extra="train", for_=f"nishimori.paper.{name}")
    module = import_module(f"nishimori.paper.{_LAZY[name]}")
    return module if name == _LAZY[name] else getattr(module, name)


_ARTEFACTS: dict[str, Artefact] = {
    each.name: each
    for each in (
        *(TableReal(), FigureCurves(), FigureTrainSize(), TableCorrupted(), FigureReliability()),
        *(FigureTemperatures(), FigureEce(), FigureDensity(), Bayes(), Claims()),
    )
}


def names() -> Sequence[str]:
    """The artefacts there are, in the paper's order."""
    return list(_ARTEFACTS)


def artefact(name: str) -> Artefact:
    """The artefact of that name."""
    if name not in _ARTEFACTS:
        raise InputError(f"There is no artefact {name!r} of the paper; there are {', '.join(_ARTEFACTS)}.")
    return _ARTEFACTS[name]


def run(
    name: str,
    folder: str | os.PathLike[str],
    *,
    quick: bool = False,
    seed: int = 0,
    overwrite: bool = False,
    train: bool = False,
    data: str | os.PathLike[str] | None = None,
    device: str | None = None,
    report: Report = silent,
) -> Outcome:
    """Compute an artefact and write its picture (PNG, SVG), its tables (CSV) and everything (JSON) to ``folder``.

    A run that was interrupted is taken up where it stopped, if it is repeated with the same arguments; a finished one stays.

    Parameters
    ----------
    name : str
        One of `names`.
    folder : path
        Where to write; made if need be.
    quick : bool
        A first look with less of what takes long.
    seed : int
        Of everything random.
    overwrite : bool
        Start over and replace what is there; networks that were trained stay.
    train : bool
        Train the networks that the artefact needs, into ``networks`` in the folder, instead of taking the bundled logits.
    data : path, optional
        A folder with the images to train on; without it, the public originals are downloaded.
    device : str, optional
        A PyTorch device to train on; the GPU by default, if there is one. On a CPU a network takes hours to days.
    report : callable
        Told the name of each piece of work, how many are done, and how many there are.
    """
    chosen = artefact(name)
    if data is not None and not train:
        raise InputError("`data` (--data) names images to train on. Add --train, or leave it out to take the bundled logits.")
    if not train or not chosen.networks():
        return _run(chosen, folder, scale=Scale(quick, seed), overwrite=overwrite, report=report)
    require("torch", extra="train", for_="Training networks")
    networks = Path(folder) / "networks"
    import_module("nishimori.paper.training._train").train_missing(
        chosen.networks(), networks, data=data, seed=seed, device=device, report=report
    )
    return _run(chosen, folder, scale=Scale(quick, seed, str(networks)), overwrite=overwrite, report=report)


def check(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    quick: bool = False,
    seed: int = 0,
    report: Report = silent,
) -> Sequence[Finding]:
    """Compare an artefact with what the paper prints: what a finished run left in ``folder``, or else computed now.

    Parameters
    ----------
    name : str
        One of `names`.
    folder : path, optional
        Where `run` wrote to; its settings count then.
    quick, seed
        As for `run`, where there is no folder.
    report : callable
        As for `run`; `bayes` takes minutes.

    Examples
    --------
    >>> from nishimori import paper
    >>> for finding in paper.check("figure-density"):
    ...     print(f"{finding.what}: {finding.ours:.2f}, paper {finding.paper}, {finding.verdict}")
    T_TS: 1.24, paper 1.24, agrees
    T_EC: 1.35, paper 1.35, agrees
    ECE uncalibrated, %: 4.36, paper 2.1, explained
    ECE after TS, %: 2.40, paper 1.2, explained
    ECE after EC, %: 2.02, paper 1.0, explained
    """
    return _check(artefact(name), folder, scale=Scale(quick, seed), report=report)
