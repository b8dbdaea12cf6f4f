"""Training of one network: the images stay on the device, and on a GPU each step is a single launch.

Everything a step needs (indices of the images, their views, the learning rate) is on the device before an epoch starts, so on
CUDA a whole step is captured once and then replayed. All random numbers of an epoch follow from the seed and the number of the
epoch, so a run that is stopped after any epoch and resumed gives the same bits as one that was not stopped.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from nishimori._support.arrays import HostArray
from nishimori.errors import InputError
from nishimori_paper import models
from nishimori_paper.training._image_sets import Images, ImageSet
from nishimori_paper.training._pixels import Pixels, Views
from nishimori_paper.training._recipes import Recipe

Precision = Literal["bfloat16", "float32"]

# Purposes of random numbers, so that no two draws of a run use the same seed.
_WEIGHTS, _EPOCH, _VIEWS, _DROPOUT, _TRIAL, _MIXUP = range(6)


@dataclass(frozen=True)
class Settings:
    """Settings of the computation, which do not change the recipe.

    Attributes
    ----------
    device : str
        A PyTorch device.
    precision : {"bfloat16", "float32"}
        Precision of activations and gradients in training. Weights and the logits of the trained network are float32.
    compiled : bool
        Whether to use `torch.compile`.
    repeatable : bool
        Whether the same run on the same machine gives the same bits, which makes a GPU slower.
    """

    device: str = "cpu"
    precision: Precision = "float32"
    compiled: bool = False
    repeatable: bool = False

    @classmethod
    def best(cls, device: str | None = None, *, repeatable: bool = False) -> "Settings":
        """The fastest settings for a device; without a name, the GPU if there is one."""
        chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
        fast = checked_device(chosen).type == "cuda"
        return cls(chosen, "bfloat16" if fast else "float32", fast, repeatable)


@dataclass(frozen=True)
class Epoch:
    """The number of an epoch, from 1, its training loss and accuracy, and the accuracies on other images after it."""

    number: int
    loss: float
    train_accuracy: float
    validation_accuracy: float
    test_accuracy: float


@dataclass
class Progress:
    """The epochs done so far, and the seconds they took."""

    epochs: list[Epoch] = field(default_factory=list)
    seconds: float = 0.0


class Training:
    """A network and the state of its training."""

    def __init__(self, recipe: Recipe, images: ImageSet, *, seed: int, settings: Settings) -> None:
        self.recipe, self.seed, self.settings = recipe, seed, settings
        self.device = checked_device(settings.device)
        self.progress = Progress()
        chosen = part(images, recipe.fraction)
        self.batch = min(recipe.batch, len(chosen.labels))
        self.steps = len(chosen.labels) // self.batch
        self.pixels = Pixels(chosen.pixels, recipe.dataset, self.device)
        self.labels = torch.from_numpy(chosen.labels).to(self.device)
        self.validation, self.test = (_Held(part, recipe.dataset, self.device) for part in (images.validation, images.test))
        with _seeded(self.device, seed, _WEIGHTS, 0):
            network = models.build(recipe.model, n_classes=images.n_classes, **recipe.variation)
        self.network = network.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        self._prepare()

    def _prepare(self) -> None:
        """Allocate on the device everything that a step reads and changes."""
        self.order = torch.zeros((self.steps, self.batch), dtype=torch.int64, device=self.device)
        self.views = Views.straight(len(self.pixels), self.device)
        self.at, self.clock = (torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(2))
        self.sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        self.shares = torch.ones(self.steps, device=self.device)  # of each image in a mixture
        self.rates = torch.tensor(self.recipe.learning_rates(self.steps), device=self.device)
        self.rate = torch.zeros((), device=self.device)
        parameters = list(self.network.parameters())
        # The `fused` variant can read the learning rate from a tensor on the device.
        self.optimiser = torch.optim.SGD(
            parameters,
            lr=self.rate,
            momentum=self.recipe.momentum,
            nesterov=self.recipe.nesterov,
            weight_decay=self.recipe.weight_decay,
            fused=True,
        )
        # A captured step needs existing momenta. With zeros the first step is the same as without any.
        self.momenta = [torch.zeros_like(parameter) for parameter in parameters]
        for parameter, momentum in zip(parameters, self.momenta, strict=True):
            self.optimiser.state[parameter]["momentum_buffer"] = momentum
        self.forward = torch.compile(self.network, dynamic=False) if self.settings.compiled else self.network
        self._replay: Callable[[], None] | None = None

    def run(self, after: Callable[["Training"], None] = lambda _: None) -> None:
        """Train to the end of the recipe and call ``after`` after every epoch."""
        with self.arithmetic():
            while len(self.progress.epochs) < self.recipe.epochs:
                self._epoch(len(self.progress.epochs))
                after(self)

    @contextmanager
    def arithmetic(self) -> Iterator[None]:
        """The context in which epochs are begun, stepped through and ended."""
        # Streams, graphs and generators belong to the current CUDA device.
        current = torch.cuda.device(self.device) if self.device.type == "cuda" else nullcontext()
        with _arithmetic(self.settings, self.device), current:
            yield

    def _epoch(self, number: int) -> None:
        start = time.perf_counter()
        self.begin_epoch(number)
        with self.randomness(number):
            for _ in range(self.steps):
                self.step()
        # The test accuracy is only written down, to show how much the result depends on the epoch at which training ends.
        accuracies = map(self.accuracy, (self.validation, self.test))
        self.progress.epochs.append(Epoch(number + 1, *self.end_epoch(), *accuracies))
        self.progress.seconds += time.perf_counter() - start

    def begin_epoch(self, number: int) -> None:
        """Bring to the device what the steps of an epoch need; epochs are numbered from 0."""
        generator = _generator(self.seed, _EPOCH, number)
        order = torch.randperm(len(self.pixels), generator=generator)[: self.steps * self.batch]
        self.order.copy_(order.view(self.steps, self.batch))
        if self.recipe.augment:
            self.views.copy_(Views.random(len(self.pixels), self.device, generator))
        if alpha := self.recipe.mixup:
            shares = np.random.default_rng(_seed(self.seed, _MIXUP, number)).beta(alpha, alpha, self.steps)
            # Two images that change places give the same mixtures, so the first can always be the larger part.
            self.shares.copy_(torch.from_numpy(np.maximum(shares, 1 - shares)))
        self.network.train()
        if self._replay is None:
            with _seeded(self.device, self.seed, _TRIAL, number):
                self._replay = self._capture()
        self.at.zero_()
        self.clock.fill_(number * self.steps)
        self.sums.zero_()

    def randomness(self, number: int) -> AbstractContextManager[None]:
        """Inside this context, random draws in the steps of an epoch, such as dropout, follow from the seed."""
        return _seeded(self.device, self.seed, _DROPOUT, number)

    def step(self) -> None:
        """One step of the epoch that was begun."""
        assert self._replay is not None, "`begin_epoch` comes first"
        self._replay()

    def end_epoch(self) -> tuple[float, float]:
        """Training loss and accuracy of the epoch."""
        loss, right = (self.sums / (self.steps * self.batch)).tolist()
        return loss, right

    def _loss(self, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean loss and number of right answers on a batch."""
        labels, images = self.labels[index], self.pixels.batch(index, self.views[index])
        share = self.shares.index_select(0, self.at)[0] if self.recipe.mixup else None
        if share is not None:
            # The order of a batch is random, so its reverse pairs the images at random.
            images = share * images + (1 - share) * images.flip(0)
        with self._autocast():
            logits = self.forward(images)
        logits = logits.float()
        right = (logits.argmax(1) == labels).sum()
        loss = functional.cross_entropy(logits, labels, label_smoothing=self.recipe.label_smoothing)
        if share is not None:
            other = functional.cross_entropy(logits, labels.flip(0), label_smoothing=self.recipe.label_smoothing)
            loss = share * loss + (1 - share) * other
        return loss, right

    def _autocast(self) -> Any:
        if self.settings.precision == "float32":
            return nullcontext()
        # A captured step must not use casts of the weights that were cached outside of it.
        return torch.autocast(self.device.type, torch.bfloat16, cache_enabled=False)

    def _step(self) -> None:
        index = self.order.index_select(0, self.at)[0]
        self.rate.copy_(self.rates.index_select(0, self.clock)[0])
        self.optimiser.zero_grad(set_to_none=True)
        loss, right = self._loss(index)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimiser.step()
        self.sums += torch.stack([loss.detach() * self.batch, right])
        self.at += 1
        self.clock += 1

    def _capture(self) -> Callable[[], None]:
        """A function that does one step; on CUDA it replays a captured graph."""
        if self.device.type != "cuda":
            return self._step
        changed = [*self.network.state_dict(keep_vars=True).values(), *self.momenta, self.at, self.clock, self.sums]
        before = [parameter.detach().clone() for parameter in changed]
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):  # to compile, choose algorithms and allocate
                self.at.zero_()
                self.clock.zero_()  # a short run may have fewer learning rates than these trial steps
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # On the stream of the trial steps, because cuBLAS has a workspace for each stream: graphs that were captured on one
        # stream, and are replayed at the same time, would overwrite each other's results.
        with torch.cuda.graph(graph, stream=side):
            self._step()
        with torch.no_grad():
            for parameter, value in zip(changed, before, strict=True):
                parameter.copy_(value)
        return graph.replay

    def accuracy(self, held: "_Held") -> float:
        """Accuracy on the validation or the test images, not augmented, in the precision of training."""
        with self._autocast():
            answers = logits(self.network, held.pixels).argmax(1)
        return float((answers == held.labels).mean())

    def state(self) -> dict[str, Any]:
        """Everything that the rest of the run depends on, for a checkpoint."""
        return {"network": self.network.state_dict(), "momenta": self.momenta}

    def restore(self, state: Mapping[str, Any], progress: Progress) -> None:
        """Continue from what `state` returned."""
        self.network.load_state_dict(state["network"])
        with torch.no_grad():
            for momentum, value in zip(self.momenta, state["momenta"], strict=True):
                momentum.copy_(value)
        self.progress = progress


class _Held:
    """Images that are not trained on: their pixels on the device, and their labels."""

    def __init__(self, images: Images, dataset: str, device: torch.device) -> None:
        self.pixels, self.labels = Pixels(images.pixels, dataset, device), images.labels


def part(images: ImageSet, fraction: float | None) -> Images:
    """The training images, or the first of them; a fraction counts training and validation images together."""
    if fraction is None:
        return images.train
    n_train, n_validation = len(images.train.labels), len(images.validation.labels)
    n = round(fraction * (n_train + n_validation)) if 0 < fraction <= 1 else 0
    if not 0 < n <= n_train:
        most = n_train / (n_train + n_validation)
        raise InputError("fraction", f"be above 0 and at most {most:.3g}, to leave out validation images", got=fraction)
    return images.train.at(slice(n))


def logits(network: nn.Module, pixels: Pixels, views: Views | None = None, *, batch: int = 1000) -> HostArray:
    """The logits of a network in evaluation mode, in float32 unless autocast is on. The mode is restored afterwards."""
    views = views or Views.straight(len(pixels), pixels.device)
    every = torch.arange(len(pixels), device=pixels.device)
    was = network.training
    network.eval()
    try:
        with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
            logits = [network(pixels.batch(index, views[index])).float().cpu() for index in torch.split(every, batch)]
    finally:
        network.train(was)
    result: HostArray = torch.cat(logits).numpy()
    return result


def augmented_views(n: int, seed: int, device: torch.device) -> Views:
    """One random view of each image, as a data loader with augmentation gives it."""
    return Views.random(n, device, _generator(seed, _VIEWS, 0))


def checked_device(name: str) -> torch.device:
    """The PyTorch device with that name, if it can be used."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError("device", "be a PyTorch device such as 'cpu' or 'cuda'", got=repr(name)) from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("There is no CUDA device here. Use 'cpu', or a machine with a GPU and PyTorch's CUDA build.")
    try:
        torch.zeros(1, device=device).item()
    except Exception as error:  # each backend raises its own error if it is missing
        brief = " ".join(str(error).split())[:100]
        raise InputError(
            "device", "be one that works on this machine", got=f"{name!r} ({brief})", remedy="Use 'cpu'."
        ) from None
    return device


def _seed(*path: int) -> int:
    if path[0] < 0:
        raise InputError("seed", "be 0 or more", got=path[0])
    return int(np.random.SeedSequence(path).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _generator(seed: int, purpose: int, number: int) -> torch.Generator:
    return torch.Generator().manual_seed(_seed(seed, purpose, number))


@contextmanager
def _seeded(device: torch.device, seed: int, purpose: int, number: int) -> Iterator[None]:
    """Seed PyTorch's own generators; their former states are restored at the end."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.default_generator.manual_seed(_seed(seed, purpose, number))
        if on_gpu:
            torch.cuda.manual_seed(_seed(seed, purpose, number))
        yield


@contextmanager
def _arithmetic(settings: Settings, device: torch.device) -> Iterator[None]:
    """Use the fastest algorithms on CUDA or, if repeatable, those that give the same bits every time."""
    if device.type != "cuda":
        yield
        return
    strict, lenient = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    if settings.repeatable:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS is deterministic with a workspace of fixed size
        torch.use_deterministic_algorithms(True)
    try:
        with torch.backends.cudnn.flags(
            enabled=True, benchmark=not settings.repeatable, deterministic=settings.repeatable, allow_tf32=True
        ):
            yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=lenient)
