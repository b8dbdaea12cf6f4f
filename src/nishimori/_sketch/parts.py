"""The parts of a sketch, so that a repeated part is noticed.

A part is what was added to a sketch until it was saved, sent, pickled or added to another one. Its id is the digest of its
sums: a copy of a file has the same one, whenever and wherever it was made. The same rows in other blocks have sums that differ
in their last digits, and so another id.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from nishimori._sketch.contents import Contents
from nishimori._support.arrays import HostArray

MOST = 100_000
"""How many ids a sketch keeps, in 1.6 MB; beyond that the oldest are dropped."""

_N_BYTES = 16

# What an id is made of. It is named here, so that files keep their ids when `Contents` gets another array.
_SUMS = ("counts", "weights", "observed", "moments", "products", "curves", "bins")


@dataclass(frozen=True)
class Parts:
    """The ids of a sketch's parts (oldest first), how many were dropped, and the sums of the unfinished part."""

    ids: tuple[bytes, ...] = ()
    n_forgotten: int = 0
    open: Contents | None = None

    @classmethod
    def from_array(cls, ids: HostArray, n_forgotten: int) -> "Parts":
        """Restore from `array` and ``n_forgotten``."""
        if ids.dtype != np.uint8 or ids.ndim != 2 or ids.shape[1] != _N_BYTES or len(ids) > MOST:
            raise ValueError("parts")
        if type(n_forgotten) is not int or n_forgotten < 0 or (n_forgotten and len(ids) < MOST):
            raise ValueError("n_forgotten")
        return cls(tuple(row.tobytes() for row in ids), n_forgotten)

    def checked(self, n_rows: int) -> "Parts":
        """These parts, if they can contain this many rows."""
        if (n_rows > 0) != (self.number > 0) or self.number > n_rows:
            raise ValueError("parts")
        return self

    @property
    def array(self) -> HostArray:
        """The ids as an array of bytes, one row per part."""
        return np.frombuffer(b"".join(self.ids), dtype=np.uint8).reshape(-1, _N_BYTES)

    @property
    def number(self) -> int:
        """How many parts there are, including parts without ids."""
        return self.n_forgotten + len(self.ids) + (self.open is not None)

    @property
    def closed(self) -> "Parts":
        """These parts with an id for the last one, which is finished; an empty part is dropped."""
        if self.open is None:
            return self
        new = (_digest(self.open),) if self.open.n_rows else ()
        return Parts(self.ids, self.n_forgotten) + Parts(new)

    @property
    def digest(self) -> str | None:
        """The ids of the parts, in any order; None if there are none, or some were dropped."""
        ids = self.closed.ids
        return None if self.n_forgotten or not ids else blake2b(b"".join(sorted(ids)), digest_size=_N_BYTES).hexdigest()

    def extended(self, sums: Contents) -> "Parts":
        """These parts with more sums in the last one."""
        return replace(self, open=sums if self.open is None else self.open + sums)

    def __add__(self, other: "Parts") -> "Parts":
        first, second = self.closed, other.closed
        ids = first.ids + second.ids
        return Parts(ids[-MOST:], first.n_forgotten + second.n_forgotten + max(0, len(ids) - MOST))


def _digest(contents: Contents) -> bytes:
    digest = blake2b(digest_size=_N_BYTES)
    for name in _SUMS:
        digest.update((getattr(contents, name) + 0.0).astype("<f8").tobytes())  # without the sign of a zero
    return digest.digest()
