"""The statement of Section 1 on why the two methods are similar."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from nishimori_paper._artefact import Pieces, Scale
from nishimori_paper.artefacts._figure_coincidence import gaps_of_network
from nishimori_paper.artefacts._rows import networks_of_tables
from nishimori_paper.artefacts._statements._chance import in_words
from nishimori_paper.artefacts._statements._statement import Group, Numbers, Statement


def _pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    return {f"gaps {name}": partial(gaps_of_network, name, scale) for name in networks_of_tables()}


def numbers(done: Pieces) -> Numbers:
    """The numbers that decide."""
    rows = [content for key, content in done.items() if key.startswith("gaps ")]
    n_sets = len({key.partition("/")[0] for key in done if key.startswith("gaps ")})
    shares = {kind: [row[kind]["rms_after"] / row[kind]["rms_before"] for row in rows] for kind in ("clean", "noisy")}
    return {
        "n": len(rows),
        "left_clean": float(np.median(shares["clean"])),
        "left_noisy": float(np.median(shares["noisy"])),
        "apart_clean": float(np.median([abs(row["clean"]["difference"]) for row in rows])),
        "apart_noisy": float(np.median([abs(row["noisy"]["difference"]) for row in rows])),
        "n_larger": sum(abs(row["noisy"]["difference"]) > abs(row["clean"]["difference"]) for row in rows),
        "n_sets": n_sets,
        "same_by_chance": in_words(0.5**n_sets),
    }


STATEMENTS = (
    Statement(
        "origin of the similarity",
        "1",
        "The theoretical analysis also elucidates the origin of the similarities between the two methods",
        "the analysis is about the networks that were similar. With a condition: on networks, as in the theory, the "
        "temperatures are closer where T_EC leaves less than a tenth of the gap between confidence and accuracy than where it "
        "leaves more",
        "clean labels: {left_clean:.0%} of the gap is left after EC, and the temperatures differ by {apart_clean:.1%}; random "
        "labels in a tenth of the classes: {left_noisy:.0%} and {apart_noisy:.0%} (medians of {n} networks)",
        None,
        condition="for the linear models of Section 5. Section 6 leaves networks open; on them the same explanation fits",
        holds_if=lambda n: n["left_clean"] < 0.1 < n["left_noisy"] and n["apart_clean"] < n["apart_noisy"],
        judgement="Section 5 analyses linear models, and Section 6 leaves networks to future work: whether that elucidates the "
        "similarity of networks was decided by reading",
        chance="networks of a data set share images. If noise changed nothing, each of the {n_sets} data sets would have the "
        "larger difference with noisy labels with probability 1/2, and all of them with probability {same_by_chance}; it is "
        "{n_larger} of {n} networks",
    ),
)

GROUP = Group(_pieces, numbers, STATEMENTS)
