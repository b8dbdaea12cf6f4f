"""Fit the calibrators of scikit-learn, probmetrics, dirichletcal and netcal to one file.

    PYTHON calibrator_peer_fits.py IN.npz OUT.npz           # each that does what one of ours does
    PYTHON calibrator_peer_fits.py IN.npz OUT.npz affine    # vector and matrix scaling of probmetrics, in all variants

`calibrator_peers.py` runs this with an interpreter that has the packages. IN has ``validation`` and ``test`` (logits in
float64) and ``labels`` (of the validation rows). OUT gets, for each calibrator that suits the number of classes, its
probabilities on both and the seconds that its fit took, or a text that says why there are none.
"""

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

Fit = Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], np.ndarray]]
"""Logits and labels to a function from logits to probabilities."""


def both_columns(p: np.ndarray) -> np.ndarray:
    """Probabilities of both classes from those of the second one."""
    return np.stack([1 - p, p], axis=1) if p.ndim == 1 else p


class Logits(ClassifierMixin, BaseEstimator):
    """A classifier whose features are its logits."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.classes_ = np.arange(n_classes)

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Logits":  # noqa: ARG002 - scikit-learn's contract
        """Nothing to learn."""
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class of the largest logit."""
        return X.argmax(axis=1)

    def decision_function(self, X: np.ndarray) -> np.ndarray:
        """For two classes, the difference."""
        return X[:, 1] - X[:, 0] if self.n_classes == 2 else X


class Probabilities(Logits):
    """The same with their softmax, which isotonic regression of several classes is a function of."""

    decision_function = None  # type: ignore[assignment]

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """The softmax."""
        return softmax(X, axis=1)


def of_sklearn(method: str, kind: type[Logits] = Logits) -> Fit:
    """A method of `CalibratedClassifierCV` behind scores that are given."""

    def fit(logits: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        made = CalibratedClassifierCV(FrozenEstimator(kind(logits.shape[1])), method=method, ensemble=False)
        return made.fit(logits, labels).predict_proba

    return fit


def of_probmetrics(made: Callable[[], object]) -> Fit:
    """One that takes probabilities, as in CalArena."""

    def fit(logits: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        calibrator = made()
        calibrator.fit(softmax(logits, axis=1), labels)
        return lambda rows: both_columns(np.asarray(calibrator.predict_proba(softmax(rows, axis=1))))

    return fit


def of_probmetrics_torch(made: Callable[[], object], form: str) -> Fit:
    """One that takes tensors of float64: "logits", "centred" logits (minus their mean), or "probabilities" as in CalArena."""
    import torch  # noqa: PLC0415 - only if probmetrics is asked for
    from probmetrics.distributions import CategoricalLogits, CategoricalProbs  # noqa: PLC0415

    def given(logits: np.ndarray) -> object:
        if form == "probabilities":
            return CategoricalProbs(torch.softmax(torch.from_numpy(logits), dim=1))
        shift = logits.mean(axis=1, keepdims=True) if form == "centred" else 0.0
        return CategoricalLogits(torch.from_numpy(logits - shift))

    def fit(logits: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        calibrator = made().fit_torch(given(logits), torch.from_numpy(labels))

        def predict(rows: np.ndarray) -> np.ndarray:
            found = calibrator.predict_proba_torch(given(rows))
            return (
                softmax(found.get_logits().numpy(), axis=1)
                if isinstance(found, CategoricalLogits)
                else found.get_probs().numpy()
            )

        return predict

    return fit


def of_netcal(made: Callable[[], object]) -> Fit:
    """One that takes probabilities: for two classes, those of the second one."""

    def scores(logits: np.ndarray) -> np.ndarray:
        p = softmax(logits, axis=1)
        return p[:, 1] if p.shape[1] == 2 else p

    def fit(logits: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        calibrator = made()
        calibrator.fit(scores(logits), labels)
        return lambda rows: both_columns(np.asarray(calibrator.transform(scores(rows)), dtype=float).reshape(-1, *shape(rows)))

    return fit


def shape(logits: np.ndarray) -> tuple[int, ...]:
    """Of one row of what netcal returns."""
    return () if logits.shape[1] == 2 else (logits.shape[1],)


def sklearn_fits() -> dict[str, Fit]:
    """What scikit-learn has."""
    found = {"temperature": of_sklearn("temperature"), "sigmoid": of_sklearn("sigmoid")}
    return found | {"isotonic": of_sklearn("isotonic", Probabilities)}


def probmetrics_fits() -> dict[str, Fit]:
    """What probmetrics has and we have too."""
    from probmetrics import calibrators as all_  # noqa: PLC0415 - may not be installed
    from probmetrics.calibrators import binning, logistic, temperature_scaling  # noqa: PLC0415

    def histogram(strategy: str) -> Callable[[], object]:
        return lambda: all_.MulticlassOneVsRestCalibrator(
            binning.BinaryHistogramBinningCalibrator(n_bins=10, strategy=strategy)
        )

    return {
        "temp-scaling": of_probmetrics_torch(lambda: all_.get_calibrator("temp-scaling"), "logits"),
        "affine": of_probmetrics(lambda: logistic.BinaryLogisticCalibrator(type="affine")),
        "quadratic": of_probmetrics(lambda: logistic.BinaryLogisticCalibrator(type="quadratic")),
        "beta": of_probmetrics(lambda: all_.get_calibrator("beta")),
        "vector, centred logits": of_probmetrics_torch(logistic.VectorScalingCalibrator, "centred"),
        "matrix, centred logits": of_probmetrics_torch(logistic.MatrixScalingCalibrator, "centred"),
        "ETS": of_probmetrics(lambda: temperature_scaling.ETSCalibrator(loss="ce")),
        "dirichlet": of_probmetrics(lambda: all_.get_calibrator("dircal")),
        "isotonic": of_probmetrics(lambda: all_.get_calibrator("isotonic")),
        "histogram, uniform": of_probmetrics(histogram("uniform")),
        "histogram, quantile": of_probmetrics(histogram("quantile")),
    }


def affine_fits() -> dict[str, Fit]:
    """All of the vector and matrix scaling of probmetrics, in one thread; the first fit of a process is not timed."""
    import torch  # noqa: PLC0415 - may not be installed
    from probmetrics.calibrators import get_calibrator  # noqa: PLC0415
    from probmetrics.calibrators.logistic import MatrixScalingCalibrator, VectorScalingCalibrator  # noqa: PLC0415

    torch.set_num_threads(1)
    found = {
        "VS, centred logits": of_probmetrics_torch(VectorScalingCalibrator, "centred"),
        "MS, centred logits": of_probmetrics_torch(MatrixScalingCalibrator, "centred"),
        "VS": of_probmetrics_torch(VectorScalingCalibrator, "probabilities"),
        "MS": of_probmetrics_torch(MatrixScalingCalibrator, "probabilities"),
        "SVS": of_probmetrics_torch(lambda: get_calibrator("svs"), "probabilities"),
        "SMS": of_probmetrics_torch(lambda: get_calibrator("sms"), "probabilities"),
    }
    rng = np.random.default_rng(0)
    found["SMS"](rng.normal(size=(200, 10)), rng.integers(10, size=200))
    return found


def netcal_fits() -> dict[str, Fit]:
    """What netcal has and we have too, in float64 where it can."""
    import torch  # noqa: PLC0415 - may not be installed

    torch.set_default_dtype(torch.float64)
    from netcal import binning, scaling  # noqa: PLC0415

    return {
        "TemperatureScaling": of_netcal(scaling.TemperatureScaling),
        "LogisticCalibration": of_netcal(scaling.LogisticCalibration),
        "BetaCalibration": of_netcal(scaling.BetaCalibration),
        "IsotonicRegression": of_netcal(binning.IsotonicRegression),
        "HistogramBinning": of_netcal(lambda: binning.HistogramBinning(bins=10)),
    }


def dirichletcal_fits() -> dict[str, Fit]:
    """Dirichlet calibration whose penalty does not depend on the order of the classes, in float64."""
    import jax  # noqa: PLC0415 - may not be installed
    from dirichletcal.calib.fulldirichlet import FullDirichletCalibrator  # noqa: PLC0415

    jax.config.update("jax_enable_x64", True)

    def fit(logits: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        calibrator = FullDirichletCalibrator(reg_lambda=1e-3, reg_mu=1e-3, ref_row=False).fit(softmax(logits, axis=1), labels)
        return lambda rows: np.asarray(calibrator.predict_proba(softmax(rows, axis=1)))

    return {"ODIR, ref_row=False": fit}


# netcal changes the default dtype of PyTorch here, so that it comes last.
PACKAGES = {
    "scikit-learn": sklearn_fits,
    "probmetrics": probmetrics_fits,
    "dirichletcal": dirichletcal_fits,
    "netcal": netcal_fits,
}
BINARY_ONLY = {"affine", "quadratic", "beta", "sigmoid", "LogisticCalibration", "BetaCalibration"}
SEVERAL_ONLY = {"vector, centred logits", "matrix, centred logits", "dirichlet", "ODIR, ref_row=False"}


def unsuitable(n_rows: int, n_classes: int) -> set[str]:
    """Names of calibrators for another number of classes, or without a solution."""
    names = SEVERAL_ONLY if n_classes == 2 else BINARY_ONLY
    # With more parameters than rows, matrix scaling without a penalty separates the classes: its loss has no minimum.
    return names | {"MS", "MS, centred logits"} if n_classes * (n_classes + 1) > n_rows else names


def main() -> None:
    """Fit and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", metavar="IN.npz")
    parser.add_argument("out", metavar="OUT.npz")
    parser.add_argument("which", nargs="?", choices=["affine"])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    given = np.load(options.given)
    results: dict[str, np.ndarray] = {}
    left_out = unsuitable(*given["validation"].shape)
    for package, fits in ({"probmetrics": affine_fits} if options.which else PACKAGES).items():
        try:
            found = fits()
        except ImportError as error:
            results[f"{package}|*|error"] = np.array(f"not installed ({error})")
            continue
        for name in (each for each in found if each not in left_out):
            try:
                start = time.perf_counter()
                predict = found[name](given["validation"], given["labels"])
                results[f"{package}|{name}|seconds"] = np.array(time.perf_counter() - start)
                for part in ("validation", "test"):
                    results[f"{package}|{name}|{part}"] = predict(given[part])
            except Exception as error:  # whatever a peer raises is its row of the table
                results[f"{package}|{name}|error"] = np.array(f"{type(error).__name__}: {error}")
            print(package, name, flush=True)
    np.savez(options.out, **results)


if __name__ == "__main__":
    main()
