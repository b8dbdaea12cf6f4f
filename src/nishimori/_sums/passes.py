"""A pass looks at one batch of rows and returns sums; sums of two batches add.

Any callable from a `Batch` to something that adds is a pass. `together` makes one pass of several, so that the data are read
once for all of them, in any order. A pass with parameters is a function of these and the batch, to which `functools.partial`
gives them, or a frozen dataclass; closures could not be sent to other processes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from nishimori._kernels.sums import BlockSums
from nishimori._rows.batch import Batch
from nishimori._rows.rows import Sum, combined_by
from nishimori._sums.predictions import Predictions

Pass = Callable[[Batch], Any]
S = TypeVar("S")


@dataclass(frozen=True)
class Mean(Sum):
    """A weighted sum and the weight behind it; ``+`` pools two samples."""

    total: float
    weight: float

    @property
    def value(self) -> float:
        return self.total / self.weight


def add_each(mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sums of two tuples, item by item."""
    return tuple(one + other for one, other in zip(mine, theirs, strict=True))


@dataclass(frozen=True)
class Sums(Sum):
    """Several sums of the same rows; adds item by item."""

    items: tuple[Any, ...] = field(metadata=combined_by(add_each))


Findings = BlockSums | Predictions
"""The source of which answers in a batch are right: a kernel's sums, or the view of a pass."""


class KernelPass(ABC, Generic[S]):
    """A pass that uses a kernel, and also returns the kernel's counts."""

    @abstractmethod
    def with_findings(self, batch: Batch) -> tuple[S, Findings]:
        """The sums of the batch, and the kernel's counts."""

    def __call__(self, batch: Batch) -> S:
        return self.with_findings(batch)[0]

    def reads_unchecked(self, batch: Batch) -> bool:  # noqa: ARG002 - for those that can
        """Whether the kernel reads all rows of the batch in one call, and notices what a check would refuse."""
        return False

    def of_unchecked(self, batch: Batch) -> S | None:
        """The sums of unchecked rows; None if they must be checked. Called only if `reads_unchecked` is true."""
        sums, findings = self.with_findings(batch)
        return sums if is_usual(findings) else None


def is_usual(findings: Findings) -> bool:
    """Whether the kernel counted valid rows only: no number that must be masked or refused."""
    counted = findings.counted if isinstance(findings, BlockSums) else None
    return counted is not None and counted.n_rows > 0 and not counted.n_bad


@dataclass(frozen=True)
class Together:
    """A pass that does the work of several; a kernel's results for one serve the others.

    Such a pass, as `census.Count`, asks no kernel and has a method `from_findings`; ``follows`` says whether that is enough
    also where rows were not checked.
    """

    passes: tuple[Pass, ...]

    def __call__(self, batch: Batch) -> Sums:
        return self._with_findings(batch)[0]

    def reads_unchecked(self, batch: Batch) -> bool:
        """Whether all passes accept unchecked rows, and at least one of them reads these."""
        if not (self._kernel_passes and all(pass_.reads_unchecked(batch) for pass_ in self._kernel_passes.values())):
            return False
        others = (pass_ for i, pass_ in enumerate(self.passes) if i not in self._kernel_passes)
        return all(getattr(pass_, "follows", False) for pass_ in others)

    @cached_property
    def _kernel_passes(self) -> dict[int, KernelPass[Any]]:
        """The passes that use a kernel, by their place."""
        return {i: pass_ for i, pass_ in enumerate(self.passes) if isinstance(pass_, KernelPass)}

    def of_unchecked(self, batch: Batch) -> Sums | None:
        """The sums of unchecked rows; None if they must be checked."""
        sums, findings = self._with_findings(batch)
        return sums if all(map(is_usual, findings)) else None

    def _with_findings(self, batch: Batch) -> tuple[Sums, list[Findings]]:
        # Those that ask a kernel come first, whatever their place.
        results = {i: pass_.with_findings(batch) for i, pass_ in self._kernel_passes.items()}
        findings = [finding for _, finding in results.values()]

        def sums_of(i: int, pass_: Pass) -> Any:
            if i in results:
                return results[i][0]
            follow = getattr(pass_, "from_findings", None)
            return follow(batch, findings[0]) if findings and follow is not None else pass_(batch)

        return Sums(tuple(sums_of(i, pass_) for i, pass_ in enumerate(self.passes))), findings


def together(*passes: Pass) -> Together:
    """One pass that does the work of many while the data are read once."""
    return Together(passes)
