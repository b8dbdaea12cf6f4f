"""The tables of the study of temperatures per group, from its numbers."""

import numpy as np

from nishimori._support.tables import Tabular

HOW = "`python bench/groups.py`; `bench/groups.py` says what is measured."


def report(outcomes, pooled, others, tried, splits, generated, coverage) -> str:
    """Everything as Markdown."""
    parts = [f"One temperature → one per group, on test rows. Gaps and ECE in points. {HOW}"]
    parts += [_networks(outcomes, method) for method in ("ec", "ts")]
    parts.append(_sizes(outcomes, "Average over networks, by number of validation rows"))
    if pooled:
        parts.append(_sizes(pooled, "Named groups: rows of several CIFAR-10 networks in one data set, grouped by network"))
    if others:
        parts.append(_sizes(others, "Other networks, by which nothing was chosen: random halves of their test rows"))
    parts += [_variants(tried, method) for method in ("ec", "ts")]
    parts += [_splits(splits), _generated(generated), _coverage(coverage)]
    return "\n\n".join(parts) + "\n"


def _arrow(pair, scale=100.0, digits=2) -> str:
    return f"{scale * pair[0]:.{digits}f} → {scale * pair[1]:.{digits}f}"


def _networks(outcomes, method) -> str:
    """One row per network, fitted to the largest number of rows."""
    largest = max(each.size for each in outcomes)
    rows = [
        (
            each.network,
            f"{each.spread:.2f}",
            _arrow(each.gap),
            _arrow(each.gap_corrected),
            _arrow(each.nll, 1.0, 4),
            f"{each.difference:+.4f} ± {each.se:.4f}",
            _arrow(each.ece),
            _arrow(each.ece_corrected),
        )
        for each in outcomes
        if each.method == method and each.size == largest and each.seed == 0
    ]
    headers = ("network", "spread", "mean gap", "without noise", "NLL", "difference", "ECE", "ECE corrected")
    title = {"ec": "Expectation consistency", "ts": "Temperature scaling"}[method]
    return f"## {title}, {largest:,} validation rows\n\n{Tabular(headers, rows).markdown()}"


def _sizes(outcomes, title) -> str:
    """Averages by method and size, and how often the loss rose."""
    rows = []
    for method in ("ec", "ts"):
        for size in sorted({each.size for each in outcomes}):
            chosen = [each for each in outcomes if (each.method, each.size) == (method, size)]
            z = np.array([each.z for each in chosen])
            means = {name: np.mean([getattr(each, name) for each in chosen], axis=0) for name in ("gap", "nll", "ece")}
            corrected = {
                name: np.mean([getattr(each, f"{name}_corrected") for each in chosen], axis=0) for name in ("gap", "ece")
            }
            rows.append(
                (
                    f"{method} {size:,}",
                    f"{len(chosen)}",
                    _arrow(means["gap"]),
                    _arrow(corrected["gap"]),
                    _arrow(means["nll"], 1.0, 4),
                    _arrow(means["ece"]),
                    _arrow(corrected["ece"]),
                    f"{z.max():+.1f}",
                    f"{(z > 2).sum()}",
                    f"{(z < -2).sum()}",
                )
            )
    headers = ("method, rows", "fits", "mean gap", "without noise", "NLL", "ECE", "ECE corrected", "worst z", "z > 2", "z < -2")
    note = "z is the paired difference of the NLL in standard errors: positive where groups are worse."
    return f"## {title}\n\n{Tabular(headers, rows).markdown()}\n\n{note}"


def _variants(tried, method) -> str:
    chosen = [each for each in tried if each.method == method]
    sizes = sorted({each.size for each in chosen})
    rows = []
    for name in dict.fromkeys(each.variant for each in chosen):
        cells = []
        for size in sizes:
            some = [each for each in chosen if (each.variant, each.size) == (name, size)]
            z = np.array([each.z for each in some])
            nll, gap = np.mean([each.nll for each in some]), 100 * np.mean([each.gap for each in some])
            cells.append(f"{nll:.4f}, {gap:.2f}, {z.max():+.1f}, {(z > 2).sum()} of {len(z)}")
        rows.append((name, *cells))
    note = "Each cell: mean NLL, mean gap, worst z, and how many fits are worse than one temperature by z > 2."
    table = Tabular(("variant", *(f"{size:,} rows" for size in sizes)), rows).markdown()
    return f"## Variants for method {method!r}\n\n{note}\n\n{table}"


def _splits(splits) -> str:
    rows = [
        (
            each.name,
            _arrow((each.one.ece, each.many.ece)),
            _arrow((each.one.apart, each.many.apart)),
            _arrow((each.one.ece / each.one.apart, each.many.ece / each.many.apart), 100.0, 0),
            f"{each.correlation:.2f}",
        )
        for each in splits
    ]
    headers = ("network", "ECE", "sum over class and bin", "share that does not cancel, %", "correlation")
    note = (
        "The ECE adds up the gaps of all classes in a bin before it takes their size; the sum over class and bin takes the "
        "size of each gap first. The correlation is that of log T of a class with the logarithm of how much too often the "
        "class is predicted."
    )
    return f"## What the ECE sees\n\n{note}\n\n{Tabular(headers, rows).markdown()}"


def _generated(generated) -> str:
    rows = [
        (
            f"{each.bias:g}",
            _arrow(each.gap),
            _arrow(each.ece),
            _arrow(each.apart),
            _arrow(each.nll, 1.0, 4),
        )
        for each in generated
    ]
    headers = ("largest bias", "mean gap", "ECE", "sum over class and bin", "NLL")
    note = (
        "Labels are drawn from the softmax of z, and the model says 1.6·(z + b) with a bias b per class. The bias alone makes "
        "the overall ECE rise after temperatures per class."
    )
    return f"## Generated data\n\n{note}\n\n{Tabular(headers, rows).markdown()}"


def _coverage(coverage) -> str:
    rows = [
        (
            f"{each.method}, spread {each.spread:g}",
            f"{each.rows:,}",
            f"{100 * each.covered:.1f} %",
            f"{each.common_off:.3f} → {each.groups_off:.3f}",
        )
        for each in coverage
    ]
    headers = ("method, true spread of log T", "rows per group", "covered", "error of log T, one → groups")
    note = "Ten groups with temperatures that are drawn. How many of the 95 % intervals T ± 1.96 standard errors contain them."
    return f"## Standard errors\n\n{note}\n\n{Tabular(headers, rows).markdown()}"
