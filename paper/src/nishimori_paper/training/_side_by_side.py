"""Training of several small networks at once on one device.

A step of a ResNet20 is a chain of kernels that are each too small to fill a large GPU. Here the steps of several networks are
launched in turn, each network's on a stream of its own, so that the GPU works on all of them at the same time. Processes that
share a GPU would take turns instead.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from nishimori.errors import InputError
from nishimori_paper.training._training import Training

After = Callable[[Training, int, float, float], None]


def train_side_by_side(trainings: Sequence[Training], after: After = lambda *_: None) -> None:
    """Train networks from their first epoch to their last, all on the same device.

    A network becomes what it would become alone, up to the rounding of the device. One with dropout does not: all of them draw
    from the same random numbers.

    Parameters
    ----------
    trainings : sequence of Training
        What to train; recipes and image sets may differ.
    after : callable
        Called with a training, the number of epochs it has done, and the training loss and accuracy of the last one.
    """
    if len({training.device for training in trainings}) != 1:
        raise InputError("trainings", "be at least one, all on one device")
    first = trainings[0]
    on_gpu = first.device.type == "cuda"
    with first.arithmetic():
        streams = [_stream() if on_gpu else nullcontext() for _ in trainings]
        if on_gpu:
            torch.cuda.synchronize()  # what the default stream has prepared is used on other streams
        for number in range(max(training.recipe.epochs for training in trainings)):
            running = [pair for pair in zip(trainings, streams, strict=True) if number < pair[0].recipe.epochs]
            _epoch(running, number)
            for training, stream in running:
                with stream:
                    after(training, number + 1, *training.end_epoch())


def _stream() -> AbstractContextManager[Any]:
    return torch.cuda.stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]


def _epoch(running: Sequence[tuple[Training, AbstractContextManager[Any]]], number: int) -> None:
    for training, stream in running:
        with stream:
            training.begin_epoch(number)
    with running[0][0].randomness(number):
        for i in range(max(training.steps for training, _ in running)):
            for training, stream in running:
                if i < training.steps:
                    with stream:
                        training.step()
