"""The cost model: seconds of a fit or a sketch as a function of the data, the machines and a few constants.

    computing = rows × (per row + per logit × classes) × crowding
    seconds = start + readings × (max(bytes / bandwidth, computing) / workers + tasks × latency)

Crowding is how much slower a worker is beside others on the same machine, which share its cores and memory. The start is what
the same call takes on little data; with Dask, it is mostly the messages of the search in a sample. The scheduler hands out
tasks one after the other, so their latency is not divided by the number of workers.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Seconds of one pass by one process: per row and per logit. ``passes`` is how many a fit takes."""

    per_row: float
    per_logit: float
    passes: int = 1

    def of(self, n_rows: float, n_classes: float) -> float:
        """Seconds of one pass."""
        return n_rows * (self.per_row + n_classes * self.per_logit)


@dataclass(frozen=True)
class Job:
    """Logits, and the machines that read them. ``bandwidth`` is that of one worker, in bytes per second."""

    n_rows: float
    n_classes: int
    item_size: int
    n_workers: int
    n_tasks: float
    bandwidth: float
    latency: float
    start: float = 0.0
    crowding: float = 1.0

    @property
    def n_bytes(self) -> float:
        return self.n_rows * self.n_classes * self.item_size

    def parts(self, cost: Cost) -> dict[str, float]:
        """Seconds of one reading, by what they are spent on."""
        return {
            "reading": self.n_bytes / self.bandwidth / self.n_workers,
            "computing": cost.of(self.n_rows, self.n_classes) * self.crowding / self.n_workers,
            "scheduling": self.n_tasks * self.latency,
        }

    def seconds(self, cost: Cost) -> float:
        """How long it takes."""
        parts = self.parts(cost)
        return self.start + cost.passes * (max(parts["reading"], parts["computing"]) + parts["scheduling"])

    def bottleneck(self, cost: Cost) -> str:
        """What most of the time is spent on."""
        parts = self.parts(cost)
        return max(parts, key=lambda each: parts[each])


def lasting(seconds: float) -> str:
    """A duration in a unit that suits it."""
    for unit, size in (("years", 3.156e7), ("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}"
    return f"{seconds:.2g} s"


def sized(n_bytes: float) -> str:
    """A number of bytes in a unit that suits it."""
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes:.0f} bytes"
