"""Small networks: one to read loaders with, and many to fold, with last layers of all usual names and nestings."""

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nishimori.errors import InputWarning
from nishimori.torch import fold_temperature

X = torch.randn(10, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(10) % 3


def loader(*tensors):
    return DataLoader(TensorDataset(*tensors), batch_size=4)


@dataclass(frozen=True)
class Output:
    loss: int
    logits: torch.Tensor


Pair = namedtuple("Pair", ["logits", "loss"])
OUTPUTS = {
    "tensor": lambda z: z,
    "object": lambda z: SimpleNamespace(logits=z, loss=7),
    "frozen dataclass": lambda z: Output(7, z),
    "dict": lambda z: {"loss": 7, "logits": z},
    "ordered dict": lambda z: OrderedDict(loss=7, logits=z),
    "named tuple": lambda z: Pair(z, 7),
}


class Returning(nn.Module):
    """A linear network that returns ``output(logits)``."""

    def __init__(self, output=lambda z: z, n_out=3):
        super().__init__()
        self.fc = nn.Linear(4, n_out)
        self.output = output

    def forward(self, x, scale=1.0):
        return self.output(self.fc(x * scale))


IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
TOKENS = torch.randint(0, 20, (4, 6), generator=torch.Generator().manual_seed(0))


class Block(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)
        self.conv2, self.bn2 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)

    def forward(self, x):
        return torch.relu(x + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


class ResNet(nn.Module):
    """A ResNet for CIFAR, whose last layer is called ``name``."""

    def __init__(self, name="linear"):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.layer1, self.layer2 = Block(8), Block(8)
        self.dropout = nn.Dropout(0.5)
        self.name = name
        self.add_module(name, nn.Linear(8, 10))

    def forward(self, x):
        x = self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x)))))
        return getattr(self, self.name)(self.dropout(x.mean(dim=(2, 3))))


class VGG(nn.Module):
    def __init__(self, *tail):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        self.classifier = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 10), *tail)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def fully_convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 10, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )


class Encoder(nn.Module):
    """A network like those of transformers: it returns an object with logits, and its head may be tied to the embeddings."""

    def __init__(self, name="classifier", *, tied=False):
        super().__init__()
        self.embeddings = nn.Embedding(20, 16)
        self.encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.name = name
        self.add_module(name, nn.Linear(16, 20 if tied else 3, bias=not tied))
        if tied:
            getattr(self, name).weight = self.embeddings.weight

    def forward(self, input_ids, attention_mask=None):
        return SimpleNamespace(logits=getattr(self, self.name)(self.encoder(self.embeddings(input_ids)).mean(dim=1)))


class NestedHead(nn.Module):
    """A network whose head has several layers, like RoBERTa."""

    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(3, 8, 8)
        self.classifier = nn.Module()
        self.classifier.dense, self.classifier.out_proj = nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.classifier.out_proj(torch.tanh(self.classifier.dense(self.body(x).flatten(1))))


class Lightning(nn.Module):
    """A network inside a wrapper with a loss."""

    def __init__(self):
        super().__init__()
        self.loss, self.network = nn.CrossEntropyLoss(), VGG()

    def forward(self, x):
        return self.network(x)


ZOO = {
    "ResNet for CIFAR": (ResNet, IMAGES),
    "ResNet with fc": (lambda: ResNet("fc"), IMAGES),
    "ResNet with head": (lambda: ResNet("head"), IMAGES),
    "Sequential classifier": (VGG, IMAGES),
    "classifier, then dropout": (lambda: VGG(nn.Dropout(0.5), nn.Identity()), IMAGES),
    "1x1 convolution": (fully_convolutional, IMAGES),
    "transformer": (Encoder, {"input_ids": TOKENS}),
    "language model": (lambda: Encoder("lm_head"), TOKENS),
    "nested head": (NestedHead, IMAGES),
    "wrapper": (Lightning, (IMAGES,)),
}
DTYPES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 1e-2}
NETWORKS = pytest.mark.parametrize(("make", "probe"), ZOO.values(), ids=ZOO)


def built(make, dtype=torch.float32):
    torch.manual_seed(0)
    return make().to(dtype).eval()


def cast(probe, dtype):
    """The inputs of a network with weights of this dtype."""
    if isinstance(probe, dict):
        return {name: cast(each, dtype) for name, each in probe.items()}
    if isinstance(probe, tuple):
        return tuple(cast(each, dtype) for each in probe)
    return probe.to(dtype) if probe.is_floating_point() else probe


def logits(network, probe, dtype=torch.float32):
    probe = cast(probe, dtype)
    with torch.no_grad():
        output = network(**probe) if isinstance(probe, dict) else network(probe[0] if isinstance(probe, tuple) else probe)
    return (output if isinstance(output, torch.Tensor) else output.logits).double()


def deviation(folded, expected):
    return ((folded - expected).abs().max() / expected.abs().max()).item()


def same(network, copied):
    return all(torch.equal(a, b) for a, b in zip(network.parameters(), copied.parameters(), strict=True))


class Named(nn.Module):
    """Named parts, without a ``forward``."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


def lin():
    return nn.Linear(4, 3)


def fold_unchecked(network, T):
    """The layer of a network that T is folded into without a check of its logits."""
    with pytest.warns(InputWarning, match="It was not checked that"):
        return fold_temperature(network, T, probe=False)
