"""Repetitions of an experiment: one random stream per seed, on all cores, summarised by means with standard errors."""

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from nishimori._support.numbers import whole
from nishimori._support.progress import show_progress
from nishimori_paper.theory._quadrature import Array


class Estimate(NamedTuple):
    """A mean over ``n`` seeds and its standard error; ``missing`` more seeds have no value."""

    mean: float
    standard_error: float
    n: int
    missing: int

    @classmethod
    def from_values(cls, values: Array) -> "Estimate":
        """The estimate from one value per seed; NaN marks a missing value."""
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
    """The results of `simulate`, `simulate_bayes` or `simulate_em`: one value per seed for each quantity.

    ``experiments["error"]`` is the `Estimate` of the error, and iterating gives the names of the quantities.

    Attributes
    ----------
    values : mapping of str to array
        The values of each quantity, in the order of the seeds. NaN marks a temperature that does not exist, and the metrics
        that need it: for example, if all answers on the validation sample are right, or no more of them than by chance.
    settings : mapping
        The parameters of the simulation.

    Notes
    -----
    `simulate` returns

    - ``m``, ``q``: the overlaps w*·ŵ/d and |ŵ|²/d;
    - ``error``, ``loss``, ``confidence``, ``ece``, ``brier``, ``temperature_ts``, ``temperature_ec``: for infinitely many new
      samples, computed from the overlaps;
    - ``ece_ts``, ``brier_ts``, ``ece_ec``, ``brier_ec``: the same after division by either temperature;
    - ``val_temperature_ts``, ``val_temperature_ec``: fitted on the validation sample;
    - ``test_error``, ``test_loss``, ``test_brier``, ``test_ece``: measured on the test sample, without calibration;
    - ``test_ece_ts``, ``test_ece_ec``: the same with the temperatures of the validation sample. The ECE of a test sample has
      15 bins of equal width.

    `simulate_bayes` returns

    - ``m``, ``q``, ``v``, ``error``, ``confidence``, ``loss``, ``excess`` (confidence − accuracy): at the teacher's T*;
    - ``temperature_ts``, ``temperature_ec``: the temperature in the likelihood at which the loss for new samples is least, and
      at which mean confidence equals accuracy.

    `simulate_em` returns

    - ``temperature_em``, ``standard_error``, ``free_energy``: what `expectation_maximisation` finds on the training set;
    - ``error``, ``confidence``, ``loss``, ``excess``: for new samples, at this temperature;
    - ``temperature_ec``: the temperature at which mean confidence equals accuracy for new samples. A validation set is needed
      to find it.
    """

    values: Mapping[str, Array]
    settings: Mapping[str, Any]

    def __getitem__(self, name: str) -> Estimate:
        if name not in self.values:
            raise KeyError(f"No quantity is called {name!r}. Choose from {', '.join(self.values)}.")
        return Estimate.from_values(self.values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    @property
    def missing(self) -> dict[str, int]:
        """Number of seeds without a value, for each quantity that lacks any."""
        return {name: self[name].missing for name in self.values if self[name].missing}

    def __str__(self) -> str:
        lines = [", ".join(f"{name} = {value}" for name, value in self.settings.items())]
        for name in self.values:
            mean = self[name]
            lost = f"  ({mean.missing} of {mean.n + mean.missing} seeds have none)" if mean.missing else ""
            lines.append(f"{name:>16}  {mean.mean:.6g} ± {mean.standard_error:.2g}{lost}")
        return "\n".join(lines)


def repeat(
    experiment: Callable[[np.random.Generator], dict[str, float]],
    settings: Mapping[str, Any],
    *,
    seeds: int,
    seed: int,
    n_jobs: int | None,
    progress: bool | None,
) -> Experiments:
    """Run ``experiment`` once per seed, each with its own random stream; the results do not depend on ``n_jobs``."""
    seeds, seed = whole("seeds", seeds, 1), whole("seed", seed, 0)
    n_jobs = None if n_jobs is None else whole("n_jobs", n_jobs, 1)
    streams = [np.random.default_rng(sequence) for sequence in np.random.SeedSequence(seed).spawn(seeds)]
    # Threads are enough: the work is linear algebra, which releases the interpreter lock. Each thread may use one core only,
    # or they would slow each other down.
    with show_progress(progress) as report, threadpool_limits(1), ThreadPoolExecutor(n_jobs or os.cpu_count()) as pool:
        jobs = {pool.submit(experiment, stream): i for i, stream in enumerate(streams)}
        results: list[dict[str, float]] = [{}] * seeds
        report("simulating", 0, seeds)
        try:
            for n_done, job in enumerate(as_completed(jobs), start=1):
                results[jobs[job]] = job.result()
                report(f"simulated seed {jobs[job] + 1}", n_done, seeds)
        except BaseException:
            pool.shutdown(cancel_futures=True)  # after an interrupt or an error no other seed is started
            raise
    return Experiments({name: np.array([result[name] for result in results]) for name in results[0]}, dict(settings))
