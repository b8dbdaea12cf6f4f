"""The tables of the cost model: constants, messages, and what the formula says about two large jobs."""

from dataclasses import replace

from cost_model_formula import Cost, Job, lasting, sized

# Bytes of logits that one task of a large job reads, unless this would make more than 100 tasks per worker.
CHUNK, PER_WORKER = 2.56e8, 100

# Bytes per second that one worker gets from shared storage: an assumption, which is a tenth of a network of 80 Gbit/s.
STORAGE = 1e9

# Readings of a fit after a sample: one or two.
PASSES = 2

# Rows, classes, bytes per logit, workers.
JOBS = {
    "1e9 rows × 1000 classes, float32": (1e9, 1000, 4, 100),
    "1e12 tokens × 128,000 classes, bfloat16": (1e12, 128_000, 2, 10_000),
}


def constants_table(
    speeds: dict[str, float], costs: dict[str, Cost], crowds: dict[str, float], delays: dict[str, float]
) -> str:
    """The constants of this machine."""
    lines = ["| constant | value |", "|---|---|"]
    lines += [f"| one read of {what} | {speed / 1e9:.2g} GB/s |" for what, speed in speeds.items()]
    for what, cost in costs.items():
        row, logit = 1e6 * cost.per_row, 1e9 * cost.per_logit
        lines.append(f"| {what}: one reading | {row:.3g} µs per row + {logit:.3g} ns per logit |")
    lines += [f"| {what}: crowding, two processes at once | {factor:.2f} |" for what, factor in crowds.items()]
    lines += [f"| {what} | {1e3 * delay:.3g} ms |" for what, delay in delays.items()]
    return "\n".join(lines)


def messages_table(sent: dict[str, tuple[int, int, int]], n_clusters: int) -> str:
    """Bytes per task."""
    lines = [f"| | to the worker | back | back, with {n_clusters:,} clusters |", "|---|---|---|---|"]
    lines += [f"| {what} | {there:,} bytes | {back:,} bytes | {more:,} bytes |" for what, (there, back, more) in sent.items()]
    return "\n".join(lines)


def errors_table(errors: dict[str, tuple[float, float, float]]) -> str:
    """How the standard error of T falls with the number of rows."""
    powers = (4, 6, 9, 12)
    lines = ["| T of | c: median (least, largest) | " + " | ".join(f"1e{power} rows" for power in powers) + " |"]
    lines.append("|---|---|" + "---|" * len(powers))
    for method, (low, middle, high) in errors.items():
        cells = " | ".join(f"{100 * middle / 10 ** (power / 2):.2g} %" for power in powers)
        lines.append(f"| {method.upper()} | {middle:.2f} ({low:.2f}, {high:.2f}) | {cells} |")
    return "\n".join(lines)


def jobs_table(costs: dict[str, Cost], latency: float, sent: dict[str, tuple[int, int, int]]) -> str:
    """What the formula says about large jobs."""
    lines = [
        "| job | what | bytes read | computing | on | takes | most of it is | messages |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, (n_rows, n_classes, item_size, n_workers) in JOBS.items():
        for what, measured, passes in (("fit", costs["fit of chunks"], PASSES), ("sketch", costs["sketch"], 1)):
            cost = replace(measured, passes=passes)
            n_tasks = min(n_rows * n_classes * item_size / CHUNK, PER_WORKER * n_workers)
            job = Job(n_rows, n_classes, item_size, n_workers, n_tasks, STORAGE, latency)
            number, (_, size, _) = passes * n_tasks, sent[what]
            cells = [
                name,
                f"{what}, {passes} pass{'es' if passes > 1 else ''}",
                sized(passes * job.n_bytes),
                f"{lasting(passes * cost.of(n_rows, n_classes))} of one core",
                f"{n_workers:,} workers",
                lasting(job.seconds(cost)),
                job.bottleneck(cost),
                f"{number:,.0f} × {sized(size)} = {sized(number * size)}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
