"""What the paper's two tables have in common: networks, columns, units, comparison with the printed numbers, picture.

Each network is calibrated on clean validation images and, for CIFAR-10, also on augmented ones; both have error bars.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nishimori import data
from nishimori.paper._artefact import Finding, Pieces, Row, compared
from nishimori.paper._names import NetworkName
from nishimori.paper._printed import printed
from nishimori.plot._palette import COLORS

AUGMENTED = "calibrating on augmented validation images"
COLUMNS: Sequence[str] = printed()["table-real"]["columns"]
# One unit of the last printed digit: it may be rounded or truncated.
_DIGIT = {"temperature": 0.01, "error": 0.1, "ece": 0.1, "brier": 0.1}
# Training the same network again gives other numbers. The paper's own two ResNet20s on 45,000 images have errors of 13.5 %
# (Table 1) and 16.6 % (figure on the size of the training set): a difference of that size counts as agreement.
OTHER_TRAINING = {"temperature": 0.2, "error": 3.1, "ece": 1.5, "brier": 4.0}
_COLOURS = {"": COLORS["before"], "_ts": COLORS["ts"], "_ec": COLORS["ec"]}
_LABELS = {"": "uncalibrated", "_ts": "TS", "_ec": "EC"}
_PANELS = {"temperature": "temperature", "ece": "ECE, %", "brier": "Brier score × 100, change by calibration"}


def in_percent(row: Mapping[str, float]) -> dict[str, float]:
    """The row in the units of the paper's tables: everything except temperatures is multiplied by 100."""
    return {key: value if key.startswith("temperature") else 100 * value for key, value in row.items()}


def trained_networks() -> Sequence[str]:
    """The eight networks of the tables."""
    return list(printed()["table-real"]["rows"])


def networks_of_tables() -> Sequence[str]:
    """The networks of the tables in their order, each after the authors' own version if that is bundled."""
    bundled, found = data.names(), []
    for name in trained_networks():
        authors = str(NetworkName.parse(name).authors_version)
        found += [authors, name] if authors in bundled else [name]
    return found


def sheet_row(name: str, content: Mapping[str, Any], bar: str) -> Row:
    """All numbers of a network in one row, each followed by its error bar."""
    parsed = NetworkName.parse(name)
    row: dict[str, Any] = {"network": parsed.title, "weights": parsed.whose}
    for kind, end in (("clean", ""), ("augmented", "_augmented")):
        for column in COLUMNS:
            if kind == "clean" or column.endswith(("_ts", "_ec")):
                there = kind in content
                row[f"{column}{end}"] = in_percent(content[kind])[column] if there else None
                row[f"{column}{end}_{bar}"] = in_percent(content[f"{kind} error bars"])[column] if there else None
    return row


def compared_rows(done: Pieces, table: str) -> Sequence[Finding]:
    """Each number of ``table`` beside the paper's."""
    return [each for name in done for each in compared_row(name, done[name], _printed_row(name, table))]


def _printed_row(name: str, table: str) -> Sequence[float]:
    """The paper's numbers for a network; it prints one row, whoever trained ours."""
    row: Sequence[float] = printed()[table]["rows"][str(NetworkName.parse(name).our_version)]
    return row


def compared_row(name: str, content: Mapping[str, Any], paper: Sequence[float]) -> Sequence[Finding]:
    """Our numbers for a network beside the paper's, which calibrated networks on augmented images for CIFAR-10.

    For the authors' networks, the numbers are those with clean validation images, and augmented ones may explain a difference.
    For our networks, which were trained separately, the numbers are those with augmented images, as in the paper.
    """
    parsed = NetworkName.parse(name)
    same = parsed.authors
    kind = "augmented" if "augmented" in content else "clean"
    ours, theirs, bars = (in_percent(content[each]) for each in ("clean" if same else kind, kind, f"{kind} error bars"))
    found = []
    for column, printed_number in zip(COLUMNS, paper, strict=True):
        quantity = column.partition("_")[0]
        on_augmented = kind == "augmented" and column.endswith(("_ts", "_ec"))
        who = parsed.whose + (", augmented" if on_augmented and not same else "")
        found.append(
            compared(
                f"{parsed.title} ({who}): {column.replace('_', ' ')}{'' if quantity == 'temperature' else ', %'}",
                ours[column],
                printed_number,
                _DIGIT[quantity] + (2 * bars[column] if same else OTHER_TRAINING[quantity]),
                paper_method=theirs[column] if same and on_augmented else None,
                explanation=AUGMENTED if same and on_augmented else None,
            )
        )
    return found


def draw_rows(done: Pieces, table: str, pyplot: Any) -> Any:
    """Temperatures, ECE and Brier scores of ``table``, one line per network.

    Dots are our numbers, rings our numbers with augmented validation images, crosses the paper's numbers.
    """
    names = list(done)
    figure, axes = pyplot.subplots(1, 3, figsize=(13.5, 0.52 * len(names) + 1.9), sharey=True, layout="constrained")
    for ax, (quantity, label) in zip(axes, _PANELS.items(), strict=True):
        for y, name in enumerate(names):
            paper = dict(zip(COLUMNS, _printed_row(name, table), strict=True))
            for i, suffix in enumerate(_COLOURS):
                column = f"{quantity}{suffix}"
                if column in COLUMNS and column != "brier":
                    _mark(ax, y + 0.22 * (i - 1), column, done[name], paper, _COLOURS[suffix])
        ax.set(xlabel=label)
        ax.grid(axis="x", alpha=0.3)
        for y in range(1, len(names)):
            ax.axhline(y - 0.5, color="0.9", linewidth=0.8, zorder=0)
    axes[0].set_yticks(range(len(names)), [NetworkName.parse(name).label for name in names])
    axes[0].set(ylim=(len(names) - 0.4, -0.6), ylabel="network")
    _legend(figure, pyplot, rings=any("augmented" in content for content in done.values()))
    return figure


def _mark(ax: Any, y: float, column: str, content: Mapping[str, Any], paper: Mapping[str, float], colour: str) -> None:
    for kind, face in (("clean", colour), ("augmented", "white")):
        if kind in content and (kind == "clean" or column.endswith(("_ts", "_ec"))):
            at = _shown(in_percent(content[kind]), column)
            # A Brier score is shown as its change, whose error bar is much smaller than that of the score itself: draw none.
            bar = None if column.startswith("brier") else in_percent(content[f"{kind} error bars"])[column]
            ax.errorbar(at, y, xerr=bar, fmt="o", color=colour, markersize=5, linewidth=1, mfc=face)
    ax.plot(_shown(paper, column), y, "x", color=colour, markersize=6, markeredgewidth=1.5, zorder=5)


def _shown(row: Mapping[str, float], column: str) -> float:
    """The number; for a Brier score its change by calibration, because networks differ by much more than that."""
    return row[column] - row["brier"] if column.startswith("brier") else row[column]


def _legend(figure: Any, pyplot: Any, *, rings: bool) -> None:
    handle = partial(pyplot.Line2D, [], [], linestyle="")
    handles = [handle(marker="s", color=colour, label=_LABELS[suffix]) for suffix, colour in _COLOURS.items()]
    handles.append(handle(marker="o", color="0.2", label="computed here"))
    if rings:
        handles.append(handle(marker="o", color="0.2", mfc="white", label="the same, calibrated on augmented images"))
    handles.append(handle(marker="x", color="0.2", label="paper"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
