"""What the paper's two tables share: their networks, columns and units, the comparison with what is printed, a picture.

Of each network there are the numbers with clean and, for CIFAR-10, with augmented validation images, and error bars of both.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from nishimori import data
from nishimori.paper._artefact import Finding, Pieces, Row, compared
from nishimori.paper._measured import AUTHORS, title, whose
from nishimori.paper._printed import printed

AUGMENTED = "calibrating on augmented validation images"
COLUMNS: Sequence[str] = printed()["table-real"]["columns"]
# The last digit of a printed number may be rounded or cut off.
_DIGIT = {"temperature": 0.01, "error": 0.1, "ece": 0.1, "brier": 0.1}
# Another training of the same network gives other numbers. The paper's own two ResNet20s on 45,000 images err 13.5 % (Table 1)
# and 16.6 % (figure on the size of the training set): that much counts as the same.
OTHER_TRAINING = {"temperature": 0.2, "error": 3.1, "ece": 1.5, "brier": 4.0}
_COLOURS = {"": "0.35", "_ts": "tab:blue", "_ec": "tab:orange"}
_LABELS = {"": "uncalibrated", "_ts": "TS", "_ec": "EC"}
_PANELS = {"temperature": "temperature", "ece": "ECE, %", "brier": "Brier score × 100, change by calibration"}


def in_percent(row: Mapping[str, float]) -> dict[str, float]:
    """Units of the paper's tables: everything but temperatures times 100."""
    return {key: value if key.startswith("temperature") else 100 * value for key, value in row.items()}


def trained_networks() -> Sequence[str]:
    """The eight networks of the tables."""
    return list(printed()["table-real"]["rows"])


def networks_of_tables() -> Sequence[str]:
    """The same in their order, each preceded by the authors' own where they published it."""
    both = (each for name in trained_networks() for each in (f"{name}{AUTHORS}", name))
    bundled = data.names()
    return [each for each in both if each in bundled or not each.endswith(AUTHORS)]


def sheet_row(name: str, content: Mapping[str, Any], bar: str) -> Row:
    """All numbers of a network in one line, each followed by its error bar."""
    row: dict[str, Any] = {"network": title(name), "weights": whose(name)}
    for kind, end in (("clean", ""), ("augmented", "_augmented")):
        for column in COLUMNS:
            if kind == "clean" or column.endswith(("_ts", "_ec")):
                there = kind in content
                row[f"{column}{end}"] = in_percent(content[kind])[column] if there else None
                row[f"{column}{end}_{bar}"] = in_percent(content[f"{kind} error bars"])[column] if there else None
    return row


def compared_rows(done: Pieces, table: str) -> Sequence[Finding]:
    """Each number of ``table`` beside the paper's."""
    paper = printed()[table]["rows"]
    return [each for name in done for each in compared_row(name, done[name], paper[name.removesuffix(AUTHORS)])]


def compared_row(name: str, content: Mapping[str, Any], paper: Sequence[float]) -> Sequence[Finding]:
    """Our numbers of a network beside the paper's, which calibrated CIFAR-10's networks on augmented images.

    Of the authors' networks the numbers are those with clean validation images, and the paper's way may explain them. Another
    training explains nothing, so numbers of our networks are those of the paper's way.
    """
    same = name.endswith(AUTHORS)
    kind = "augmented" if "augmented" in content else "clean"
    ours, theirs, bars = (in_percent(content[each]) for each in ("clean" if same else kind, kind, f"{kind} error bars"))
    found = []
    for column, printed_number in zip(COLUMNS, paper, strict=True):
        quantity = column.partition("_")[0]
        on_augmented = kind == "augmented" and column.endswith(("_ts", "_ec"))
        who = whose(name) + (", augmented" if on_augmented and not same else "")
        found.append(
            compared(
                f"{title(name)} ({who}): {column.replace('_', ' ')}{'' if quantity == 'temperature' else ', %'}",
                ours[column],
                printed_number,
                _DIGIT[quantity] + (2 * bars[column] if same else OTHER_TRAINING[quantity]),
                in_their_way=theirs[column] if same and on_augmented else None,
                because=AUGMENTED if same and on_augmented else None,
            )
        )
    return found


def draw_rows(done: Pieces, table: str, pyplot: Any) -> Any:
    """Temperatures, ECE and Brier scores of ``table``, a network to a line.

    Dots are ours, rings ours with augmented validation images, crosses the paper's.
    """
    names, rows = list(done), printed()[table]["rows"]
    figure, axes = pyplot.subplots(1, 3, figsize=(13.5, 0.52 * len(names) + 1.9), sharey=True, layout="constrained")
    for ax, (quantity, label) in zip(axes, _PANELS.items(), strict=True):
        for y, name in enumerate(names):
            paper = dict(zip(COLUMNS, rows[name.removesuffix(AUTHORS)], strict=True))
            for i, suffix in enumerate(_COLOURS):
                column = f"{quantity}{suffix}"
                if column in COLUMNS and column != "brier":
                    _mark(ax, y + 0.22 * (i - 1), column, done[name], paper, _COLOURS[suffix])
        ax.set(xlabel=label)
        ax.grid(axis="x", alpha=0.3)
        for y in range(1, len(names)):
            ax.axhline(y - 0.5, color="0.9", linewidth=0.8, zorder=0)
    axes[0].set_yticks(range(len(names)), [f"{title(name)} ({whose(name)})" for name in names])
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    _legend(figure, pyplot, rings=any("augmented" in content for content in done.values()))
    return figure


def _mark(ax: Any, y: float, column: str, content: Mapping[str, Any], paper: Mapping[str, float], colour: str) -> None:
    for kind, face in (("clean", colour), ("augmented", "white")):
        if kind in content and (kind == "clean" or column.endswith(("_ts", "_ec"))):
            at = _shown(in_percent(content[kind]), column)
            # The bar of a Brier score is mostly that of the uncalibrated one, which the change does not have.
            bar = None if column.startswith("brier") else in_percent(content[f"{kind} error bars"])[column]
            ax.errorbar(at, y, xerr=bar, fmt="o", color=colour, markersize=5, linewidth=1, mfc=face)
    ax.plot(_shown(paper, column), y, "x", color=colour, markersize=6, markeredgewidth=1.5, zorder=5)


def _shown(row: Mapping[str, float], column: str) -> float:
    """The number, but of a Brier score what calibration changes: networks differ by far more."""
    return row[column] - row["brier"] if column.startswith("brier") else row[column]


def _legend(figure: Any, pyplot: Any, *, rings: bool) -> None:
    handle = partial(pyplot.Line2D, [], [], linestyle="")
    handles = [handle(marker="s", color=colour, label=_LABELS[suffix]) for suffix, colour in _COLOURS.items()]
    handles.append(handle(marker="o", color="0.2", label="computed here"))
    if rings:
        handles.append(handle(marker="o", color="0.2", mfc="white", label="the same, calibrated on augmented images"))
    handles.append(handle(marker="x", color="0.2", label="paper"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)
