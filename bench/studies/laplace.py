"""A Laplace approximation of the last layer beside TS and EC: the authors' ResNet20 on CIFAR-10.

    python bench/studies/laplace.py --weights FOLDER --data FOLDER --features build/laplace.npz    # a minute or two on one core

FOLDER of the weights holds cifar10_resnet20.pt as the authors published it. The features before the last layer are kept in the
file, if there is one, and not computed again.

The posterior of the 650 weights of the last layer is taken for normal: its mean are the weights as they are, and its precision
is Σ (diag p − ppᵀ) ⊗ φφᵀ over the 45,000 training images plus that of the prior (the whole generalised Gauss-Newton matrix).
The sum is estimated from some of them. The precision of the prior has the highest marginal likelihood, or the lowest loss of
the validation images, by which TS and EC are chosen, too. Predictions are means over draws of the weights, or MacKay's probit
approximation. Writes laplace.md to the folder of results.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

import nishimori
from nishimori import metrics
from nishimori._support.tables import Tabular

ROOT = Path(__file__).parents[2]
NAME = "cifar10/resnet20-authors"
N_TRAINING = 45_000
DRAWS = 200
PRECISIONS = np.geomspace(1e-2, 1e4, 61)
COLUMNS = ("method", "NLL", "minus TS", "ECE %", "error %", "what it needs besides the network")


class Laplace:
    """The last layer of a network, whose weights are uncertain.

    Parameters
    ----------
    weight, bias : array of shape (K, d) and (K,)
        Of the last layer.
    features : array of shape (n, d)
        Of training images.
    n_images : int
        How many images the features stand for.
    """

    def __init__(self, weight, bias, features, n_images):
        self.layer = np.column_stack([weight, bias]).astype(np.float64)
        inputs = self._inputs(features)
        p = softmax(inputs @ self.layer.T, axis=1)
        k, d = self.layer.shape
        curvature = np.zeros((k, d, k, d))
        for a in range(k):
            for b in range(a, k):
                weights = p[:, a] * ((a == b) - p[:, b])
                curvature[a, :, b, :] = (inputs * weights[:, None]).T @ inputs
                curvature[b, :, a, :] = curvature[a, :, b, :].T
        curvature *= n_images / len(inputs)
        self.sizes, self.axes = np.linalg.eigh(curvature.reshape(k * d, k * d))
        self.sizes = np.maximum(self.sizes, 0)

    @staticmethod
    def _inputs(features):
        return np.column_stack([features, np.ones(len(features))]).astype(np.float64)

    def best_precision(self):
        """The precision of the prior with the highest marginal likelihood, in Laplace's approximation."""
        square = (self.layer**2).sum()

        def loss(log_precision):
            precision = np.exp(log_precision)
            return precision * square + np.log1p(self.sizes / precision).sum()

        return float(np.exp(minimize_scalar(loss, bounds=(-7, 12), method="bounded").x))

    def logits(self, features, precision):
        """The mean of the logits of each image, (n, K), and their covariance, (n, K, K)."""
        inputs = self._inputs(features)
        k, d = self.layer.shape
        root = (self.axes / np.sqrt(self.sizes + precision)).reshape(k, d, k * d)
        covariance = np.empty((len(inputs), k, k))
        for start in range(0, len(inputs), 500):
            spread = np.einsum("ni,kim->nkm", inputs[start : start + 500], root, optimize=True)
            covariance[start : start + 500] = spread @ spread.transpose(0, 2, 1)
        return inputs @ self.layer.T, covariance


def probit(mean, covariance):
    """Log-probabilities of the mean prediction, after MacKay: logits divided by √(1 + π/8 · variance)."""
    return log_softmax(mean / np.sqrt(1 + np.pi / 8 * np.diagonal(covariance, axis1=1, axis2=2)), axis=1)


def sampled(mean, covariance, n_draws=DRAWS, seed=0):
    """Log-probabilities of the mean prediction over draws of the weights."""
    rng = np.random.default_rng(seed)
    root = np.linalg.cholesky(covariance + 1e-10 * np.eye(mean.shape[1]))
    total = np.zeros_like(mean)
    for _ in range(n_draws):
        total += softmax(mean + (root @ rng.normal(size=(*mean.shape, 1)))[:, :, 0], axis=1)
    return np.log(total / n_draws)


def loss_of(log_p, labels):
    """The negative log-likelihood of each image."""
    return -log_p[np.arange(len(labels)), labels]


def predictions(model, held):
    """Log-probabilities of the test images by each method, and what it needs."""
    (validation, labels), (test, _) = held["validation"], held["test"]
    plain, plain_test = (model.logits(each, 1.0)[0] for each in (validation, test))
    found = {"uncalibrated": (log_softmax(plain_test, axis=1), "")}
    for title, method in (("TS", "ts"), ("EC", "ec")):
        fitted = nishimori.calibrator(method).fit(plain, labels)
        found[title] = (log_softmax(plain_test / fitted.temperature_, axis=1), "validation images; one number")
    by_evidence = model.best_precision()
    by_loss = min(PRECISIONS, key=lambda each: loss_of(probit(*model.logits(validation, each)), labels).mean())
    for way, precision, what in (
        ("marginal likelihood", by_evidence, "training images; 650 × 650 numbers"),
        ("validation loss", by_loss, "both kinds of images; 650 × 650 numbers"),
    ):
        moments = model.logits(test, float(precision))
        found[f"Laplace, {way}, {DRAWS} draws"] = (sampled(*moments), f"{what}; prior precision {precision:.3g}")
        found[f"Laplace, {way}, probit"] = (probit(*moments), f"{what}; prior precision {precision:.3g}")
    return found


def report(found, labels, n_features):
    """The page."""
    rows = []
    base = loss_of(found["TS"][0], labels)
    for title, (log_p, needs) in found.items():
        loss = loss_of(log_p, labels)
        error = (loss - base).std() / np.sqrt(len(loss))
        change = "" if title == "TS" else f"{(loss - base).mean():+.4f} ± {error:.4f}"
        ece = 100 * metrics.ece(log_p, labels, strategy="quantile")
        rows.append((title, f"{loss.mean():.4f}", change, f"{ece:.2f}", f"{100 * metrics.error(log_p, labels):.2f}", needs))
    text = (
        "# Last-layer Laplace beside one temperature\n\n"
        "Written by `bench/studies/laplace.py`, which says what is computed: the authors' ResNet20, 10,000 test images of "
        "CIFAR-10, "
        f"curvature from {n_features:,} of the 45,000 training images. The ECE has 15 bins of equal mass; ± is a paired "
        "standard error.\n\n"
    )
    return f"{text}{Tabular(COLUMNS, rows).markdown()}\n"


def computed(weights, folder, n_features):
    """Features, labels and the last layer of the network."""
    import torch  # noqa: PLC0415 - only where features are not known

    from nishimori_paper.training._image_sets import image_set  # noqa: PLC0415
    from nishimori_paper.training._networks import loaded  # noqa: PLC0415
    from nishimori_paper.training._pixels import Pixels, Views  # noqa: PLC0415

    cpu = torch.device("cpu")
    network = loaded(weights / "cifar10_resnet20.pt", "resnet20", 10).to(memory_format=torch.channels_last).eval()
    arrays = {"weight": network.linear.weight.detach().numpy(), "bias": network.linear.bias.detach().numpy()}
    network.linear = torch.nn.Identity()
    images = image_set("cifar10", folder)
    chosen = np.random.default_rng(0).permutation(len(images.train.labels))[:n_features]
    parts = {
        "train": (images.train.pixels[chosen], images.train.labels[chosen]),
        "validation": (images.validation.pixels, images.validation.labels),
        "test": (images.test.pixels, images.test.labels),
    }
    for name, (pixels, labels) in parts.items():
        held = Pixels(pixels, "cifar10", cpu)
        with torch.inference_mode():
            every = [network(held.batch(i, Views.straight(len(i), cpu))) for i in torch.arange(len(held)).split(500)]
        arrays[f"{name}_features"], arrays[f"{name}_labels"] = torch.cat(every).numpy(), np.asarray(labels)
    return arrays


def main():
    """Compute what is missing and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, metavar="FOLDER")
    parser.add_argument("--data", metavar="FOLDER", help="a folder with CIFAR-10")
    parser.add_argument("--features", type=Path, default=ROOT / "build/laplace.npz", help="file of features")
    parser.add_argument("--training-images", type=int, default=10_000, help="so many for the curvature")
    parser.add_argument("--out", type=Path, default=ROOT / "bench/results", help="folder of the page")
    options = parser.parse_args()
    if not options.features.exists():
        options.features.parent.mkdir(parents=True, exist_ok=True)
        np.savez(options.features, **computed(options.weights, options.data, options.training_images))
    with np.load(options.features) as stored:
        arrays = dict(stored)
    held = {name: (arrays[f"{name}_features"], arrays[f"{name}_labels"]) for name in ("validation", "test")}
    model = Laplace(arrays["weight"], arrays["bias"], arrays["train_features"], N_TRAINING)
    found = predictions(model, held)
    page = report(found, held["test"][1], len(arrays["train_features"]))
    (options.out / "laplace.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
