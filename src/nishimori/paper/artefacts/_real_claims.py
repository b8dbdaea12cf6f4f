"""Sentences of the paper on real data that can be true or false, each tested with the logits of networks.

Calibration uses clean validation images unless a line says otherwise. All networks count: the authors' three and our eight.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nishimori import metrics
from nishimori.paper._artefact import Finding, Pieces, Scale, compared
from nishimori.paper._measured import Row, network, scores
from nishimori.paper._names import resnet20_on
from nishimori.paper._printed import printed
from nishimori.paper.artefacts._figure_curves import FigureCurves
from nishimori.paper.artefacts._figure_train_size import FigureTrainSize
from nishimori.paper.artefacts._rows import AUGMENTED, networks_of_tables, trained_networks
from nishimori.paper.artefacts._table_corrupted import noisy_scores

_KINDS = ("real", "corrupted", "fraction", "curves")


def pieces(scale: Scale) -> Mapping[str, Callable[[], Any]]:
    """The work behind the sentences."""
    fractions = printed()["figure-train-size"]["fraction"]
    return {
        **{f"real {name}": partial(_real, name, scale) for name in networks_of_tables()},
        **{f"corrupted {name}": partial(noisy_scores, name, scale) for name in networks_of_tables()},
        **{f"fraction {each:g}": partial(_real, str(resnet20_on(each)), scale) for each in fractions},
        **{f"curves {name}": work for name, work in FigureCurves().pieces(scale).items()},
        "sizes": partial(_sizes, scale),
    }


def networks() -> list[str]:
    """The networks that the sentences are about."""
    return list(dict.fromkeys([*trained_networks(), *FigureTrainSize().networks()]))


def findings(done: Pieces) -> Iterator[Finding]:
    """Each sentence, with our number and whether it holds."""
    real, corrupted, fraction, curves = (
        {key.removeprefix(f"{kind} "): value for key, value in done.items() if key.startswith(f"{kind} ")} for kind in _KINDS
    )
    rows = [each["clean"] for each in real.values()]
    yield from _on_setup(done)
    yield from _on_tables(rows)
    yield from _on_curves(*curves.values())
    yield from _on_train_size([each["clean"] for each in fraction.values()])
    yield from _on_noise(corrupted, rows)


def _on_setup(done: Pieces) -> Iterator[Finding]:
    sizes, paper = done["sizes"], printed()["table-real"]["setup"]
    for model, claimed in paper["parameters"].items():
        yield compared(f"A: million parameters of {model}", sizes["parameters"][model] / 1e6, claimed, 0.005)
    ours, theirs = (f"{each['train']:,} + {each['validation']:,}" for each in (sizes["svhn"], paper["svhn"]))
    yield Finding("4: training and validation digits of SVHN", ours, theirs, ours == theirs)
    hot = sizes["hot_confidence"]
    yield Finding("3: a network's mean confidence falls to zero as T grows", f"{hot:.3g} at T = 1e6", "0", hot < 0.01)


def _on_tables(rows: list[Row]) -> Iterator[Finding]:
    n = len(rows)
    apart = max(difference(row) for row in rows)
    text, theirs = (f"within {each:.1%}" for each in (apart, _printed_apart()))
    yield Finding("4: EC and TS yield very similar temperatures", text, theirs, apart <= _printed_apart())
    cold = min(min(row["temperature_ts"], row["temperature_ec"]) for row in rows)
    yield Finding("4: both give T > 1: the networks were overconfident", f"T of at least {cold:.3g}", "T > 1", cold > 1)
    for metric, label in (("ece", "calibration"), ("brier", "the Brier score")):
        better = sum(row[metric] > max(row[f"{metric}_ts"], row[f"{metric}_ec"]) for row in rows)
        yield Finding(f"4: both methods improve {label}", f"on {better} of {n}", "all", better == n)
    apart = max(abs(row["brier_ts"] - row["brier_ec"]) for row in rows)
    yield Finding("4: with very similar Brier scores", f"within {100 * apart:.2g} of 100", "within 0.3", apart < 0.003)
    # Rounded as the table prints them.
    lower = sum(round(100 * row["ece_ec"], 1) <= round(100 * row["ece_ts"], 1) for row in rows)
    yield Finding("Table 1: EC has at least as low an ECE as TS in every row", f"in {lower} of {n}", "8 of 8", lower == n)


def _printed_apart() -> float:
    """The largest relative difference of the two temperatures in the paper's Table 1, which it calls similar."""
    return float(max(abs(ts - ec) / ts for _, ts, ec, *_ in printed()["table-real"]["rows"].values()))


def _on_curves(dense: Mapping[str, Any], res: Mapping[str, Any]) -> Iterator[Finding]:
    paper = printed()["figure-curves"]
    theirs, _ = _distance(paper, (paper["least_ece_temperature"], paper["least_ece"]))
    for kind in ("clean", "augmented"):
        what = f"4: neither T is close to the minimum of ECE (DenseNet121, {kind} validation)"
        text, nearest = _distance(dense[kind], dense["least_ece"])
        yield Finding(what, text, theirs, nearest > 0.1)
    apart = _apart(res["reliability"])
    what = "Figure: EC's reliability diagram is indistinguishable from TS's (ResNet20)"
    yield Finding(what, f"{100 * apart:.2g} points apart at most", "indistinguishable", apart < 0.02)


def _apart(bins: Sequence[Mapping[str, Any]]) -> float:
    """The largest vertical distance of the diagrams after TS and after EC."""
    lines = [np.array([(row["confidence"], row["accuracy"]) for row in bins if row["when"] == when]).T for when in ("TS", "EC")]
    grid = np.linspace(max(line[0, 0] for line in lines), min(line[0, -1] for line in lines), 200)
    ts, ec = (np.interp(grid, *line) for line in lines)
    return float(np.abs(ts - ec).max())


def _distance(chosen: Mapping[str, float], least: Sequence[float]) -> tuple[str, float]:
    """The distance from the smallest ECE to the nearer of the two temperatures, in words and in T."""
    temperature, ece = least
    excess = min(chosen[f"ece_{method}"] for method in ("ts", "ec")) - ece
    nearest = min(abs(chosen[f"temperature_{method}"] - temperature) for method in ("ts", "ec"))
    return f"{nearest:.2f} away in T, {100 * excess:.2f} points in ECE", nearest


def _on_train_size(rows: list[Row]) -> Iterator[Finding]:
    errors = np.array([row["error"] for row in rows])
    falls = int((np.diff(errors) < 0).sum())
    rank = float(np.corrcoef(np.argsort(np.argsort(-errors)), np.arange(len(rows)))[0, 1])
    what = "4: accuracy grows with the training set"
    yield Finding(what, f"in {falls} of {len(rows) - 1} steps, rank correlation {rank:.2f}", "grows", rank > 0.8)
    apart = max(difference(row) for row in rows)
    text, theirs = (f"within {each:.1%}" for each in (apart, _printed_apart()))
    what = "4: T_TS and T_EC are extremely similar at every size, as in Table 1"
    yield Finding(what, text, theirs, apart <= _printed_apart())


def _on_noise(corrupted: Pieces, real: list[Row]) -> Iterator[Finding]:
    paper = printed()["table-corrupted"]
    share = float(np.mean([each["noisy"] for each in corrupted.values()]))
    yield compared("C: share of labels that are replaced, around", share, paper["noisy"], 0.02)
    ours = [corrupted[name] for name in trained_networks()]
    clean, paper_method = (
        float(np.mean([lead_of(each.get(kind, each["clean"])) for each in ours])) for kind in ("clean", "augmented")
    )
    what = "4: EC's mean reduction of the ECE under label noise, eight networks"
    yield compared(what, clean, paper["ece_reduction"], 0.05, paper_method=paper_method, explanation=AUGMENTED)
    rows = [each["clean"] for each in corrupted.values()]
    lower = sum(row["ece_ec"] < row["ece_ts"] for row in rows)
    what = "C: EC outperforms TS by a significant margin on several networks"
    large = sum(lead_of(row) > 0.2 for row in rows)
    yield Finding(what, f"lower ECE on {lower} of {len(rows)}, by over a fifth on {large}", "several", large > 2)
    with_noise, without = (float(np.mean([difference(row) for row in each])) for each in (rows, real))
    what = "4: under noise the temperatures differ, contrary to Table 1"
    yield Finding(what, f"by {with_noise:.0%}, against {without:.0%}", "differ", with_noise > 3 * without)


def difference(row: Mapping[str, float]) -> float:
    """The difference of the two temperatures, relative to that of TS."""
    return abs(row["temperature_ts"] - row["temperature_ec"]) / row["temperature_ts"]


def lead_of(row: Mapping[str, float]) -> float:
    """How much lower the ECE is after EC than after TS, relative to TS; the mean over the paper's own table is its 7 %."""
    return (row["ece_ts"] - row["ece_ec"]) / row["ece_ts"]


def _real(name: str, scale: Scale) -> dict[str, Row]:
    found = network(name, scale)
    return {"clean": scores(found.validation, found.test)}


def _sizes(scale: Scale) -> dict[str, Any]:
    models = printed()["table-real"]["setup"]["parameters"]
    svhn = network("svhn/resnet20", scale)
    validation = network("cifar10/resnet20", scale).validation
    return {
        "parameters": {model: network(f"cifar10/{model}", scale).provenance["parameters"] for model in models},
        "svhn": {"train": svhn.provenance["n_train"], "validation": len(svhn.validation.labels)},
        "hot_confidence": metrics.confidence(validation.logits, validation.labels, temperature=1e6),
    }
