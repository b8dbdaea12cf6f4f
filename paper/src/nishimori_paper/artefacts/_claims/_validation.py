"""Statements of the abstract and of Section 4 on what the methods cost: validation samples and computation."""

import numpy as np

from nishimori_paper._artefact import Pieces
from nishimori_paper.artefacts._claims._precision import precision_pieces, precisions
from nishimori_paper.artefacts._claims._statement import Group, Numbers, Statement


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    found = list(precisions(done).values())
    ratios = [each["variance_ec"] / each["variance_ts"] for each in found]
    passes_ec, passes_ts = (float(np.mean([each[f"n_passes_{name}"] for each in found])) for name in ("ec", "ts"))
    return {
        "n_networks": len(found),
        "ratio_low": min(ratios),
        "ratio_median": float(np.median(ratios)),
        "ratio_high": max(ratios),
        "passes_ec": passes_ec,
        "passes_ts": passes_ts,
    }


STATEMENTS = (
    Statement(
        "validation samples",
        "abstract",
        "requiring similar validation samples",
        "in the median, EC needs at most 1.25 times as many samples as TS for the same standard error of log T",
        "{ratio_median:.2f} times as many in the median of {n_networks} networks, from {ratio_low:.2f} to {ratio_high:.2f}",
        lambda n: n["ratio_median"] <= 1.25,
    ),
    Statement(
        "computational cost",
        "4",
        "EC is as efficient to run as TS",
        "finding T_EC reads the validation data at most 1.1 times as often as finding T_TS, on average over networks",
        "{passes_ec:.2f} readings for EC, {passes_ts:.2f} for TS; each computes the same sums",
        lambda n: n["passes_ec"] <= 1.1 * n["passes_ts"],
    ),
)

GROUP = Group(precision_pieces, numbers, STATEMENTS)
