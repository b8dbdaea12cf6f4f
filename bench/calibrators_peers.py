"""Our vector and matrix scaling beside those of probmetrics, fitted to the same rows."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import nishimori
from calibrators_splits import CAL_ARENA, Rows, Split
from calibrators_tables import duration, table

SCRIPT = Path(__file__).parent / "calibrators_probmetrics.py"
CHOSEN = (CAL_ARENA, "cifar10/resnet20", "cifar10/densenet121", "svhn/resnet20", "cifar100/vgg19")
# Ours beside each of theirs, and whether both minimise the same loss over the same maps.
PAIRS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "VS, centred logits": ("vector", {"penalty": None}, True),
    "MS, centred logits": ("matrix", {"penalty": None}, True),
    "VS": ("vector", {"penalty": None}, False),
    "MS": ("matrix", {"penalty": None}, False),
    "SVS": ("vector", {}, False),
    "SMS": ("matrix", {}, False),
}
SKIPPED = "This part was not run: it needs an interpreter that has probmetrics 1.3. Pass `--peers PYTHON`."
NOTE = """probmetrics 1.3 computes in float64 with one thread here. Its vector (VS) and matrix scaling (MS) act on
log-probabilities, as in CalArena. Ours act on centred logits, so that a constant added to all logits of a row changes nothing.
*Centred logits* means that probmetrics was given these numbers too: both then minimise the same loss over the same maps, which
has one minimum. BFGS in probmetrics stops where each component of the gradient is below 1e-5, so that its training NLL may lie
above ours, and not below. The parameters themselves cannot be compared: many of them give the same probabilities. The other
lines compare different maps or different penalties: SVS and SMS have fixed strengths, and those of our defaults are estimated
from the validation rows. Matrix scaling without a penalty is left out for 100 classes: 10,100 parameters separate 5,000 rows,
and the loss has no minimum. The difference of the test NLL is ours minus theirs, with its paired standard error. Δp is the
largest difference of a test probability. *Time* is theirs over ours."""


@dataclass(frozen=True)
class PeerRow:
    """One calibrator of probmetrics and ours beside it."""

    data: str
    theirs: str
    ours: str
    same_loss: bool
    their_train: float
    our_train: float
    their_test: float
    our_test: float
    difference: float
    difference_se: float
    largest: float
    their_seconds: float
    our_seconds: float


def interpreter(given: str | None) -> str | None:
    """The one that was asked for, else the running one if it has probmetrics."""
    return given or (sys.executable if importlib.util.find_spec("probmetrics") else None)


def agreement(python: str, split: Split) -> list[PeerRow]:
    """All pairs on one split."""
    theirs = fitted_by(python, split)
    rows = []
    for name, (method, options, same) in PAIRS.items():
        if f"{name}|test" not in theirs:
            continue
        start = time.perf_counter()
        ours = nishimori.calibrator(method, **options).fit(split.validation.logits, split.validation.labels)
        seconds = time.perf_counter() - start
        logs = [np.asarray(ours.predict_log_proba(part.logits)) for part in (split.validation, split.test)]
        their = [theirs[f"{name}|{part}"] for part in ("validation", "test")]
        losses = [
            [loss(log, part) for log, part in zip(each, (split.validation, split.test), strict=True)] for each in (their, logs)
        ]
        difference = losses[1][1] - losses[0][1]
        rows.append(
            PeerRow(
                data=split.name,
                theirs=name,
                ours=method if not options else f"{method}, penalty=None",
                same_loss=same,
                their_train=float(losses[0][0].mean()),
                our_train=float(losses[1][0].mean()),
                their_test=float(losses[0][1].mean()),
                our_test=float(losses[1][1].mean()),
                difference=float(difference.mean()),
                difference_se=float(difference.std() / np.sqrt(len(difference))),
                largest=float(np.abs(np.exp(logs[1]) - np.exp(their[1])).max()),
                their_seconds=float(theirs[f"{name}|seconds"]),
                our_seconds=seconds,
            )
        )
    return rows


def fitted_by(python: str, split: Split) -> dict[str, np.ndarray]:
    """Log-probabilities and times of the calibrators of probmetrics, which run in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(given, validation=split.validation.logits, labels=split.validation.labels, test=split.test.logits)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([python, str(SCRIPT), str(given), str(found)], check=True, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603
        with np.load(found) as arrays:
            return dict(arrays)


def loss(log_probabilities: np.ndarray, rows: Rows) -> np.ndarray:
    """The cross-entropy of each row."""
    return -log_probabilities[np.arange(len(rows.labels)), rows.labels]


def section(rows: Sequence[PeerRow]) -> str:
    """The comparison in Markdown, or a line that says why there is none."""
    if not rows:
        return SKIPPED
    head = [
        "data",
        "probmetrics",
        "ours",
        "same loss",
        "training NLL, theirs",
        "ours",
        "test NLL, theirs",
        "ours",
        "difference",
        "Δp",
        "time",
    ]
    lines = [
        [
            row.data,
            row.theirs,
            row.ours,
            "yes" if row.same_loss else "no",
            f"{row.their_train:.8f}",
            f"{row.our_train:.8f}",
            f"{row.their_test:.6f}",
            f"{row.our_test:.6f}",
            f"{row.difference:+.6f} ± {row.difference_se:.6f}",
            f"{row.largest:.0e}",
            f"{row.their_seconds / row.our_seconds:.2g} ({duration(row.their_seconds)} / {duration(row.our_seconds)})",
        ]
        for row in rows
    ]
    return f"{NOTE}\n\n{table(head, lines)}"
