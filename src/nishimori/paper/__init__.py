"""The paper, artefact by artefact: arXiv:2303.02644, computed anew and compared with what it prints.

>>> from nishimori import paper
>>> "figure-temperatures" in paper.names()
True
"""

import os
from collections.abc import Sequence

from nishimori.errors import InputError
from nishimori.paper._artefact import Artefact, Finding, Scale
from nishimori.paper._bayes import Bayes
from nishimori.paper._claims import Claims
from nishimori.paper._figure_density import FigureDensity
from nishimori.paper._figure_ece import FigureEce
from nishimori.paper._figure_temperatures import FigureTemperatures
from nishimori.paper._runs import Outcome, Report, silent
from nishimori.paper._runs import check as _check
from nishimori.paper._runs import run as _run

__all__ = ["Artefact", "Finding", "Outcome", "Scale", "artefact", "check", "names", "run"]

_ARTEFACTS: dict[str, Artefact] = {
    each.name: each for each in (FigureTemperatures(), FigureEce(), FigureDensity(), Bayes(), Claims())
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
        Start over and replace what is there.
    report : callable
        Told the name of each piece of work, how many are done, and how many there are.
    """
    return _run(artefact(name), folder, scale=Scale(quick, seed), overwrite=overwrite, report=report)


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
