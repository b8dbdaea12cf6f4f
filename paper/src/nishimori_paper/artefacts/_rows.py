"""Shared parts of the paper's two tables: networks, columns, units, comparison with the printed numbers.

Each network is calibrated on clean validation images and, for CIFAR-10, also on augmented ones; both have error bars.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import hypot
from typing import Any

from nishimori import data
from nishimori_paper._artefact import Finding, Pieces, Row, compared
from nishimori_paper._measured import SANDWICH, mean_and_spread
from nishimori_paper._names import NetworkName
from nishimori_paper._printed import printed
from nishimori_paper._spreads import Labels, augmentation_draws, further_trainings

AUGMENTED = "calibrating on augmented validation images"
COLUMNS: Sequence[str] = printed()["table-real"]["columns"]
# One unit of the last printed digit: it may be rounded or truncated.
_DIGIT = {"temperature": 0.01, "error": 0.1, "ece": 0.1, "brier": 0.1}
# For each table, whether its labels are noisy, and the error bars of a network that was trained once.
_TABLES: Mapping[str, tuple[Labels, str]] = {
    "table-real": ("clean", "error bars"),
    "table-corrupted": ("noisy", "error bars of images"),
}
# Columns that the paper does not print: ECE after TS minus after EC, of the same images.
_PAIRED = ("ece_difference",)


def in_percent(row: Mapping[str, float]) -> dict[str, float]:
    """The row in the units of the paper's tables: everything except temperatures is multiplied by 100."""
    return {key: value if key.startswith("temperature") else 100 * value for key, value in row.items()}


def trained_networks() -> Sequence[str]:
    """The eight networks of the tables."""
    return list(printed()["table-real"]["rows"])


def networks_of_tables() -> Sequence[str]:
    """The networks of the tables in their order, each after the authors' own version if that is bundled."""
    bundled, names = data.names(), []
    for name in trained_networks():
        authors = str(NetworkName.parse(name).authors_version)
        names += [authors, name] if authors in bundled else [name]
    return names


def sheet_row(name: str, content: Mapping[str, Any], bars: Mapping[str, str]) -> Row:
    """All numbers of a network in one row, each followed by its error bars: their names by the ending of the column.

    Those of a bootstrap are of all numbers; temperatures also have the standard error of a fit, which needs no resamples.
    """
    parsed = NetworkName.parse(name)
    row: dict[str, Any] = {"network": parsed.title, "weights": parsed.whose}
    for kind, end in (("clean", ""), ("augmented", "_augmented")):
        for column in (*COLUMNS, *_PAIRED):
            if kind == "clean" or column.endswith(("_ts", "_ec", "_difference")):
                there = kind in content
                row[f"{column}{end}"] = in_percent(content[kind])[column] if there else None
                for bar, piece in bars.items():
                    row[f"{column}{end}_{bar}"] = in_percent(content[f"{kind} {piece}"])[column] if there else None
                if column.startswith("temperature"):  # older results do not have it
                    row[f"{column}{end}_fit_se"] = content.get(f"{kind} {SANDWICH}", {}).get(column)
    return row


@dataclass(frozen=True)
class _Numbers:
    """Numbers to compare with a printed row, in the units of the tables, and one standard deviation of each.

    ``paper_method`` holds the columns for which the paper calibrated on other images, with the numbers that these images give.
    """

    who: str
    row: Mapping[str, float]
    spread: Mapping[str, float]
    paper_method: Mapping[str, float] = field(default_factory=dict)


def compared_rows(done: Pieces, table: str) -> Sequence[Finding]:
    """Each number of ``table``, compared with the paper's."""
    return [finding for name in done for finding in compared_row(name, done[name], table, printed_row(name, table))]


def printed_row(name: str, table: str) -> Sequence[float]:
    """The paper's numbers for a network; it prints one row, whoever trained ours."""
    row: Sequence[float] = printed()[table]["rows"][str(NetworkName.parse(name).our_version)]
    return row


def compared_row(name: str, content: Mapping[str, Any], table: str, paper: Sequence[float]) -> Sequence[Finding]:
    """Compare our numbers for a network with the paper's, up to two standard deviations and one printed digit.

    For the authors' networks, the numbers are those with clean validation images, and augmented ones may explain a difference.
    For our networks, which were trained separately, the numbers are those with augmented images, as in the paper.
    """
    parsed = NetworkName.parse(name)
    numbers = (_of_authors if parsed.authors else _of_ours)(name, content, table)
    findings = []
    for column, printed_number in zip(COLUMNS, paper, strict=True):
        quantity = column.partition("_")[0]
        augmented = not parsed.authors and "augmented" in content and column.endswith(("_ts", "_ec"))
        method = numbers.paper_method.get(column)
        findings.append(
            compared(
                f"{parsed.title} ({numbers.who}{', augmented' if augmented else ''}): {column.replace('_', ' ')}"
                f"{'' if quantity == 'temperature' else ', %'}",
                numbers.row[column],
                printed_number,
                _DIGIT[quantity] + 2 * numbers.spread[column],
                paper_method=method,
                explanation=None if method is None else AUGMENTED,
            )
        )
    return findings


def _of_authors(name: str, content: Mapping[str, Any], table: str) -> _Numbers:
    """The authors' network. On CIFAR-10, network and images are the paper's own; only the draws of views and labels are not."""
    labels, bars = _TABLES[table]
    row, whose = in_percent(content["clean"]), NetworkName.parse(name).whose
    draws = augmentation_draws(name, labels)
    if not draws:  # SVHN, whose images were rebuilt: other images stand for the difference
        return _Numbers(whose, row, in_percent(content[f"clean {bars}"]))
    mean, over_draws = map(in_percent, mean_and_spread(draws))
    over_noise = in_percent(content["augmented error bars"]) if labels == "noisy" else dict.fromkeys(COLUMNS, 0.0)
    spread = {column: hypot(over_draws.get(column, 0.0), over_noise[column]) for column in COLUMNS}
    return _Numbers(whose, row, spread, mean)


def _of_ours(name: str, content: Mapping[str, Any], table: str) -> _Numbers:
    """The mean and the spread of all trainings of our network or, if it was trained once, its numbers and their error bars."""
    labels, bars = _TABLES[table]
    kind = "augmented" if "augmented" in content else "clean"
    further = further_trainings(name, labels, kind)
    if not further:
        return _Numbers("ours", in_percent(content[kind]), in_percent(content[f"{kind} {bars}"]))
    first = {column: content[kind][column] for column in COLUMNS}
    mean, spread = map(in_percent, mean_and_spread([first, *further]))
    return _Numbers(f"mean of {1 + len(further)} of ours", mean, spread)
