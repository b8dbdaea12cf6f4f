"""A pass looks at one batch of rows and returns sums; sums of two batches add.

Any callable from a `Batch` to something that adds is a pass. `together` makes one pass of several, so that the data are read
once for all of them. Passes are frozen dataclasses rather than closures, so that they can be sent to other processes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nishimori._kernels.kernel import Kernel
from nishimori._rows.batch import Batch
from nishimori._rows.rows import is_fused

Pass = Callable[[Batch], Any]


@dataclass(frozen=True)
class Mean:
    """A weighted sum and the weight behind it; ``+`` pools two samples."""

    total: float
    weight: float

    def __add__(self, other: "Mean") -> "Mean":
        return Mean(self.total + other.total, self.weight + other.weight)

    @property
    def value(self) -> float:
        return self.total / self.weight


@dataclass(frozen=True)
class Sums:
    """Several sums of the same rows; adds item by item."""

    items: tuple[Any, ...]

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(tuple(mine + theirs for mine, theirs in zip(self.items, other.items, strict=True)))


@dataclass(frozen=True)
class Together:
    """The pass that does the work of several."""

    passes: tuple[Pass, ...]

    def is_fused_by(self, kernel: Kernel) -> bool:
        """Whether the first needs only one call of the kernel, and the others follow from what that gives."""
        first, *others = self.passes
        return is_fused(first, kernel) and all(getattr(each, "follows_fused", False) for each in others)

    def __call__(self, batch: Batch) -> Sums:
        return Sums(tuple(each(batch) for each in self.passes))


def together(*passes: Pass) -> Together:
    """One pass that does the work of many while the data are read once."""
    return Together(passes)
