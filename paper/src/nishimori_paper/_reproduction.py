"""The paper's tables and figures by name: to list, to run, and to compare with what the paper prints."""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from nishimori._support.optional import require
from nishimori._support.progress import show_progress
from nishimori.errors import InputError, setting
from nishimori_paper import _runs
from nishimori_paper._artefact import Artefact, Finding, Scale
from nishimori_paper._runs import Outcome
from nishimori_paper.artefacts import ARTEFACTS


def names() -> Sequence[str]:
    """The names of the artefacts, in the paper's order."""
    return list(ARTEFACTS)


def artefact(name: str) -> Artefact:
    """The artefact with that name."""
    if name not in ARTEFACTS:
        raise InputError(f"There is no artefact {name!r} of the paper; there are {', '.join(ARTEFACTS)}.")
    return ARTEFACTS[name]


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
    progress: bool | None = None,
) -> Outcome:
    """Compute an artefact and write its picture (PNG, SVG), its tables (CSV) and all results (JSON) to ``folder``.

    An interrupted run continues when it is repeated with the same arguments. A finished run is not repeated.

    Parameters
    ----------
    name : str
        One of `names`.
    folder : path
        Where to write; it is created if needed.
    quick : bool
        Do less of the slow work, for a first look.
    seed : int
        Random seed.
    overwrite : bool
        Start over and replace existing files. Trained networks are kept.
    train : bool
        Train the networks that the artefact needs, into ``networks`` in the folder, instead of using the bundled logits.
    data : path, optional
        A folder with the images to train on; without it, the public originals are downloaded.
    device : str, optional
        The PyTorch device to train on; by default the GPU if there is one. On a CPU a network takes hours to days.
    progress : bool, optional
        None shows a bar on a terminal, True also writes a line per step elsewhere, False shows nothing.
    """
    chosen = artefact(name)
    if data is not None and not train:
        raise InputError(
            f"{setting('data')} is only for training. Pass {setting('train', True)} to train, or leave "
            f"out {setting('data')} to use the bundled logits."
        )
    networks = Path(folder) / "networks" if train and chosen.networks() else None
    with show_progress(progress) as report:
        if networks is not None:
            require("torch", extra="train", for_="Training networks", distribution="nishimori-paper")
            training = import_module("nishimori_paper.training._train")
            training.train_missing(chosen.networks(), networks, data=data, seed=seed, device=device, report=report)
        scale = Scale(quick, seed, None if networks is None else str(networks))
        return _runs.run(chosen, folder, scale=scale, overwrite=overwrite, report=report)


def check(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    quick: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Sequence[Finding]:
    """Compare an artefact with the numbers that the paper prints; for ``statements``, judge its statements.

    Parameters
    ----------
    name : str
        One of `names`.
    folder : path, optional
        Where `run` wrote its results. Without it, the artefact is computed now.
    quick, seed
        As for `run`; only used without ``folder``.
    progress : bool, optional
        As for `run`; `bayes` takes minutes.

    Returns
    -------
    sequence of Finding
        One per number or, for ``statements``, one per statement, with the `JudgedStatement` as its attribute ``statement``.

    Examples
    --------
    >>> import nishimori_paper as paper
    >>> for finding in paper.check("figure-density"):
    ...     print(f"{finding.what}: {finding.ours:.2f}, paper {finding.paper}, {finding.verdict}")
    T_TS: 1.24, paper 1.24, agrees
    T_EC: 1.35, paper 1.35, agrees
    ECE uncalibrated, %: 4.36, paper 2.1, explained
    ECE after TS, %: 2.40, paper 1.2, explained
    ECE after EC, %: 2.02, paper 1.0, explained
    """
    chosen = artefact(name)
    with show_progress(progress) as report:
        return _runs.check(chosen, folder, scale=Scale(quick, seed), report=report)
