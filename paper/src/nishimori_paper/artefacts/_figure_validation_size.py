"""How many validation samples TS and EC need: test ECE and spread of T against the size of the validation set.

The mean ECE is that of random subsets without repetition: each is a validation set that a user might have. The spread of T is
that of samples with repetition, because large subsets of one validation set overlap, and their temperatures are too similar.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nishimori._evaluation.scorecard import scorecards
from nishimori._fit.temperatures import temperatures_of
from nishimori._rows.entry import open_rows
from nishimori._support.arrays import HostArray
from nishimori.data import Labelled, Network
from nishimori.maps.temperature import Temperature
from nishimori.plot._style import COLORS, MARKERS
from nishimori_paper._artefact import Artefact, Finding, Pieces, Row, Scale
from nishimori_paper._measured import network
from nishimori_paper._names import NetworkName
from nishimori_paper._printed import printed
from nishimori_paper.artefacts._rows import networks_of_tables, trained_networks
from nishimori_paper.artefacts._table_corrupted import corrupted

_SIZES = (50, 100, 200, 400, 1000, 2000, 5000)
_SPREADS = (0.02, 0.05, 0.1, 0.2)
_TEST = 5000
# A 95 % interval of the normal distribution, in standard deviations.
_Z = 1.959963984540054
_NOTE = {"ha": "right", "va": "top", "color": "0.35", "fontsize": 9}
_METHODS = ("ts", "ec")
# From this size on, the ratio of the variances does not change with the size any more.
_MANY = 400
# A quarter more samples counts as a similar number of samples.
_SIMILAR = 1.25
_LABELS = {"clean": "clean labels", "noisy": "labels of a tenth of the classes random"}


class FigureValidationSize(Artefact):
    """Test ECE and spread of T against the number of validation samples, for TS and EC, clean and with label noise."""

    name = "figure-validation-size"
    where = "Abstract, “requiring similar validation samples”; not a figure of the paper"

    def networks(self) -> Sequence[str]:
        return trained_networks()

    def pieces(self, scale: Scale) -> Mapping[str, Callable[[], Any]]:
        return {f"{labels} {name}": partial(_sizes, name, labels, scale) for labels in _LABELS for name in networks_of_tables()}

    def tables(self, done: Pieces) -> Mapping[str, Sequence[Row]]:
        single = []
        for key, rows in done.items():
            labels, _, name = key.partition(" ")
            parsed = NetworkName.parse(name)
            single += [{"labels": labels, "network": parsed.title, "weights": parsed.whose, **row} for row in rows]
        return {
            "sizes": summary(done),
            "crossing": [crossing(done, labels) for labels in _LABELS],
            "variance-ratio": [variance_ratio(done, labels) for labels in _LABELS],
            "networks": single,
        }

    def findings(self, done: Pieces) -> Sequence[Finding]:
        """Whether EC needs similar validation samples: a similar variance of T, and ECEs as close as in the paper's Table 1."""
        close = max(abs(row[4] - row[5]) for row in printed()["table-real"]["rows"].values())
        findings = []
        for labels in _LABELS:
            ratio = variance_ratio(done, labels)
            what = f"{labels} labels, from {_MANY} samples: variance of log T_EC / variance of log T_TS"
            low, high = ratio["low"], ratio["high"]
            text = f"{ratio['ratio']:.2f} (95 %: {low:.2f} to {high:.2f})"
            findings.append(Finding(what, text, f"similar (up to {_SIMILAR:g})", low <= _SIMILAR))
        for row in summary(done):
            gap, bar = row["difference"], row["difference_se"]
            what = f"{row['labels']} labels, {row['n_validation']} samples: mean ECE after EC - after TS"
            holds, words = abs(gap) - 2 * bar <= close, f"similar (within {close:.1f})"
            if row["labels"] == "noisy":
                holds, words = gap < 0, "lower after EC"
            findings.append(Finding(what, f"{gap:+.2f} ± {bar:.2f} points", words, holds))
        return findings

    def draw(self, done: Pieces, pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(2, 3, figsize=(13.5, 7.6), sharex=True, layout="constrained")
        for row, (labels, title) in zip(axes, _LABELS.items(), strict=True):
            rows = [row for row in summary(done) if row["labels"] == labels]
            _draw_methods(row[0], rows, "ece")
            _draw_difference(row[1], rows)
            _draw_methods(row[2], rows, "spread")
            _note_ratios(row[2], rows)
            for ax, label in zip(
                row, ("mean test ECE, %", "ECE of EC - TS, points", "standard deviation of log T"), strict=True
            ):
                ax.set(ylabel=label, title=title)
                ax.grid(alpha=0.3)
            row[2].set(yscale="log", ylim=(0.012, 0.45))
            row[2].set_yticks(_SPREADS, [f"{spread:g}" for spread in _SPREADS])
            row[2].set_yticks([], minor=True)
        for ax in axes[1]:
            ax.set(xlabel="validation samples", xscale="log")
            ax.set_xticks(_SIZES, [f"{n}" for n in _SIZES])
            ax.set_xticks([], minor=True)
        return figure


def _sizes(name: str, labels: str, scale: Scale) -> list[dict[str, Any]]:
    """A network's ECE and spread of T at each size; ``labels`` are "clean" or "noisy"."""
    loaded = network(name, scale)
    # Networks and kinds of labels must not share their subsets, or their errors would not average out.
    generator = np.random.default_rng([scale.seed, *f"{labels} {name}".encode()])
    sizes = [n for n in (_SIZES[:5:2] if scale.quick else _SIZES) if n <= len(loaded.validation.labels)]
    rows = [_at_size(loaded, n, labels == "noisy", 4 if scale.quick else 30, generator) for n in sizes]
    return [row for row in rows if row is not None]


def _at_size(loaded: Network, n: int, noisy: bool, draws: int, generator: np.random.Generator) -> dict[str, Any] | None:
    """One row of a network; None if too few draws have both temperatures."""

    def with_noise(part: Labelled) -> Labelled:
        return corrupted(part, generator) if noisy else part

    def drawn(replace: bool) -> dict[str, float | None]:
        chosen = generator.choice(len(loaded.validation.labels), n, replace=replace)
        part = with_noise(Labelled(loaded.validation.logits[chosen], loaded.validation.labels[chosen]))
        both = temperatures_of(open_rows(part.logits, part.labels), warn=False)
        return {"ts": both.ts, "ec": both.ec}

    # All clean subsets of the size of the whole set are the same.
    subsets = 1 if n == len(loaded.validation.labels) and not noisy else draws
    plain, repeated = ([drawn(replace) for _ in range(count)] for replace, count in ((False, subsets), (True, draws)))
    fitted, spread = ([[draw["ts"], draw["ec"]] for draw in every if None not in draw.values()] for every in (plain, repeated))
    if not fitted or len(spread) < 2:
        return None
    images = generator.permutation(len(loaded.test.labels))[:_TEST]
    ece = _ece(with_noise(Labelled(loaded.test.logits[images], loaded.test.labels[images])), np.array(fitted))
    difference = ece[:, 1] - ece[:, 0]
    row: dict[str, Any] = {"n_validation": n, "subsets": subsets, "repeated_samples": draws}
    row |= {f"without_{name}": sum(draw[name] is None for draw in [*plain, *repeated]) for name in _METHODS}
    row |= dict(zip(("ece_ts", "ece_ec"), ece.mean(axis=0).tolist(), strict=True))
    row |= {"difference": float(difference.mean()), "difference_se": _mean(difference)[1] if len(fitted) > 1 else None}
    return row | dict(zip(("spread_ts", "spread_ec"), np.log(np.array(spread)).std(axis=0, ddof=1).tolist(), strict=True))


def _ece(test: Labelled, temperatures: HostArray) -> HostArray:
    """The paper's ECE in percent at each temperature: 15 bins of equal mass."""
    maps = [Temperature(T) for T in temperatures.ravel().tolist()]
    cards = scorecards(open_rows(test.logits, test.labels), maps, strategy="quantile")
    return 100 * np.reshape([card.ece for card in cards], temperatures.shape)


def summary(done: Pieces) -> list[dict[str, Any]]:
    """Means over networks, with standard errors over networks, which include the variation of subsets."""
    rows = []
    for labels in _LABELS:
        every = [row for key, rows in done.items() if key.startswith(f"{labels} ") for row in rows]
        for n in sorted({row["n_validation"] for row in every}):
            rows.append({"labels": labels} | _mean_row([row for row in every if row["n_validation"] == n]))
    return rows


def _mean_row(rows: Sequence[Row]) -> dict[str, Any]:
    """One size. The ratio of variances is a geometric mean; the standard error over subsets assumes fixed networks."""

    def column(key: str) -> HostArray:
        return np.array([row[key] for row in rows])

    result: dict[str, Any] = {"n_validation": rows[0]["n_validation"], "networks": len(rows)}
    for key in ("subsets", "repeated_samples", "without_ts", "without_ec"):
        result[key] = int(column(key).sum())
    for key in ("ece_ts", "ece_ec", "difference", "spread_ts", "spread_ec"):
        result[key], result[f"{key}_se"] = _mean(column(key))
    bars = [row["difference_se"] for row in rows]
    result["difference_se_of_subsets"] = None if None in bars else float(np.linalg.norm(bars) / len(bars))
    return result | {"variance_ratio": float(np.exp(np.mean(2 * np.log(column("spread_ec") / column("spread_ts")))))}


def _mean(values: HostArray) -> tuple[float, float]:
    """Mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def variance_ratio(done: Pieces, labels: str) -> dict[str, Any]:
    """The variance of log T_EC over that of log T_TS, a geometric mean over networks and sizes, with a 95 % interval."""
    curves = [rows for key, rows in done.items() if key.startswith(f"{labels} ")]
    large = [[row for row in rows if row["n_validation"] >= _MANY] for rows in curves]
    logs = [
        np.mean([2 * np.log(row["spread_ec"] / row["spread_ts"]) for row in rows or curve])
        for rows, curve in zip(large, curves, strict=True)
    ]
    mean, bar = _mean(np.array(logs))
    values = np.exp([mean, mean - _Z * bar, mean + _Z * bar, min(logs), max(logs)])
    return {"labels": labels} | dict(zip(("ratio", "low", "high", "least", "largest"), values.tolist(), strict=True))


def crossing(done: Pieces, labels: str) -> dict[str, Any]:
    """The number of samples above which EC has the lower mean ECE, with a 95 % interval by resampling networks.

    None stands for no crossing among the sizes: EC is lower at all of them, or at none.
    """
    curves = [rows for key, rows in done.items() if key.startswith(f"{labels} ")]
    sizes = sorted(set.intersection(*({row["n_validation"] for row in rows} for rows in curves)))
    table = np.array([[row["ece_ec"] - row["ece_ts"] for row in rows if row["n_validation"] in sizes] for rows in curves])
    generator = np.random.default_rng(0)
    again = [_zero(sizes, table[generator.integers(len(table), size=len(table))].mean(axis=0)) for _ in range(1000)]
    # No crossing counts as one outside of the sizes, on the side where it would be.
    low, high = np.quantile(again, [0.025, 0.975], method="inverted_cdf")
    values = {"samples": _zero(sizes, table.mean(axis=0)), "low": float(low), "high": float(high)}
    return {"labels": labels} | {key: value if 0 < value < np.inf else None for key, value in values.items()}


def _zero(sizes: Sequence[int], difference: HostArray) -> float:
    """Where the difference finally falls below zero, interpolated in log n; 0 if always below, infinity if never."""
    above = np.nonzero(difference >= 0)[0]
    if len(above) == 0:
        return 0.0
    last = int(above[-1])
    if last == len(sizes) - 1:
        return np.inf
    before, after = difference[last], difference[last + 1]
    step = np.log(sizes[last + 1] / sizes[last])
    return float(sizes[last] * np.exp(step * before / (before - after)))


def _draw_methods(ax: Any, rows: Sequence[Row], quantity: str) -> None:
    for name, shift in zip(_METHODS, (0.97, 1.03), strict=True):
        x, y, bars = _columns(rows, f"{quantity}_{name}", shift)
        look = {"color": COLORS[name], "marker": MARKERS[name], "markersize": 5, "linewidth": 1.2, "capsize": 2}
        ax.errorbar(x, y, bars, label=name.upper(), **look)
    if quantity == "ece":
        ax.set_ylim(0, None)
    ax.legend(fontsize=9)


def _draw_difference(ax: Any, rows: Sequence[Row]) -> None:
    x, y, bars = _columns(rows, "difference")
    ax.axhline(0, color="0.4", linewidth=0.9)
    ax.errorbar(x, y, bars, color=COLORS["accuracy"], marker="D", markersize=5, linewidth=1.2, capsize=2)
    # The text goes where no curve is: the difference falls from left to right.
    ax.text(0.97, 0.96, "above 0: TS is better\nbelow 0: EC is better", transform=ax.transAxes, **_NOTE)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.25 * (high - low))


def _note_ratios(ax: Any, rows: Sequence[Row]) -> None:
    """The ratio of the variances, written above each size."""
    for row in rows:
        top = max(row[f"spread_{name}"] + row[f"spread_{name}_se"] for name in _METHODS)
        text = f"{row['variance_ratio']:.1f}"
        ax.annotate(text, (row["n_validation"], top), (0, 5), textcoords="offset points", ha="center", fontsize=8, color="0.35")
    ax.plot([], [], " ", label="numbers: variance of EC / variance of TS")
    ax.legend(fontsize=9)


def _columns(rows: Sequence[Row], key: str, shift: float = 1.0) -> tuple[list[float], list[float], list[float]]:
    """Sizes, values and error bars of a column."""
    return [shift * row["n_validation"] for row in rows], [row[key] for row in rows], [row[f"{key}_se"] for row in rows]
