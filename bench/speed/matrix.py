"""Time and memory of matrix scaling: beside scikit-learn's temperature, with a thousand classes, and inside `compare`.

    python bench/speed/matrix.py -o bench/results/matrix.md                    # this version, some minutes
    python bench/speed/matrix.py --before OLD/src -o bench/results/matrix.md   # another version first, in the same run
    python bench/speed/matrix.py --quick                                       # small sizes, in seconds

Each measurement is a process of its own with one thread of BLAS; the thousand classes have two. Seconds are those of the
processor, the least of several fits, and those of the clock. Memory is what the fit adds to the largest that the process had
before. Rows of 20 classes are scores of scikit-learn's classifiers for generated data; the others are drawn from an affine map
of normal logits.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, resource, sys, time, warnings
import numpy as np

warnings.simplefilter("ignore")
sys.path[:0] = [f"{sys.argv[1]}/speed", f"{sys.argv[1]}/studies"]
import nishimori
from matrix import compared, drawn, fitted, numbers_of, scores
from calibrator_peer_fits import of_sklearn

what, n, k, repeat = sys.argv[2], *map(int, sys.argv[3:6])
data = {"drawn": drawn(n, k)} if what in ("fit", "compare") else scores(n, k)
calls = {"fit": fitted, "scores": fitted, "compare": compared, "sklearn": of_sklearn("temperature")}
for name, (logits, labels) in data.items():
    if repeat > 1:
        calls[what](logits, labels)
    before, cpu, clock = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, [], []
    for _ in range(repeat):
        started, seconds = time.perf_counter(), time.process_time()
        found = calls[what](logits, labels)
        clock.append(time.perf_counter() - started)
        cpu.append(time.process_time() - seconds)
    added = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    numbers = numbers_of(found, logits, labels)
    print(json.dumps({"data": name, "cpu": min(cpu), "clock": min(clock), "added": added, **numbers}), flush=True)
"""


def drawn(n: int, k: int) -> tuple[Any, Any]:
    """Overconfident logits in float32, and labels from an affine map of them."""
    import numpy as np  # noqa: PLC0415 - after the number of threads is set

    rng = np.random.default_rng(0)
    logits = 2 * rng.normal(size=(n, k))
    logits[np.arange(n), rng.integers(k, size=n)] += 1.2 * np.log(k)
    scale = np.eye(k) + 0.1 * rng.normal(size=(k, k)) / np.sqrt(k / 20)
    labels = (logits @ scale.T + 0.3 * rng.normal(size=k) + rng.gumbel(size=(n, k))).argmax(axis=1)
    return (1.5 * logits).astype(np.float32), labels


def scores(n: int, k: int) -> dict[str, tuple[Any, Any]]:
    """The scores of several classifiers for rows that they were not trained on."""
    import numpy as np  # noqa: PLC0415
    from sklearn.datasets import make_classification  # noqa: PLC0415
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.naive_bayes import GaussianNB  # noqa: PLC0415
    from sklearn.svm import LinearSVC  # noqa: PLC0415

    X, y = make_classification(2 * n, 40, n_informative=20, n_classes=k, class_sep=1.2, random_state=0)
    models = {
        "logistic regression": LogisticRegression(max_iter=200),
        "naive Bayes": GaussianNB(),
        "random forest": RandomForestClassifier(100, min_samples_leaf=3, random_state=0),
        "linear SVC": LinearSVC(),
    }
    found = {}
    for name, model in models.items():
        model.fit(X[:n], y[:n])
        own = getattr(model, "decision_function", None)
        logits = own(X[n:]) if own else np.log(np.maximum(model.predict_proba(X[n:]), 1e-4))
        found[name] = (np.asarray(logits, dtype=float), y[n:])
    return found


def fitted(logits: Any, labels: Any) -> Any:
    """Matrix scaling."""
    import nishimori  # noqa: PLC0415

    return nishimori.calibrators.MatrixScaling().fit(logits, labels)


def compared(logits: Any, labels: Any) -> Any:
    """`compare` with matrix scaling beside the usual methods."""
    import nishimori  # noqa: PLC0415

    return nishimori.compare(logits, labels, methods=("none", "ts", "ec", "matrix"))


def numbers_of(found: Any, logits: Any, labels: Any) -> dict[str, float]:
    """The loss of matrix scaling on the rows of the fit, and the penalty that it chose."""
    import nishimori  # noqa: PLC0415

    if isinstance(found, nishimori.calibrators.MatrixScaling):
        loss = nishimori.evaluate(logits, labels, calibrator=found).nll
        return {"nll": loss, "off_diagonal": (found.penalties_ or {})["off_diagonal"]}
    return {"nll": found["matrix"].scorecard.nll} if hasattr(found, "methods") else {}


def measured(source: str, what: str, n: int, k: int, repeat: int, threads: int = 1) -> list[dict[str, Any]]:
    """The lines that a process of its own prints, which imports nishimori from ``source``."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    settings = os.environ | dict.fromkeys(names, str(threads)) | {"PYTHONPATH": str(Path(source).resolve())}
    words = [sys.executable, "-c", PROGRAM, str(ROOT / "bench"), what, str(n), str(k), str(repeat)]
    done = subprocess.run(words, env=settings, capture_output=True, text=True, check=True)  # noqa: S603
    return [json.loads(line) for line in done.stdout.splitlines()]


def beside_scikit_learn(versions: dict[str, str], n: int, k: int, repeat: int) -> str:
    """A table of classifiers: milliseconds of scikit-learn's temperature and of matrix scaling."""
    theirs = {each["data"]: each for each in measured(str(ROOT / "src"), "sklearn", n, k, repeat)}
    ours = {name: {each["data"]: each for each in measured(path, "scores", n, k, repeat)} for name, path in versions.items()}
    head = ["scores of", "temperature of scikit-learn, ms", *(f"matrix{name}, ms (ratio)" for name in ours)]
    head += [f"NLL{name}" for name in ours] + [f"off-diagonal penalty{name}" for name in ours]
    lines = []
    for name, each in theirs.items():
        found = [its[name] for its in ours.values()]
        times = [f"{1000 * its['cpu']:.0f} ({its['cpu'] / each['cpu']:.1f})" for its in found]
        lines.append([name, f"{1000 * each['cpu']:.1f}", *times, *(f"{its['nll']:.6f}" for its in found)])
        lines[-1] += [f"{its['off_diagonal']:.1f}" for its in found]
    return table(head, lines)


def by_version(versions: dict[str, str], what: str, n: int, k: int, threads: int) -> str:
    """A table of versions."""
    found = {name: measured(path, what, n, k, 1, threads)[0] for name, path in versions.items()}
    head = ["", "processor, s", "clock, s", "memory added, MB", "NLL"]
    lines = []
    for name, each in found.items():
        lines.append([name.removeprefix(", ") or "this version", f"{each['cpu']:.1f}", f"{each['clock']:.1f}"])
        lines[-1] += [f"{each['added']:.0f}", f"{each['nll']:.6f}"]
    return table(head, lines)


def table(head: list[str], lines: list[list[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(each) + " |" for each in (head, ["---"] * len(head), *lines))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="the folder src of another version")
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    versions = ({", before": options.before} if options.before else {}) | {"": str(ROOT / "src")}
    small, large, many = ((400, 9), (600, 40), (2000, 40)) if options.quick else ((4000, 20), (10_000, 1000), (300_000, 100))
    text = ["# Time of matrix scaling\n"]
    for title, made in (
        (f"{small[0]:,} samples, {small[1]} classes", lambda: beside_scikit_learn(versions, *small, repeat=7)),
        (f"{large[0]:,} samples, {large[1]:,} classes, two threads", lambda: by_version(versions, "fit", *large, threads=2)),
        (f"`compare`, {many[0]:,} samples, {many[1]} classes", lambda: by_version(versions, "compare", *many, threads=1)),
    ):
        text.append(f"## {title}\n\n{made()}\n")
        print(text[-1], flush=True)
    busy = f"{os.getloadavg()[1]:.1f} processes ran on {os.cpu_count()} cores on average."
    text.insert(1, f"`python bench/speed/matrix.py`, which says how; {busy}\n")
    if options.output is not None:
        options.output.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
