"""Power sums of blocks of rows: the arithmetic that takes nearly all of the time, one file per way to do it.

A kernel is one function, `power_sums`: it takes logits (n, k), some β and an order, and gives Σ d^j exp(βd) over the classes
of each row, d being the distance from the row's largest logit. Everything that nishimori measures follows from these sums.
`kernel_for` chooses the kernel of a data set, and `row_sums` has what others call; nobody else knows which one runs. The
environment variable ``NISHIMORI_KERNEL`` overrules the choice by name.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import inf
from typing import Protocol

import numpy as np

from nishimori._kernels import array_api, native
from nishimori._kernels.block import BlockSums, PowerSums
from nishimori._kernels.node_sums import NodeSums
from nishimori._support import arrays
from nishimori._support.arrays import Array, HostArray
from nishimori.errors import InputError

_VARIABLE = "NISHIMORI_KERNEL"

LEAST_SINGLE = 1e-15
"""Float32 holds this β and its inverse, and what they are multiplied with, with all their digits."""

_PLAIN_TYPES = (np.dtype(np.float32), np.dtype(np.float64))

# Older ones cannot compile loops over tuples.
_OLDEST_TRITON = (3, 3)


class PowerSumsFunction(Protocol):
    """What a kernel is: power sums for finite positive ``betas``, outside the largest class."""

    def __call__(self, logits: Array, betas: Sequence[float], order: int) -> PowerSums: ...


class BlockSumsFunction(Protocol):
    """What a kernel may add: the sums of a pair of observables over a block, without a number per row; see `pair_sums`."""

    def __call__(
        self, logits: Array, labels: Array, weights: Array, beta_ec: float, beta_ts: float, *, exact: bool
    ) -> HostArray: ...


class ScoreSumsFunction(Protocol):
    """What a kernel may add: the sums of native_scores.h, those per bin, and whether something has to be checked."""

    def __call__(
        self, logits: Array, labels: Array, weights: Array, beta: float, inner: HostArray, *, counts: bool
    ) -> tuple[HostArray, HostArray, bool]: ...


class NodeSumsFunction(Protocol):
    """What a kernel may add: what a sketch keeps of rows; None if something has to be checked or masked."""

    def __call__(
        self,
        logits: Array,
        labels: Array,
        weights: Array,
        nodes: Sequence[float],
        beyond: Sequence[float],
        n_bins: int,
        bin_scale: float,
    ) -> NodeSums | None: ...


def _never(logits: Array) -> bool:  # noqa: ARG001 - as of those that can
    return False


@dataclass(frozen=True)
class Kernel:
    """A way to compute power sums, by the name that `FitInfo` gives."""

    name: str
    own: PowerSumsFunction
    fused: BlockSumsFunction | None = None
    takes_unchecked: Callable[[Array], bool] = _never
    """Whether all these sums can read all of these logits at once, and notice what a check would refuse."""
    takes_half: Callable[[Array], bool] = _never
    """Whether `power_sums` takes these logits of half precision as they are stored, computes in float64, and for every β."""
    score_sums: ScoreSumsFunction | None = None
    node_sums: NodeSumsFunction | None = None

    def power_sums(self, logits: Array, betas: Sequence[float], order: int, top_n: int = 1) -> PowerSums:
        """Σ d^j exp(βd) over the classes of each row outside the ``top_n`` largest, for j from 0 to ``order``.

        Computed in the dtype of ``logits`` (n, k), float32 or float64, which have been checked; summed in float64. A class
        with logit -inf has no weight at any β. Both ends, β = 0 and ∞, and several top classes are left to one kernel. Half
        precision is only for kernels that take it, see `takes_half`.
        """
        is_usual = all(0 < beta < inf for beta in betas) or arrays.is_half(logits)
        if top_n > 1 or not is_usual:
            sums = array_api.power_sums(logits, betas, order, top_n)
        else:
            sums = self.own(logits, betas, order)
        return sums._replace(betas=tuple(betas))

    def block_sums(
        self, logits: Array, labels: Array, weights: Array, beta_ec: float, beta_ts: float, *, exact: bool
    ) -> BlockSums | None:
        """The sums of a pair of observables over a block, or None if they have to be made from `power_sums`.

        Those that are ``exact`` give a temperature with all digits that are promised; how they do that is the kernel's own
        business. All others are for answers of which a few digits matter.
        """
        if self.fused is None or not (0 < beta_ec < inf and 0 < beta_ts < inf):
            return None
        return BlockSums.of(self.fused(logits, labels, weights, beta_ec, beta_ts, exact=exact))


@cache
def kernel_named(name: str) -> Kernel:
    """The kernel of this name. What it needs is imported when it is first used."""
    module = import_module(f"nishimori._kernels.{name}")
    optional = {"fused": "block_sums"} | {each: each for each in ("score_sums", "node_sums", "takes_unchecked", "takes_half")}
    return Kernel(name, module.power_sums, **{k: getattr(module, v) for k, v in optional.items() if hasattr(module, v)})


def kernel_for(array: Array) -> Kernel:
    """The kernel for data like ``array``."""
    able = _able(array)
    wanted = os.environ.get(_VARIABLE, "")
    if wanted and wanted not in _NAMES:
        raise InputError(
            _VARIABLE, f"be {', '.join(_NAMES[:-1])} or {_NAMES[-1]}", got=repr(wanted), remedy="Correct or unset it."
        )
    if wanted == "native" and not native.is_available():
        got = f"{wanted!r} ({native.description()})"
        raise InputError(_VARIABLE, "be a kernel that is installed", got=got, remedy="Unset it.")
    return kernel_named(wanted if wanted in able else able[0])


def computes_in_c(logits: Array) -> bool:
    """Whether the C kernel computes for these logits, and they are a table of float32 or float64."""
    if not isinstance(logits, np.ndarray) or logits.ndim != 2 or logits.dtype.newbyteorder("=") not in _PLAIN_TYPES:
        return False
    return kernel_for(logits).name == "native"


_NAMES = ("numpy", "native", "triton", "array_api")


def _able(array: Array) -> tuple[str, ...]:
    """The names of the kernels that take such an array, the fastest first."""
    if isinstance(array, np.ndarray):
        return ("native", "numpy", "array_api") if native.is_available() else ("numpy", "array_api")
    if arrays.is_on_cuda(array) and _is_installed("triton") and _triton_version() >= _OLDEST_TRITON:
        return ("triton", "array_api")
    return ("array_api",)


@cache
def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


@cache
def _triton_version() -> tuple[int, ...]:
    # Several distributions hold this package, so that their metadata would have to be searched for.
    return tuple(int(part) for part in import_module("triton").__version__.split(".")[:2])
