"""Maps with several parameters, what they do to logits by their definition, and a small network to calibrate with them."""

import numpy as np
import torch
from torch import nn

from nishimori.maps import Affine, ClassTemperatures, GroupTemperatures, LogAffine, Mixture

K = 5
_rng = np.random.default_rng(0)
MATRIX = 0.6 * np.eye(K) + 0.2 * _rng.normal(size=(K, K))
DIAGONAL = _rng.uniform(0.4, 1.2, size=K)
BIAS = _rng.normal(size=K)
TEMPERATURES = _rng.uniform(0.5, 2.5, size=K)
FALLBACK = 1.3
GROUPS = ["b", "a", "b", "c", "a", "b"]


def affine(z, scale, bias=BIAS, fallback=None):
    """The definition, row by row."""
    rows = []
    for row in z:
        centred = row - row.mean()
        mapped = (scale @ centred if np.ndim(scale) == 2 else scale * centred) + bias
        changed = fallback is not None and mapped.argmax() != row.argmax()
        rows.append((row - row.max()) / fallback if changed else mapped)
    return np.array(rows)


def log_affine(z, matrix=MATRIX, bias=BIAS, fallback=None):
    """The definition, row by row."""
    rows = []
    for row in z:
        mapped = matrix @ (row - np.log(np.sum(np.exp(row)))) + bias
        changed = fallback is not None and mapped.argmax() != row.argmax()
        rows.append((row - row.max()) / fallback if changed else mapped)
    return np.array(rows)


def mixture(z, temperature, weights):
    """The definition, row by row."""
    rows = []
    for row in z:
        parts = [np.exp(row / temperature), np.exp(row), np.ones(len(row))]
        rows.append(np.log(sum(weight * part / part.sum() for weight, part in zip(weights, parts, strict=True))))
    return np.array(rows)


MAPS = {
    "number": (Affine(0.7, BIAS), lambda z: affine(z, 0.7)),
    "diagonal": (Affine(DIAGONAL, BIAS), lambda z: affine(z, DIAGONAL)),
    "matrix": (Affine(MATRIX, BIAS), lambda z: affine(z, MATRIX)),
    "fallback": (Affine(MATRIX, BIAS, FALLBACK), lambda z: affine(z, MATRIX, fallback=FALLBACK)),
    "classes": (ClassTemperatures(TEMPERATURES), lambda z: np.array([row / TEMPERATURES[row.argmax()] for row in z])),
    "log": (LogAffine(MATRIX, BIAS), log_affine),
    "log, fallback": (LogAffine(MATRIX, BIAS, FALLBACK), lambda z: log_affine(z, fallback=FALLBACK)),
    "mixture": (Mixture(2.0, [0.6, 0.3, 0.1]), lambda z: mixture(z, 2.0, [0.6, 0.3, 0.1])),
    "two of three": (Mixture(2.0, [0.0, 0.9, 0.1]), lambda z: mixture(z, 2.0, [0.0, 0.9, 0.1])),
}
"""Maps that need no groups, and what they make of logits."""

GROUPED = GroupTemperatures(("a", "b", "c"), [1.5, 2.5, 0.8], 2.0)
BY_GROUP = {"a": 1.5, "b": 2.5, "c": 0.8}


def grouped(z, groups=GROUPS):
    return np.array([row / BY_GROUP[name] for row, name in zip(z, groups, strict=True)])


X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))


def unchanged(z):
    return z


class Network(nn.Module):
    """Two layers; the output is ``output(logits)``."""

    def __init__(self, output=unchanged, n_out=K, *, bias=True):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.body, self.fc = nn.Linear(4, 8), nn.Linear(8, n_out, bias=bias)
        self.output = output
        with torch.no_grad():
            for each in self.parameters():
                each.copy_(torch.randn(each.shape, generator=generator))

    def forward(self, x):
        return self.output(self.fc(torch.relu(self.body(x))))


def logits(network, x=X):
    """What the network returns, in float64."""
    with torch.no_grad():
        z = network(x)
    return z.double().numpy()
