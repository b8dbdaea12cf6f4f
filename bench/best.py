"""Which rule "best" should use to choose among calibrators, and whether it is as good as CalibratedClassifierCV.

    python bench/best.py --cache FOLDER                  # everything; an hour or two on one core
    python bench/best.py --cache FOLDER --quick          # four cells, one split, few draws; in seconds
    python bench/best.py --cache FOLDER --again          # our methods again, with the classifiers and the peers of the last run
    python bench/best.py --cache FOLDER --nested-only    # scikit-learn's variants chosen by folds: one section
    python bench/best.py --cache FOLDER --tables-only    # the page, from what FOLDER has

`best_cells.py` has the data and the classifiers, whose scores are kept in FOLDER, `best_contestants.py` what is measured,
`best_rules.py` the rules, `best_results.py` the tests. Rules are chosen on one half of the cells, and reported on the
other. Choosing among the variants of scikit-learn takes 25 classifiers more per split, so that few splits have it (--nested).
The bundled networks and a simulation of a rare class come last. Writes best.md to the folder of results.
"""

import argparse
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from best_cells import CELLS, Cell
from best_contestants import load_measures
from best_imbalance import CLASSIFIERS, load_draws
from best_networks import QUICK, load_network
from best_results import collect
from best_tables import renew_choice, report
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
    parser.add_argument("--again", action="store_true", help="measure our methods again")
    parser.add_argument(
        "--peers-only", action="store_true", help="fit classifiers and peers, for later runs, and write nothing"
    )
    parser.add_argument("--tables-only", action="store_true", help="from what the cache has")
    parser.add_argument("--splits", type=int, default=20, help="at most so many per cell")
    parser.add_argument("--nested", type=int, default=1, help="splits per cell in which scikit-learn's variants are chosen")
    parser.add_argument("--nested-only", action="store_true", help="these splits only, and their section of the page")
    parser.add_argument("--draws", type=int, default=150, help="of the simulation of a rare class")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the page")
    options = parser.parse_args()
    cells, n_splits, names, draws = CELLS, options.splits, data.names(), options.draws
    if options.quick:
        cells, n_splits, names, draws = list(QUICK_CELLS), 1, QUICK, 2
    n_nested = min(n_splits, options.nested)
    kinds = ("peers", "ours", "nested")
    if options.nested_only:
        if not options.tables_only:
            measure(cells, n_nested, options.cache, kinds)
        by_folds = collect(cells, n_nested, options.cache, fit=not options.tables_only, nested=True)
        page = options.out / "best.md"
        page.write_text(renew_choice(page.read_text(encoding="utf-8"), by_folds), encoding="utf-8")
        return
    if options.peers_only:
        measure(cells, n_splits, options.cache, ("peers",))
        return
    if options.again:
        for kind in ("ours", "networks", "imbalance"):
            shutil.rmtree(options.cache / kind, ignore_errors=True)
    if not options.tables_only:
        measure(cells, n_nested, options.cache, kinds)
        measure(cells, n_splits, options.cache)
    results = collect(cells, n_splits, options.cache, fit=not options.tables_only)
    by_folds = collect(cells, n_nested, options.cache, fit=not options.tables_only, nested=True)
    networks = {name: load_network(name, options.cache) for name in names}
    simulated = {kind: load_draws(kind, draws, options.cache) for kind in CLASSIFIERS}
    (options.out / "best.md").write_text(report(results, by_folds, networks, simulated), encoding="utf-8")


if __name__ == "__main__":
    main()
