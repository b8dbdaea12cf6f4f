"""Temperatures from the k most probable classes alone: bounds, and what simple ways to do without the others give.

    python bench/studies/top_k.py                          # writes bench/results/top_k.md and docs/images/top_k.png, 10 minutes
    python bench/studies/top_k.py --steps 5 --rows 300 --out quick.md --picture quick.png

Data: a small language model that is trained first, networks of CIFAR-100, and generated problems with
50,000 classes whose labels are drawn at T = 1.5: with sharp, peaked and flat predictions. For each k: the temperature
of all logits; of only the rows whose true class is listed; of the listed classes alone, renormalised, with the other rows as
mistakes; of the listed classes and one class "other" with the rest of the probability; the bounds of `nishimori.TopK` and its
temperature, where it gives one, with the standard error.
"""

import argparse
import re
import sysconfig
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from torch import nn

import nishimori
from nishimori.plot._style import COLORS, HUES, MARKERS

# A small language model with a vocabulary of thousands of words, for the study of top-k log-probabilities.
#
# The text is the source of Python's standard library: one document per module. Words are identifiers, numbers, runs of spaces
# and single other characters. Words outside the vocabulary are spelled, so that no token stands for several. The training text
# is short and read many times, which makes the model overconfident on new modules. Needs ``pip install 'nishimori[torch]'``.

VOCABULARY = 4096
LENGTH, BATCH, RATE, STEPS = 32, 16, 1e-2, 400
WORDS_PER_MODULE = 150  # of training text
N_TEST, TOKENS = 60, 200  # modules, and tokens that are predicted in each

_WORD = re.compile(r"[A-Za-z_]+|\d|\n[ ]*|[ ]+|.", re.DOTALL)


class Predicted(NamedTuple):
    """Log-probabilities (tokens, vocabulary), the tokens that came next, and the documents that they are from."""

    log_p: np.ndarray
    labels: np.ndarray
    documents: np.ndarray


class Tokens:
    """The most frequent words of some documents, and all characters."""

    def __init__(self, documents: list[str]) -> None:
        words = [word for document in documents for word in _WORD.findall(document)]
        characters = sorted({character for word in words for character in word})
        frequent = [word for word, _ in Counter(words).most_common(VOCABULARY) if len(word) > 1]
        self.names = ["", *characters, *frequent][:VOCABULARY]
        self._numbers = {name: i for i, name in enumerate(self.names)}

    def of(self, document: str) -> list[int]:
        """The tokens of a document; characters that the training text does not have are left out."""
        found = []
        for word in _WORD.findall(document):
            pieces = [word] if word in self._numbers else word
            found += [self._numbers[piece] for piece in pieces if piece in self._numbers]
        return found


class WordModel(nn.Module):
    """Logits of the next token after each token."""

    def __init__(self, size: int, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size, width)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, size)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.recurrent(self.embedding(text))[0])


def modules() -> tuple[list[str], list[str]]:
    """The sources of Python's modules in random order: for training and for validation."""
    paths = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    found = [text for path in paths if len(text := path.read_text(encoding="utf-8", errors="replace")) > 4000]
    order = np.random.default_rng(0).permutation(len(found))
    return [found[i] for i in order[N_TEST:]], [found[i] for i in order[:N_TEST]]


def trained(tokens: Tokens, documents: list[str], steps: int) -> WordModel:
    """A model that has read random sequences of the documents."""
    torch.manual_seed(0)
    text = torch.tensor([token for document in documents for token in tokens.of(document)[:WORDS_PER_MODULE]])
    model = WordModel(len(tokens.names))
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    for _ in range(steps):
        starts = torch.randint(len(text) - LENGTH, (BATCH,))
        sequences = text[starts[:, None] + torch.arange(LENGTH + 1)]
        loss = nn.functional.cross_entropy(model(sequences[:, :-1]).flatten(0, 1), sequences[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model


def predicted(steps: int = STEPS) -> Predicted:
    """What a new model says about the middle of each validation module."""
    train, held_out = modules()
    tokens = Tokens(train)
    model = trained(tokens, train, steps)
    texts = []
    for document in held_out:
        known = tokens.of(document)
        start = max(0, (len(known) - TOKENS) // 2)
        texts.append(known[start : start + TOKENS + 1])
    text = torch.tensor(texts)
    with torch.inference_mode():
        log_p = model(text[:, :-1]).log_softmax(-1).flatten(0, 1)
    return Predicted(log_p.numpy(), text[:, 1:].flatten().numpy(), np.repeat(np.arange(len(texts)), TOKENS))


mpl.use("Agg")

KS = (5, 10, 20, 50, 100, 1000)
T_DRAWN = 1.5
V_DRAWN = 50_000


@dataclass(frozen=True)
class Data:
    """Log-probabilities of all classes, and labels. The largest are sorted once for all k."""

    name: str
    log_p: np.ndarray
    labels: np.ndarray

    @cached_property
    def most_probable(self) -> np.ndarray:
        """The most probable classes of each row, in order."""
        most = min(max(KS), self.log_p.shape[1] - 1)
        found = []
        for rows in np.array_split(self.log_p, -(-len(self.log_p) // 500)):  # the positions of all classes would not fit
            some = np.argpartition(-rows, most - 1, axis=1)[:, :most]
            found.append(np.take_along_axis(some, np.argsort(-np.take_along_axis(rows, some, axis=1), axis=1), axis=1))
        return np.concatenate(found)


@dataclass(frozen=True)
class Row:
    """What one k gives; temperatures are None where there is none."""

    k: int
    listed: float  # share of true classes
    tail: float  # mean probability that is not listed
    rows_listed: float | None
    renormalised: float | None
    other: float | None
    found: nishimori.results.Temperatures


@dataclass(frozen=True)
class Study:
    """What all k of one data set give, and all logits."""

    name: str
    shape: tuple[int, ...]
    full: nishimori.results.Temperatures
    rows: list[Row]


def generated(n: int, scale: float) -> np.ndarray:
    """Log-probabilities as in natural language: frequent words are likely everywhere, and each row has its own likely ones."""
    rng = np.random.default_rng(0)
    log_p = -np.log(np.arange(1, V_DRAWN + 1)).astype(np.float32)
    log_p = log_p + scale * rng.standard_normal((n, V_DRAWN), dtype=np.float32)
    for row in range(n):
        log_p[row] -= log_p[row].max()
        log_p[row] -= np.log(np.exp(log_p[row], dtype=np.float64).sum())
    return log_p


def drawn(log_p: np.ndarray, temperature: float) -> np.ndarray:
    """Labels from softmax(log p / T)."""
    rng = np.random.default_rng(1)
    return np.array([(row / temperature - np.log(rng.standard_exponential(V_DRAWN))).argmax() for row in log_p])


def bundled(name: str, n: int) -> Data:
    """A network of CIFAR-100 on its validation images."""
    part = nishimori.data.load(name).validation
    logits = np.asarray(part.logits, dtype=np.float64)[:n]
    logits -= logits.max(axis=1, keepdims=True)
    return Data(name, logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), np.asarray(part.labels)[:n])


def language_model(steps: int, kept: Path | None) -> Data:
    """What the language model says; from ``kept`` if that file exists, else it is written there."""
    if kept is not None and kept.exists():
        stored = np.load(kept)
        log_p, labels = stored["log_p"], stored["labels"]
    else:
        log_p, labels, _ = predicted(steps)
        if kept is not None:
            np.savez(kept, log_p=log_p, labels=labels)
    return Data("language model, 4,096 words", log_p, labels)


def ec(logits: np.ndarray, labels: np.ndarray) -> float | None:
    """The temperature of expectation consistency, or None."""
    try:
        return nishimori.ExpectationConsistency().fit(logits, labels).temperature_
    except nishimori.errors.NoTemperatureError:
        return None


def measured(data: Data, k: int, decimals: int = 17) -> Row:
    """All ways for one k, with log-probabilities that are rounded to so many decimals."""
    rows = np.arange(len(data.labels))
    indices = data.most_probable[:, :k]
    logs = np.take_along_axis(data.log_p, indices, axis=1).astype(np.float64).round(decimals)
    is_label = indices == data.labels[:, None]
    inside = is_label.any(axis=1)
    column = np.where(inside, is_label.argmax(axis=1), k)
    tail = np.maximum(1 - np.exp(logs).sum(axis=1), 1e-12)
    masked = np.column_stack([logs, np.full(len(rows), -np.inf)])  # a class that is never predicted and never likely
    label_logs = data.log_p[rows, data.labels].astype(np.float64).round(decimals)
    given = nishimori.TopK(indices, logs, data.log_p.shape[1], label_log_probabilities=label_logs)
    return Row(
        k=k,
        listed=inside.mean(),
        tail=tail.mean(),
        rows_listed=ec(logs[inside], column[inside]),
        renormalised=ec(masked, column),
        other=ec(np.column_stack([logs, np.log(tail)]), column),
        found=nishimori.temperatures(given, data.labels),
    )


def number(value: float | None) -> str:
    """Three digits, or a dash."""
    return "–" if value is None else "∞" if np.isinf(value) else f"{value:.3f}"


def bounds(interval: tuple[float, float] | None, point: float | None, se: float | None) -> str:
    """An interval, and the point with its standard error."""
    if interval is None:
        return "– | –"
    chosen = "–" if point is None else f"{point:.3f} ± {se:.3f}"
    return f"{number(interval[0])} to {number(interval[1])} | {chosen}"


def table(study: Study) -> str:
    """The section of one data set."""
    full = study.full
    lines = [
        f"### {study.name}",
        "",
        f"{study.shape[0]:,} samples, {study.shape[1]:,} classes, accuracy {full.accuracy:.3f}. All logits: EC "
        f"{full.ec:.3f} ± {full.ec_se:.3f}, TS {full.ts:.3f} ± {full.ts_se:.3f}.",
        "",
        '| k | truth listed | mean mass not listed | EC, rows with listed truth | EC, renormalised | EC, class "other" | '
        "EC bounds | EC | TS bounds | TS |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in study.rows:
        own = row.found
        naive = " | ".join(number(each) for each in (row.rows_listed, row.renormalised, row.other))
        ours = f"{bounds(own.ec_bounds, own.ec, own.ec_se)} | {bounds(own.ts_bounds, own.ts, own.ts_se)}"
        lines.append(f"| {row.k:,} | {row.listed:.1%} | {row.tail:.2g} | {naive} | {ours} |")
    return "\n".join(lines) + "\n"


def draw(path: Path, studies: list[Study]) -> None:
    """The bounds of EC against k, beside the simple ways."""
    figure, all_axes = plt.subplots(1, len(studies), figsize=(4.2 * len(studies), 3.9), layout="constrained")
    for axes, study in zip(all_axes, studies, strict=True):
        full, found = study.full, study.rows
        ks = [row.k for row in found]
        axes.axhspan(full.ec - full.ec_se, full.ec + full.ec_se, color=HUES["black"], alpha=0.15, linewidth=0)
        axes.axhline(full.ec, color=HUES["black"], linewidth=1, label="all logits, ± standard error")
        low = np.array([row.found.ec_bounds.low for row in found])
        high = np.array([row.found.ec_bounds.high for row in found])
        axes.fill_between(ks, low, np.minimum(high, 10), color=COLORS["ec"], alpha=0.25, linewidth=0, label="TopK bounds")
        points = [(row.k, row.found.ec) for row in found if row.found.ec is not None]
        places = np.array(points).reshape(-1, 2).T
        axes.plot(*places, MARKERS["ec"], color=COLORS["ec"], markersize=9, zorder=5, label="TopK temperature")
        for name, label, color, marker in (
            ("rows_listed", "only rows with listed truth", HUES["blue"], "s"),
            ("renormalised", "renormalised", HUES["purple"], "P"),
            ("other", 'one class "other"', HUES["green"], "v"),
        ):
            axes.plot(ks, [getattr(row, name) or np.nan for row in found], marker + "-", color=color, label=label, markersize=4)
        axes.set(xscale="log", title=study.name, xlabel="listed classes k")
        ends = np.array([*low, *high, *(row.other for row in found)])  # what leaves the picture is far from all others
        axes.set_ylim(ends.min() - 0.1, ends.max() + 0.1)
        axes.set_xticks(ks, [f"{k:,}" for k in ks])
        axes.minorticks_off()
    all_axes[0].set_ylabel("temperature of expectation consistency")
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=110)


def of_rounded(data: Data, k: int) -> str:
    """The bounds from log-probabilities that are rounded to few decimals."""
    lines = ["| decimals | EC bounds |", "|---|---|"]
    for decimals in (6, 5, 4, 3, 2):
        try:
            found = measured(data, k, decimals).found.ec_bounds
            lines.append(f"| {decimals} | {found.low:.4f} to {found.high:.4f} |")
        except nishimori.errors.InputError as error:
            lines.append(f"| {decimals} | refused: {error} |")
    return "\n".join([f"### Rounded log-probabilities: {data.name}, k = {k}", "", *lines]) + "\n"


def of_temperatures(data: Data, k: int) -> str:
    """The bounds where labels are drawn at different temperatures."""
    lines = ["| labels drawn at T | EC bounds | EC |", "|---|---|---|"]
    for temperature in (0.7, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0):
        other = replace(data, labels=drawn(data.log_p, temperature))
        other.__dict__["most_probable"] = data.most_probable
        own = measured(other, k).found
        lines.append(f"| {temperature} | {bounds(own.ec_bounds, own.ec, own.ec_se)} |")
    return "\n".join([f"### Farther from T = 1: {data.name}, k = {k}", "", *lines]) + "\n"


def studied(data: Data) -> Study:
    """All k of a data set."""
    full = nishimori.temperatures(data.log_p, data.labels)
    found = Study(data.name, data.log_p.shape, full, [measured(data, k) for k in KS if k < data.log_p.shape[1]])
    print(table(found))
    return found


def main(out: Path, picture: Path, n: int, steps: int, kept: Path | None) -> None:
    """Measure all data sets and write both files."""
    model = language_model(steps, kept)
    model = Data(model.name, model.log_p[:n], model.labels[:n])
    studies, more = [studied(model)], [of_rounded(model, 20)]
    del model
    studies += [studied(bundled(name, n)) for name in ("cifar100/vgg19", "cifar100/resnet56-conv")]
    for name, scale in (("sharp", 12.0), ("peaked", 6.0), ("flat", 2.5)):
        log_p = generated(min(n, 2000), scale)
        data = Data(f"generated, 50,000 classes, {name}", log_p, drawn(log_p, T_DRAWN))
        studies.append(studied(data))
        if name != "flat":
            more.append(of_temperatures(data, 20))
    head = (
        'Temperatures from the k most probable classes alone. "Truth listed" is the share of samples whose true class is among '
        f"them. TS uses the log-probabilities of all true classes. Written by `python bench/studies/top_k.py` with nishimori "
        f"{nishimori.__version__}.\n"
    )
    out.write_text("\n".join([head, *map(table, studies), *more]))
    draw(picture, [studies[i] for i in (0, 1, 4)])


if __name__ == "__main__":
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=here / "results" / "top_k.md")
    parser.add_argument("--picture", type=Path, default=here.parent / "docs" / "images" / "top_k.png")
    parser.add_argument("--rows", type=int, default=100_000, help="samples of each data set at most")
    parser.add_argument("--steps", type=int, default=STEPS, help="training steps of the language model")
    parser.add_argument("--kept", type=Path, help="an .npz file for what the language model says: written once, then read")
    given = parser.parse_args()
    main(given.out, given.picture, given.rows, given.steps, given.kept)
