"""Repeating an experiment: one random stream a seed, all cores, a progress bar, means with standard errors."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from threadpoolctl import threadpool_limits

from nishimori._numbers import whole
from nishimori.theory._quadrature import Array


class Estimate(NamedTuple):
    """A mean over seeds and its standard error, from ``n`` seeds; ``missing`` more had no such number."""

    mean: float
    standard_error: float
    n: int
    missing: int

    @classmethod
    def of(cls, values: Array) -> "Estimate":
        """From one number a seed, NaN where there is none."""
        there = values[~np.isnan(values)]
        n = len(there)
        mean = float(there.mean()) if n else nan
        error = float(there.std(ddof=1)) / sqrt(n) if n > 1 else nan
        return cls(mean, error, n, len(values) - n)

    def deviation_from(self, value: float) -> float:
        """How many standard errors the mean lies above ``value``."""
        return (self.mean - value) / self.standard_error


@dataclass(frozen=True)
class Experiments:
    """One number a seed for each quantity; ``experiments["error"]`` is its `Estimate`, and iterating gives the names.

    Attributes
    ----------
    values : mapping of str to array
        The numbers of each quantity, in the order of the seeds; NaN where a seed has none.
    settings : mapping
        What was asked for.
    """

    values: Mapping[str, Array]
    settings: Mapping[str, Any]

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.values:
            raise KeyError(f"There is no {name!r}; there are {', '.join(self.values)}.")
        return Estimate.of(self.values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    @property
    def missing(self) -> dict[str, int]:
        """How many seeds have no number, for each quantity where there are any."""
        return {name: self[name].missing for name in self.values if self[name].missing}

    def __str__(self) -> str:
        lines = [", ".join(f"{name} = {value}" for name, value in self.settings.items())]
        for name in self.values:
            found = self[name]
            lost = f"  ({found.missing} of {found.n + found.missing} seeds have none)" if found.missing else ""
            lines.append(f"{name:>16}  {found.mean:.6g} ± {found.standard_error:.2g}{lost}")
        return "\n".join(lines)


def repeat(
    experiment: Callable[[np.random.Generator], dict[str, float]],
    settings: Mapping[str, Any],
    *,
    seeds: int,
    seed: int,
    n_jobs: int | None,
    progress: bool,
) -> Experiments:
    """Run ``experiment`` with each of ``seeds`` streams that spring from one ``seed``; the answer depends on no core count."""
    seeds, seed = whole("seeds", seeds, 1), whole("seed", seed, 0)
    n_jobs = None if n_jobs is None else whole("n_jobs", n_jobs, 1)
    streams = [np.random.default_rng(each) for each in np.random.SeedSequence(seed).spawn(seeds)]
    # Threads do: the work is linear algebra, which lets go of the interpreter. One core each, lest they fight.
    with threadpool_limits(1), ThreadPoolExecutor(n_jobs or os.cpu_count()) as pool:
        jobs = {pool.submit(experiment, stream): i for i, stream in enumerate(streams)}
        results: list[dict[str, float]] = [{}] * seeds
        try:
            for done in _tracked(as_completed(jobs), seeds, progress):
                results[jobs[done]] = done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)  # after an interrupt or an error no other seed is begun
            raise
    return Experiments({name: np.array([each[name] for each in results]) for name in results[0]}, dict(settings))


def _tracked(items: Iterable[Any], total: int, progress: bool) -> Iterator[Any]:
    """A bar on a terminal's standard error that goes when it is full; elsewhere nothing."""
    console = Console(stderr=True)
    yield from track(
        items, "Simulating", total=total, console=console, transient=True, disable=not (progress and console.is_terminal)
    )
