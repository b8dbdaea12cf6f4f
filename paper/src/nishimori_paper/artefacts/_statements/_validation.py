"""Statements of the abstract and of Section 4 on what the methods cost: validation samples and computation."""

from collections.abc import Callable, Mapping
from math import log
from typing import Any

import numpy as np

from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper.artefacts._statements._chance import beyond, either, equivalence_fails, in_words
from nishimori_paper.artefacts._statements._networks import SIMILAR
from nishimori_paper.artefacts._statements._precision import precision_pieces, precisions
from nishimori_paper.artefacts._statements._resamples import farther_limit
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement
from nishimori_paper.artefacts._statements._subsets import SIZES, excess, gain, subset_pieces

# A quarter more samples counts as a similar number of samples.
_SIMILAR = 1.25


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    return {**precision_pieces(scale), **subset_pieces(scale)}


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    rows = list(precisions(done).values())
    ratios = [row["variance_ec"] / row["variance_ts"] for row in rows]
    passes_ec, passes_ts = (float(np.mean([row[f"n_passes_{name}"] for row in rows])) for name in ("ec", "ts"))
    few, many = (excess(done, size) for size in SIZES)
    few_allowed, many_allowed = (SIMILAR * gain(done, size) for size in SIZES)
    ece_fails = either(equivalence_fails(few_allowed, few["error"]), equivalence_fails(many_allowed, many["error"]))
    # The median exceeds a limit only if half of the ratios do, which by Markov's inequality is at most twice as probable as
    # that one does, whatever their dependence.
    one_too_large = max(beyond(log(_SIMILAR), row["ratio_error"]) / 2 for row in rows)
    return {
        "n_networks": len(rows),
        "ratio_low": min(ratios),
        "ratio_median": float(np.median(ratios)),
        "ratio_high": max(ratios),
        "few_allowed": few_allowed,
        "many_allowed": many_allowed,
        "few": few["mean"],
        "few_error": few["error"],
        "many": many["mean"],
        "many_error": many["error"],
        "few_limit": farther_limit(few),
        "many_limit": farther_limit(many),
        "ratio_fails": in_words(2 * one_too_large),
        "ece_fails": in_words(ece_fails),
        "passes_ec": passes_ec,
        "passes_ts": passes_ts,
    }


STATEMENTS = (
    Statement(
        "validation samples",
        "abstract",
        "the EC method achieves similar calibration performance to temperature scaling [...] all while requiring similar "
        "validation samples",
        "both measures are similar. T: in the median EC needs at most 1.25 times as many samples as TS for the same standard "
        "error of log T. Performance: with 100 and with 1,000 samples for both methods, the 95 % interval of the mean "
        "difference of their ECEs is within a tenth of what TS takes from the ECE, {few_allowed:.2f} and {many_allowed:.2f} "
        "points",
        "T: {ratio_median:.1f} times as many in the median of {n_networks} networks, from {ratio_low:.1f} to {ratio_high:.1f}. "
        "Performance: the ECE after EC minus that after TS is {few:+.2f} ± {few_error:.2f} points with 100 samples and "
        "{many:+.2f} ± {many_error:.2f} with 1,000 (± over networks, which share images)",
        lambda n: n["ratio_median"] <= _SIMILAR and n["few_limit"] < n["few_allowed"] and n["many_limit"] < n["many_allowed"],
        "in performance, which the abstract couples to the number of samples, and with 1,000 of them; with 100, TS has the "
        "lower ECE. For the same precision of T, EC needs more at any number",
        lambda n: n["many_limit"] < n["many_allowed"],
        chance="if the variances were equal, the first measure would fail with probability {ratio_fails}; if the ECEs were, "
        "the second with {ece_fails}",
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

GROUP = Group(_pieces, numbers, STATEMENTS)
