"""Other ways to find T, each as its own package does it; a package that is not installed is left out.

    python bench/speed/peers.py    # with requirements/bench.txt: the table of bench/results/alternatives.md

A peer is prepared once per data set, outside the clock (tensors, the probabilities that netcal wants), and then run.
"""

import argparse
import importlib
import importlib.util
import logging
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar, root_scalar
from scipy.special import log_softmax, softmax

Run = Callable[[], float]
"""Finds T of the data that it was prepared for."""


@dataclass(frozen=True)
class Peer:
    """One way to find one of the temperatures, "ec" or "ts", and the packages that it needs."""

    name: str
    finds: str
    prepare: Callable[[Any, Any], Run]
    packages: tuple[str, ...] = ()

    @property
    def is_installed(self) -> bool:
        return all(package in sys.modules or importlib.util.find_spec(package) for package in self.packages)


def scipy_ec(logits: Any, labels: Any) -> Run:
    """The definition of expectation consistency with Brent's method."""

    def run() -> float:
        accuracy = (logits.argmax(axis=1) == labels).mean()
        return float(root_scalar(lambda t: softmax(logits / t, axis=1).max(axis=1).mean() - accuracy, bracket=(0.01, 100)).root)

    return run


def scipy_ts(logits: Any, labels: Any) -> Run:
    """The cross-entropy minimised over a bounded interval."""
    rows = np.arange(len(labels))

    def run() -> float:
        found = minimize_scalar(
            lambda t: -log_softmax(logits / t, axis=1)[rows, labels].mean(),
            bounds=(0.01, 100),
            method="bounded",
            options={"xatol": 1e-8},
        )
        return float(found.x)

    return run


def scikit_learn(logits: Any, labels: Any) -> Run:
    """What `CalibratedClassifierCV(method="temperature")` runs, without its cross-validation."""
    calibration = importlib.import_module("sklearn.calibration")
    return lambda: float(1 / calibration._TemperatureScaling().fit(logits, labels).beta_)


def probmetrics(logits: Any, labels: Any) -> Run:
    """Bisection over the gradient in PyTorch, its default."""
    calibrators = importlib.import_module("probmetrics.calibrators.temperature_scaling")
    distributions = importlib.import_module("probmetrics.distributions")
    z, y = tensors(logits, labels)

    def run() -> float:
        calibrator = calibrators.TemperatureScalingCalibrator()
        calibrator.fit_torch(distributions.CategoricalLogits(z), y)
        return float(1 / calibrator.invtemp_)

    return run


def netcal(dtype: Any) -> Callable[[Any, Any], Run]:
    """It takes probabilities, in ``dtype``, and recovers logits from them."""

    def prepare(logits: Any, labels: Any) -> Run:
        scaling = importlib.import_module("netcal.scaling")
        tensors(logits[:1], labels[:1])  # limits the threads
        probabilities = softmax(logits.astype(dtype), axis=1)
        return lambda: float(1 / np.ravel(scaling.TemperatureScaling().fit(probabilities, labels).temperature)[0])

    return prepare


def torch_lbfgs(logits: Any, labels: Any) -> Run:
    """The best of the usual recipes: L-BFGS with learning rate 1 and a line search by the strong Wolfe conditions."""
    torch = importlib.import_module("torch")
    z, y = tensors(logits, labels)

    def run() -> float:
        beta = torch.ones(1, requires_grad=True)
        optimizer = torch.optim.LBFGS([beta], lr=1.0, max_iter=50, line_search_fn="strong_wolfe")

        def loss() -> Any:
            optimizer.zero_grad()
            value = torch.nn.functional.cross_entropy(beta * z, y)
            value.backward()
            return value

        optimizer.step(loss)
        return float(1 / beta.detach())

    return run


def torch_uncertainty(logits: Any, labels: Any) -> Run:
    """Its `TemperatureScaler` with default settings."""
    scaler = temperature_scaler()
    z, y = tensors(logits, labels)

    def run() -> float:
        fitted = scaler()
        fitted.fit([(z, y)], progress=False)  # one batch
        return float(fitted.temperature[0].detach())

    return run


@cache
def temperature_scaler() -> Any:
    """The class, without the rest of its package: that imports torchvision, which has no CPU build in every registry."""
    logging.getLogger().setLevel(logging.ERROR)  # it warns that it has no model
    found = importlib.util.find_spec("torch_uncertainty")
    folder = Path(found.submodule_search_locations[0]) if found and found.submodule_search_locations else Path()
    for name in ("torch_uncertainty", "torch_uncertainty.post_processing", "torch_uncertainty.post_processing.calibration"):
        if name not in sys.modules:
            module: Any = ModuleType(name)
            module.__path__ = [str(folder.joinpath(*name.split(".")[1:]))]
            sys.modules[name] = module
    parent: Any = sys.modules["torch_uncertainty.post_processing"]
    parent.PostProcessing = importlib.import_module("torch_uncertainty.post_processing.abstract").PostProcessing
    return importlib.import_module("torch_uncertainty.post_processing.calibration.temperature_scaler").TemperatureScaler


def tensors(logits: Any, labels: Any) -> tuple[Any, Any]:
    """Both in PyTorch, which is held to one thread."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    return torch.from_numpy(logits), torch.from_numpy(labels)


PEERS = (
    Peer("SciPy EC", "ec", scipy_ec),
    Peer("SciPy TS", "ts", scipy_ts),
    Peer("torch L-BFGS", "ts", torch_lbfgs, ("torch",)),
    Peer("scikit-learn", "ts", scikit_learn, ("sklearn",)),
    Peer("probmetrics", "ts", probmetrics, ("torch", "torchmin", "probmetrics")),
    Peer("netcal float64", "ts", netcal(np.float64), ("torch", "netcal")),
    Peer("netcal float32", "ts", netcal(np.float32), ("torch", "netcal")),
    Peer("torch-uncertainty", "ts", torch_uncertainty, ("torch", "torch_uncertainty")),
)


# The temperature of temperature scaling that other packages find, where the answer is known; for docs/alternatives.md.
#
# Labels are drawn from softmax(z / T), so the minimum of the loss is close to T.

CASES = {"T = 0.5": 0.5, "T = 2": 2.0, "T = 30": 30.0}
NAMES = ("scikit-learn", "probmetrics", "netcal float64", "netcal float32", "torch-uncertainty")


def draw(temperature: float, n_samples: int = 5_000, n_classes: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Float32 logits, and labels that follow them at this temperature."""
    rng = np.random.default_rng(0)
    scaled = 2 * rng.normal(size=(n_samples, n_classes))
    labels = (scaled + rng.gumbel(size=scaled.shape)).argmax(axis=1)
    return (temperature * scaled).astype(np.float32), labels


def cell(run, reference: float) -> str:
    """T, in brackets its relative difference from SciPy's minimum in float64, and the median processor time of five fits."""
    times = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(5):
                start = time.process_time()
                found = run()
                times.append(time.process_time() - start)
    except Exception as error:
        return type(error).__name__
    off = abs(found / reference - 1)
    return f"{found:.4g} ({off:.0e}), {np.median(times):.2g} s"


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    import nishimori  # noqa: PLC0415 - who imports peers sets the number of threads first

    data = {title: draw(temperature) for title, temperature in CASES.items()}
    references = {title: scipy_ts(z.astype(np.float64), y)() for title, (z, y) in data.items()}
    print("|  | " + " | ".join(CASES) + " |")
    print("|---|" + "---|" * len(CASES))
    ours = {title: cell(lambda z=z, y=y: nishimori.temperatures(z, y).ts, references[title]) for title, (z, y) in data.items()}
    print("| nishimori | " + " | ".join(ours.values()) + " |")
    for peer in PEERS:
        if peer.name in NAMES and peer.is_installed:
            cells = [cell(peer.prepare(z, y), references[title]) for title, (z, y) in data.items()]
            print(f"| {peer.name} | " + " | ".join(cells) + " |")
    for package in ("scikit-learn", "probmetrics", "netcal", "torch-uncertainty", "torch", "nishimori"):
        try:
            print(package, version(package))
        except PackageNotFoundError:
            print(package, "is not installed")


if __name__ == "__main__":
    main()
