"""What an installed nishimori must do anywhere: fit, apply and evaluate the bundled network, in Python and in the shell.

Run ``python tests/helpers/smoke.py [--paper] [--native]`` by the Python of an environment in which the wheel is installed.
It needs no other package, so that it can run wherever a wheel can be installed. Conditions are checked with plain NumPy.
"""

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

import nishimori


def shell(*words: str) -> str:
    """What the command prints; it must succeed."""
    command = Path(sysconfig.get_path("scripts")) / ("nishimori.exe" if sys.platform == "win32" else "nishimori")
    done = subprocess.run([command, *words], capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(f"nishimori {' '.join(words)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def mean_confidence(logits: np.ndarray, T: float) -> float:
    """The mean of the largest probability at temperature T."""
    scaled = logits.astype(float) / T
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return float((weights.max(axis=1) / weights.sum(axis=1)).mean())


def check(holds: bool, claim: str) -> None:
    """End with an error unless the claim holds: `assert` would be silent under ``python -O``."""
    if not holds:
        sys.exit(f"not so: {claim}")


def main(*options: str) -> None:
    """Run all checks, and print one line."""
    data = nishimori.data.load("cifar10/resnet20").validation
    fitted = nishimori.ExpectationConsistency().fit(data.logits, data.labels)
    accuracy = float((data.logits.argmax(axis=1) == data.labels).mean())
    confidence = mean_confidence(data.logits, fitted.temperature_)
    check(abs(confidence - accuracy) < 1e-6, f"at T = {fitted.temperature_} confidence {confidence} is accuracy {accuracy}")
    probabilities = fitted.predict_proba(data.logits)
    check(np.allclose(probabilities.sum(axis=1), 1, atol=1e-5), "probabilities sum to 1")
    card = nishimori.evaluate(data.logits, data.labels, calibrator=fitted)
    check(abs(float(card.accuracy) - accuracy) < 1e-9, "the scorecard has the accuracy that NumPy computes")
    version = shell("--version").strip()
    check(version.startswith(f"{nishimori.__version__} ("), f"{version!r} begins with the version")
    if "--native" in options:
        check("(native kernel, " in version, f"{version!r} names the native kernel")
    with tempfile.TemporaryDirectory() as folder:
        shell("demo", "--json", "-o", f"{folder}/demo")
        check((Path(folder) / "demo" / "val.npz").is_file(), "the demo writes its validation data")
        np.savez(Path(folder) / "val.npz", logits=data.logits, labels=data.labels)
        shell("fit", f"{folder}/val.npz", "-o", f"{folder}/c.json", "--method", "ec")
        same = nishimori.load(f"{folder}/c.json").temperature_
        check(abs(same / fitted.temperature_ - 1) < 1e-8, "the shell finds the same temperature")
    if "--paper" in options:
        check(len(nishimori.data.names()) == 19, "nishimori-paper brings 18 networks")
        check("table-real" in shell("paper", "list"), "`nishimori paper` lists the tables")
    sys.stdout.write(
        f"Python {sys.version.split()[0]}, NumPy {np.__version__}: nishimori {version}: T = {fitted.temperature_:.4f}\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
