"""Which rule "best" should use to choose among calibrators, and whether it is as good as CalibratedClassifierCV.

    python bench/studies/best.py --cache FOLDER          # everything; an hour or two on one core
    python bench/studies/best.py --cache FOLDER --quick  # four cells, one split, few draws; in seconds
    python bench/studies/best.py --cache FOLDER --tables-only  # the page, from what FOLDER has

`best_cells.py` has the data and the classifiers, whose scores are kept in FOLDER, `best_contestants.py` what is measured,
`best_rules.py` the rules and the tests. Rules are chosen on one half of the cells, and reported on the other. Choosing among
the variants of scikit-learn takes 25 classifiers more per split, so that few splits have it (--nested). The bundled networks
and a simulation of a rare class come last. Writes best.md to the folder of results.
"""

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from best_cells import CELLS, CHOOSING, Cell
from best_contestants import CANDIDATES, NUMBERS, PEERS, Measures, load_measures
from best_rules import (
    BY_FOLDS,
    CLASSIFIERS,
    ONCE,
    QUICK,
    REPEATED,
    RULE,
    RULES,
    SET,
    SETS,
    WAYS,
    WITH_ALL_RULES,
    WORSE,
    Results,
    collect,
    holm,
    load_draws,
    load_network,
    members,
    mixture_loss,
    non_inferiority,
)
from nishimori import data

ROUNDS = (1, 2, 4, 7, 10, 15, 20)  # splits of all cells, so that a run that is interrupted has numbers of each cell
QUICK_CELLS = (
    Cell("iris", "naive bayes"),
    Cell("breast cancer", "logistic"),
    Cell("wine", "neighbours"),
    Cell("noise, 200", "svc"),
)


def measure(cells: Iterable[Cell], n_splits: int, cache: Path, kinds: Sequence[str] = ("peers", "ours")) -> None:
    """Fit what the folder ``cache`` does not have."""
    start, done = time.perf_counter(), 0
    for until in [each for each in ROUNDS if each < n_splits] + [n_splits]:
        for cell in cells:
            for split in range(done, min(until, cell.n_splits)):
                for kind in kinds:
                    load_measures(cell, split, cache, kind)
            print(f"{time.perf_counter() - start:.0f} s: {cell.name}, {min(until, cell.n_splits)} splits", flush=True)
        done = until


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder of scores and measured values")
    parser.add_argument("--quick", action="store_true", help="a few cells, splits and draws")
    parser.add_argument("--tables-only", action="store_true", help="from what the cache has")
    parser.add_argument("--splits", type=int, default=20, help="at most so many per cell")
    parser.add_argument("--nested", type=int, default=1, help="splits per cell in which scikit-learn's variants are chosen")
    parser.add_argument("--draws", type=int, default=150, help="of the simulation of a rare class")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results", help="folder of the page")
    options = parser.parse_args()
    cells, n_splits, names, draws = CELLS, options.splits, data.names(), options.draws
    if options.quick:
        cells, n_splits, names, draws = list(QUICK_CELLS), 1, QUICK, 2
    n_nested = min(n_splits, options.nested)
    kinds = ("peers", "ours", "nested")
    if not options.tables_only:
        measure(cells, n_nested, options.cache, kinds)
        measure(cells, n_splits, options.cache)
    results = collect(cells, n_splits, options.cache, fit=not options.tables_only)
    by_folds = collect(cells, n_nested, options.cache, fit=not options.tables_only, nested=True)
    networks = {name: load_network(name, options.cache) for name in names}
    simulated = {kind: load_draws(kind, draws, options.cache) for kind in CLASSIFIERS}
    (options.out / "best.md").write_text(report(results, by_folds, networks, simulated), encoding="utf-8")


# The page of results of the benchmark of "best".

CHOSEN = f"{RULE}: {SET}"
MARGIN = float(np.log(1.02))
TITLE_BY_FOLDS = "## Against scikit-learn's six, chosen by the same folds"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table in Markdown, and an empty one."""
    return [f"| {' | '.join(headers)} |", "|---" * len(headers) + "|", *(f"| {' | '.join(row)} |" for row in rows), ""]


def percent(ratios: np.ndarray, error: bool = True) -> str:
    """The mean of log-ratios as a change in percent, with its standard error over cells."""
    shown = f"{100 * np.expm1(ratios.mean()):+.1f}"
    return f"{shown} ± {100 * ratios.std(ddof=1) / np.sqrt(len(ratios)):.1f}" if error and len(ratios) > 1 else shown


def report(results: Results, by_folds: Results, networks: dict[str, Measures], draws: dict[str, dict[str, np.ndarray]]) -> str:
    """The whole page; ``by_folds`` are the results of the splits in which the six variants are chosen by folds."""
    halves = _halves(results.cells)
    lines = _introduction(results)
    for title, cells in halves.items():
        if len(cells) > 1:
            lines += [f"## Rules on {title}", "", *_rules(results, cells)]
    told = halves["the other half"]
    if len(told) > 1:
        lines += ["## Against scikit-learn, on the other half", "", *_against_peers(results, told)]
        lines += ["## Against scikit-learn, on all cells", "", *_against_peers(results, results.cells)]
        lines += ["## Against our best single method", "", *_against_ours(results, halves)]
    lines += [TITLE_BY_FOLDS, "", *_against_choice(by_folds)] if by_folds.cells else []
    lines += ["## Other numbers", "", *_other_numbers(results)]
    lines += ["## Which candidates the rule takes", "", *_wins(results)]
    lines += ["## Cells in which the rule is more than 2 % worse than the best of the six", "", *_losses(results)]
    lines += ["## Few samples of a rare class", "", *_imbalance(draws)] if draws else []
    lines += ["## Networks", "", *_networks(networks)] if networks else []
    lines += ["## All cells", "", *_all_cells(results)]
    return "\n".join(lines)


def _halves(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    cells = list(cells)
    return {
        "the half on which rules are chosen": [cell for cell in cells if cell in CHOOSING],
        "the other half": [cell for cell in cells if cell not in CHOOSING],
    }


def _introduction(results: Results) -> list[str]:
    splits = sorted({len(results.numbers[CHOSEN][cell]) for cell in results.cells})
    zeros = {name: sum(results.mean(name, cell, "zeros") > 0 for cell in results.cells) for name in PEERS}
    errors = {name: _total(results, name, "failed") for name in results.numbers if ": " not in name}
    failed = ", ".join(f"{name} {int(n)}" for name, n in errors.items() if n and " or " not in name) or "none"
    return [
        "# A rule that chooses among calibrators",
        "",
        "Written by `python bench/studies/best.py --cache FOLDER`.",
        "",
        f"{len(results.cells)} cells, each a data set and a classifier, with {splits[0]} to {splits[-1]} random splits. "
        "In each split the same classifiers, fitted to the same five folds, are calibrated by all contestants. Our methods are "
        'fitted to the pooled out-of-fold scores (`ensemble=False`, `floor="auto"`). A rule sees what probability each '
        "candidate gives to the true class of these rows when it is fitted to four fifths of them.",
        "",
        "Log-losses count a probability of zero as 2.2e-16, for all contestants, as scikit-learn's `log_loss` does. Cells in "
        "which a true class of a test row has such a probability: "
        + "; ".join(f"{name} {n}" for name, n in zeros.items() if n)
        + f". Fits that raised an error, whose scores are taken as they are: {failed}.",
        "",
        "Changes are differences of the logarithms of mean test losses, averaged over cells, in percent, with standard errors "
        "over cells; negative numbers are in favour of the first.",
        "",
    ]


def _total(results: Results, name: str, number: str) -> float:
    return sum(rows[:, NUMBERS.index(number)].sum() for rows in results.numbers[name].values())


def _rules(results: Results, cells: Sequence[Cell]) -> list[str]:
    """Rules with all candidates; sets of candidates; ways of use."""
    strongest = results.strongest(PEERS, cells)
    single = results.strongest(results.singles(cells), cells)
    headers = ("", f"against {strongest}", "against the best of the six in each cell", f"against {single}", "cells > 2 % worse")

    def rows(names: Iterable[str]) -> Iterable[tuple[str, ...]]:
        for name in names:
            if not results.has(name, cells):
                continue
            best = _from_best_peer(results, name, cells)
            yield (
                f"**{name}**" if name == CHOSEN else name,
                percent(results.log_ratios(name, strongest, cells)),
                percent(best),
                percent(results.log_ratios(name, single, cells)),
                f"{(best > MARGIN).sum()} of {len(cells)}",
            )

    rules = [f"{rule}: {which}" for which in WITH_ALL_RULES for rule in RULES]
    sets = [f"{rule}: {which}" for rule in ("argmin", "stacking") for which in SETS if which not in WITH_ALL_RULES]
    ways = [f"{rule}: {which}{way}" for which in WITH_ALL_RULES for rule in ("argmin", "stacking") for way in WAYS[1:]]
    lines = [
        f"{len(cells)} cells. The strongest variant of scikit-learn here is {strongest}, our strongest single method {single}.",
        "",
        *table(headers, rows([*rules, *sets, *ways, *results.singles(cells), *PEERS, "none"])),
    ]
    if results.has(f"{REPEATED}: all", cells):
        ratios = results.log_ratios(f"{REPEATED}: all", f"{ONCE}: all", cells)
        lines += [
            f"Three random divisions into folds instead of one, in the first split of each cell: {percent(ratios)} %.",
            "",
        ]
    return lines


def _from_best_peer(results: Results, name: str, cells: Iterable[Cell], number: str = "nll") -> np.ndarray:
    """The log-ratio of the losses of a contestant and of the best variant of scikit-learn in each cell."""
    best = [results.best_of(PEERS, cell, number) for cell in cells]
    ratios = [results.log_ratios(name, other, [cell], number) for other, cell in zip(best, cells, strict=True)]
    return np.concatenate(ratios)


def _against_peers(results: Results, cells: Sequence[Cell]) -> list[str]:
    data = [cell.data for cell in cells]
    contestants = [name for name in (CHOSEN, f"{CHOSEN}{WAYS[1]}", "best") if results.has(name, cells)]
    lines = [
        f"{len(cells)} cells. One-sided t-tests that the mean log-ratio is below log 1.02, cells as units; p by Holm's method "
        "for six comparisons. The last column has data sets as units, because cells of the same data are alike.",
        "",
    ]
    for name in contestants:
        tests = [non_inferiority(results.log_ratios(name, peer, cells), data, MARGIN, peer) for peer in PEERS]
        adjusted, by_data = holm([each.p for each in tests]), holm([each.by_data for each in tests])
        strongest = results.strongest(PEERS, cells)
        rows = [
            (
                f"**{each.other}**" if each.other == strongest else each.other,
                f"{100 * np.expm1(each.mean):+.1f} ± {100 * each.error:.1f}",
                percent(results.log_ratios(name, each.other, cells, "brier")),
                f"{100 * np.expm1(each.largest):+.1f}",
                _small(p),
                _small(q),
            )
            for each, p, q in zip(tests, adjusted, by_data, strict=True)
        ]
        lines += table((name, "change, %", "Brier, %", "largest", "p", "p, data sets"), rows)
    return lines


def _against_choice(results: Results) -> list[str]:
    """The method "best" against the variant of scikit-learn that folds choose, and against each variant, in the same splits."""
    parts = {name: cells for name, cells in _halves(results.cells).items() if cells} | {"all cells": results.cells}
    splits = sorted({len(results.numbers[BY_FOLDS][cell]) for cell in results.cells})
    missing = [cell.name for cell in CELLS if cell not in results.cells]

    def ratios(other: str, cells: Sequence[Cell], number: str) -> np.ndarray:
        if other in results.numbers:
            return results.log_ratios("best", other, cells, number)
        return _from_best_peer(results, "best", cells, number)

    after = "the best of the six in each cell, known only afterwards"
    rows, means = [], [("best", *(f"{_plain(results, 'best', each):.4f}" for each in ("nll", "brier")))]
    for other in (BY_FOLDS, *PEERS, after):
        losses, units = ratios(other, results.cells, "nll"), [cell.data for cell in results.cells]
        rows.append(
            (
                f"**{other}**" if other == BY_FOLDS else other,
                *(percent(ratios(other, cells, "nll")) for cells in parts.values()),
                percent(np.array([losses[np.array(units) == each].mean() for each in sorted(set(units))])),
                f"{100 * np.expm1(losses.max()):+.1f}",
                f"{(losses > MARGIN).sum()}, {(losses < -MARGIN).sum()}",
                *(percent(ratios(other, cells, "brier")) for cells in parts.values()),
            )
        )
        if other in results.numbers:
            means.append((other, *(f"{_plain(results, other, each):.4f}" for each in ("nll", "brier"))))
    headers = ("`best` against", *parts, "data sets as units", "largest", "cells > 2 % worse, better")
    chosen = ", ".join(f"{name.removeprefix('sklearn ')} {n}" for name, n in results.peer_wins.most_common())
    way = f"{CHOSEN}{WAYS[1]}"
    return [
        f"{' to '.join(map(str, splits[:: max(len(splits) - 1, 1)]))} split{'s' if splits[-1] > 1 else ''} per cell, "
        f"{len(results.cells)} of {len(CELLS)} "
        "cells; all rows of this section are from these splits, which are fewer than those of other sections. "
        f'`best` chooses by folds, the six do not. "{BY_FOLDS}" does: each fold of the training rows is predicted by each '
        "variant of `CalibratedClassifierCV`, fitted to the other four with five folds of its own, and the variant with the "
        "lowest log-loss is fitted to all training rows, as by `GridSearchCV` over `method` and `ensemble`. The inner folds "
        "take 25 classifiers more; the pooled variants need no others, because the classifiers of four folds are known. "
        "`best` takes none more.",
        "",
        f"Chosen in so many splits: {chosen}.",
        "",
        *([f"Cells that are missing: {'; '.join(missing)}.", ""] if 0 < len(missing) <= len(CELLS) / 2 else []),
        *table((*headers, *(f"Brier, {name}" for name in parts)), rows),
        "Changes in percent, of the log-loss unless the Brier score is named. With the mean over the classifiers of the "
        f'folds, the log-loss of the rule against "{BY_FOLDS}" changes by '
        f"{percent(results.log_ratios(way, BY_FOLDS, results.cells))} % in all cells.",
        "",
        *_without_zeros(results),
        *table(("mean over cells", "log-loss", "Brier"), means),
    ]


def _without_zeros(results: Results) -> list[str]:
    """The comparison with the variant that folds choose, in cells in which a floor makes no difference."""
    cells = [cell for cell in results.cells if results.mean(BY_FOLDS, cell, "zeros") == 0]
    if not cells:
        return []
    losses, scores = (percent(results.log_ratios("best", BY_FOLDS, cells, each)) for each in ("nll", "brier"))
    return [
        f"In {len(results.cells) - len(cells)} cells the variant that is chosen gives the true class of some test row a "
        f"probability of zero. In the {len(cells)} others, which are known only afterwards, the log-loss of `best` "
        f"against it changes by {losses} %, the Brier score by {scores} %.",
        "",
    ]


def _small(p: float) -> str:
    return f"{p:.1e}" if p < 0.001 else f"{p:.3f}"


def _against_ours(results: Results, halves: dict[str, list[Cell]]) -> list[str]:
    """The rule against each of our methods on the halves and on all cells, by ratios and by plain means of losses."""
    parts = {**halves, "all cells": results.cells}
    rows = []
    for single in results.singles(results.cells):
        ratios = [percent(results.log_ratios(CHOSEN, single, cells)) for cells in parts.values()]
        rows.append((single, *ratios, f"{_plain(results, single):.4f}"))
    rows.sort(key=lambda row: float(row[-1]))
    headers = ("the rule against", *parts, "mean loss, all cells")
    return [f"The mean loss of the rule over all cells is {_plain(results, CHOSEN):.4f}.", "", *table(headers, rows)]


def _plain(results: Results, name: str, number: str = "nll") -> float:
    return float(np.mean([results.mean(name, cell, number) for cell in results.cells]))


def _other_numbers(results: Results) -> list[str]:
    names = [CHOSEN, "best", *PEERS, *results.singles(results.cells), "none"]
    rows = [
        (
            f"**{name}**" if name == CHOSEN else name,
            f"{_plain(results, name):.4f}",
            f"{np.exp(np.mean([np.log(results.mean(name, cell)) for cell in results.cells])):.4f}",
            f"{_plain(results, name, 'brier'):.4f}",
            f"{100 * _plain(results, name, 'ece'):.2f}",
            f"{100 * _plain(results, name, 'accuracy'):.2f}",
            f"{_plain(results, name, 'seconds'):.3f}",
        )
        for name in names
        if results.has(name, results.cells)
    ]
    headers = ("", "log-loss", "its geometric mean", "Brier", "ECE, %", "accuracy, %", "seconds")
    return [
        "Means over cells. ECE has 15 bins of equal width, without correction. Seconds are those of the calibration in one "
        "thread of a busy machine, without the classifiers; those of the rule are the sum over all candidates.",
        "",
        *table(headers, rows),
    ]


def _wins(results: Results) -> list[str]:
    two, more = Counter[str](), Counter[str]()
    for cell, wins in results.wins.items():
        (two if cell.n_classes == 2 else more).update(wins)
    rows = [
        (name, *(f"{100 * c[name] / max(c.total(), 1):.1f}" if c[name] else "" for c in (two, more))) for name in CANDIDATES
    ]
    return [
        "Percent of splits. With two classes `matrix` is the same map as `vector`, which comes first.",
        "",
        *table(("", f"two classes ({two.total()} splits)", f"more ({more.total()} splits)"), rows),
    ]


def _losses(results: Results) -> list[str]:
    ratios = dict(zip(results.cells, _from_best_peer(results, CHOSEN, results.cells), strict=True))
    worse = sorted((cell for cell in results.cells if ratios[cell] > MARGIN), key=lambda cell: -ratios[cell])
    rows = [
        (
            cell.name,
            f"{cell.n_train:,}",
            str(cell.n_classes),
            f"{results.mean(CHOSEN, cell):.4f}",
            results.best_of(PEERS, cell).removeprefix("sklearn "),
            f"{results.mean(results.best_of(PEERS, cell), cell):.4f}",
            f"{100 * np.expm1(ratios[cell]):+.1f} ± {100 * _error(results, cell):.1f}",
            reason(results, cell),
        )
        for cell in worse
    ]
    headers = ("cell", "n", "K", "rule", "best of the six", "its loss", "worse by, %", "reason")
    return [
        f"{len(worse)} of {len(results.cells)} cells. The best of six is chosen with the test rows, after the fact. Standard "
        "errors are over splits. Reasons: *few rows*: the difference is within two of them; *ensemble*: the "
        "same choice, its calibrator behind the mean of the five classifiers of the folds, is not worse by 2 %; *choice*: "
        "another candidate would not have been worse by 2 %; *candidates*: none of them does as well.",
        "",
        *table(headers, rows),
    ]


def _error(results: Results, cell: Cell) -> float:
    """The standard error over splits of the log-ratio to the best peer."""
    column = NUMBERS.index("nll")
    ours, theirs = (results.numbers[name][cell][:, column] for name in (CHOSEN, results.best_of(PEERS, cell)))
    differences = ours / ours.mean() - theirs / theirs.mean()
    return float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else float("nan")


def reason(results: Results, cell: Cell) -> str:
    """Why the rule is worse than the best peer in a cell, as far as other contestants tell."""
    peer = results.mean(results.best_of(PEERS, cell), cell)
    candidates = members(SET, [name for name in CANDIDATES if cell in results.numbers.get(name, {})], cell.n_train)
    found = []
    if np.log(results.mean(CHOSEN, cell) / peer) < 2 * _error(results, cell):
        found.append("few rows")
    if np.log(results.mean(f"{CHOSEN}{WAYS[1]}", cell) / peer) <= MARGIN:
        found.append("ensemble")
    best = results.best_of(candidates, cell)
    if np.log(results.mean(best, cell) / peer) <= MARGIN:
        found.append(f"choice ({best} {results.mean(best, cell):.4f})")
    elif "ensemble" not in found:
        found.append("candidates")
    return ", ".join(found)


def _imbalance(draws: dict[str, dict[str, np.ndarray]]) -> list[str]:
    rules = list(next(iter(draws.values())))
    shares = {name: [f"{100 * np.mean(found[name] > np.log1p(WORSE)):.0f}" for found in draws.values()] for name in rules}
    means = {name: [f"{100 * np.expm1(found[name].mean()):+.1f}" for found in draws.values()] for name in rules}
    rows = [(name, *(f"{a} ({b})" for a, b in zip(shares[name], means[name], strict=True))) for name in rules]
    n = len(next(iter(next(iter(draws.values())).values())))
    return [
        f"Percent of {n} draws of 200 samples, one in 51 of the second class, in which a rule is more than 5 % worse than "
        "Platt scaling in test log-loss; in brackets its mean change in percent. `best_rules.py` has the distribution.",
        "",
        *table(("", *draws), rows),
    ]


def _networks(networks: dict[str, Measures]) -> list[str]:
    found: dict[str, list[float]] = {}
    wins: Counter[str] = Counter()
    seconds: dict[int, list[float]] = {}
    for measures in networks.values():
        names = members(SET, measures.candidates, measures.held_out.shape[1])
        places = [measures.candidates.index(name) for name in names]
        held_out, on_test = measures.held_out[0][:, places], measures.on_test[0][:, places]
        ts = mixture_loss(on_test, np.eye(len(names))[names.index("ts")])
        for name, rule in RULES.items():
            found.setdefault(f"{name}: {SET}", []).append(np.log(mixture_loss(on_test, rule(held_out, names)) / ts))
        for i, name in enumerate(names):
            found.setdefault(name, []).append(np.log(mixture_loss(on_test, np.eye(len(names))[i]) / ts))
        wins[names[int(RULES[RULE](held_out, names).argmax())]] += 1
        seconds.setdefault(len(measures.candidates), []).append(float(measures.seconds[places].sum()))
    rows = []
    for name, ratios in found.items():
        shown = f"**{name}**" if name == CHOSEN else name
        rows.append((shown, percent(np.array(ratios)), f"{100 * np.expm1(max(ratios)):+.2f}"))
    return [
        f"{len(networks)} networks, 5,000 validation images to fit to, and their test images. Changes of the NLL against "
        "temperature scaling, ± over networks; ten are ResNet20s and thirteen are tested on the same images, so that these "
        f'errors are too small and there is no test. "{RULE}" chooses '
        + ", ".join(f"{name} {n} times" for name, n in wins.most_common())
        + ".",
        "",
        *table(("", "change, %", "largest"), rows),
    ]


def _all_cells(results: Results) -> list[str]:
    rows = [
        (
            cell.name,
            "choosing" if cell in CHOOSING else "",
            f"{cell.n_train:,}",
            str(cell.n_classes),
            str(len(results.numbers[CHOSEN][cell])),
            f"{results.mean(CHOSEN, cell):.4f}",
            results.wins[cell].most_common(1)[0][0],
            f"{results.mean(results.best_of(PEERS, cell), cell):.4f}",
            results.best_of(PEERS, cell).removeprefix("sklearn "),
            f"{100 * (results.mean(CHOSEN, cell) / results.mean(results.best_of(PEERS, cell), cell) - 1):+.1f}",
        )
        for cell in sorted(results.cells, key=lambda cell: (cell.n_classes, cell.n_train, cell.name))
    ]
    headers = ("cell", "half", "n", "K", "splits", "rule", "most often", "best of six", "which", "change, %")
    return table(headers, rows)


if __name__ == "__main__":
    main()
