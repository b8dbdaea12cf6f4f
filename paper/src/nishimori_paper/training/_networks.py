"""Trains a network by a recipe, with a checkpoint after every epoch, and computes its logits."""

import os
import platform
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import nn

import nishimori
from nishimori._files.arrays import tensors
from nishimori._files.arrays.stored_array import damage
from nishimori._support.arrays import HostArray
from nishimori._support.disk import check_target, new_file
from nishimori.data import Labelled, Network
from nishimori.errors import FormatError, InputError, setting
from nishimori_paper import models
from nishimori_paper.training._image_sets import Images, ImageSet
from nishimori_paper.training._pixels import Pixels
from nishimori_paper.training._recipes import Recipe
from nishimori_paper.training._training import (
    Epoch,
    Progress,
    Settings,
    Training,
    augmented_views,
    checked_device,
    logits,
    part,
)

# Logits are stored in float32, rounded to this many bits after the leading one, which makes a compressed file a fifth smaller;
# for more than ten classes and for networks trained on a fraction, in float16.
_BITS = 14
_FEW_CLASSES = 10
# The number of test images in the paper; more would only make files larger.
_TEST_ROWS = {"cifar100": 5000}
_SPLIT_SEED = 42
_FORMAT = 2
# A constant learning rate leaves the network noisy to its end: this many epochs show by how much.
_LAST_EPOCHS = 10


def train(
    recipe: Recipe,
    images: ImageSet,
    *,
    seed: int,
    settings: Settings,
    checkpoint: Path | None = None,
    after: Callable[[Training], None] = lambda _: None,
) -> Training:
    """Train a network; if ``checkpoint`` holds the beginning of the same run, continue from it."""
    if checkpoint is not None:
        check_target(checkpoint, overwrite=True)
    training = Training(recipe, images, seed=seed, settings=settings)
    run = {"recipe": recipe.settings(), "seed": seed, "images": _checksum(images), "settings": asdict(settings)}
    header = {"format": _FORMAT, **run}
    if checkpoint is not None and checkpoint.exists():
        _resume(training, checkpoint, header)

    def keep(at: Training) -> None:
        if checkpoint is not None:
            _write(at, checkpoint, header)
        after(at)

    training.run(keep)
    return training


def _checksum(images: ImageSet) -> int:
    """A checksum of all images, to detect other images."""
    checksum = 0
    for split in (images.train, images.validation, images.test):
        for values in (split.pixels, split.labels):
            checksum = crc32(np.ascontiguousarray(values).data, checksum)
    return checksum


def _write(training: Training, path: Path, header: dict[str, Any]) -> None:
    progress = asdict(training.progress)
    with new_file(path, overwrite=True) as temporary:
        torch.save({**header, "progress": progress, "state": training.state()}, temporary)


def _resume(training: Training, path: Path, header: dict[str, Any]) -> None:
    content = _checkpoint(path)
    stored = {key: content.get(key) for key in header}
    if stored != header:
        other = ", ".join(key for key in header if stored[key] != header[key])
        raise InputError(
            f"{path} is the checkpoint of another run (it differs in: {other}). Remove it, or pass another {setting('folder')}."
        )
    with damage(f"{path} is damaged: it does not hold the state of a training. Remove it to start over."):
        training.restore(content["state"], _progress(content["progress"], training.recipe.epochs))


def _progress(content: dict[str, Any], most: int) -> Progress:
    epochs = [Epoch(**epoch) for epoch in content["epochs"]]
    numbers = [content["seconds"], *(value for epoch in epochs for value in asdict(epoch).values())]
    if not all(type(number) in (int, float) for number in numbers) or [epoch.number for epoch in epochs] != [
        *range(1, len(epochs) + 1)
    ]:
        raise ValueError("not the epochs of a training")
    if not 0 < len(epochs) <= most:
        raise ValueError("not the number of epochs of this recipe")
    return Progress(epochs, content["seconds"])


def _checkpoint(path: Path) -> dict[str, Any]:
    try:
        content = tensors.load(path)
    except FormatError as error:
        raise FormatError(f"{path} is not a checkpoint, or damaged ({_first(error)}). Remove it to start over.") from None
    if not isinstance(content, dict) or not {"progress", "state"} <= set(content):
        raise FormatError(
            f"{path} is not a checkpoint of `nishimori_paper.train`. Remove it, or pass another {setting('folder')}."
        )
    return content


def trained(training: Training, images: ImageSet) -> Network:
    """The logits of a trained network, and how it was trained."""
    progress = training.progress
    last = progress.epochs[-1]
    how = {
        "weights": "trained by nishimori",
        "recipe": training.recipe.settings(),
        "n_train": len(part(images, training.recipe.fraction)),
        "seed": training.seed,
        "settings": asdict(training.settings),
        "device": _device_name(training.device),
        "training_seconds": round(progress.seconds, 1),
        "training_loss": last.loss,
        "training_accuracy": last.train_accuracy,
        "last_epochs": {
            "validation_error": [1 - epoch.validation_accuracy for epoch in progress.epochs[-_LAST_EPOCHS:]],
            "test_error": [1 - epoch.test_accuracy for epoch in progress.epochs[-_LAST_EPOCHS:]],
        },
    }
    return outputs(training.network, training.recipe, images, seed=training.seed, device=training.device, how=how)


def with_weights(network: nn.Module, recipe: Recipe, images: ImageSet, *, seed: int, device: str, whose: str) -> Network:
    """The logits of a network that was trained elsewhere; ``whose`` says where its weights come from."""
    on = checked_device(device)
    how = {"weights": whose, "augmentation_seed": seed, "device": _device_name(on)}
    return outputs(network, recipe, images, seed=seed, device=on, how=how)


def loaded(weights: str | os.PathLike[str], model: str, n_classes: int) -> nn.Module:
    """A network with the weights in a file."""
    network, path = models.build(model, n_classes=n_classes), Path(weights)
    try:
        state = tensors.load(path)
    except FormatError as error:
        raise FormatError(f"{path} is not a PyTorch state dict, or damaged ({_first(error)}). Download it again.") from None
    try:
        network.load_state_dict(state)
    except Exception:  # the message of PyTorch lists every name that does not match
        raise FormatError(
            f"{path} does not hold the weights of a {model} for {n_classes} classes: names or shapes "
            f"differ. Pass its {setting('model')}."
        ) from None
    return network


def _first(error: FormatError) -> str:
    """The first sentence of a message, which says what is wrong; the others say what to do about other kinds of files."""
    return str(error).partition(". ")[0].rstrip(".")


def outputs(
    network: nn.Module, recipe: Recipe, images: ImageSet, *, seed: int, device: torch.device, how: dict[str, Any]
) -> Network:
    """Logits on validation and test images and, for CIFAR-10, on one random view of each validation image."""
    network = network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def labelled_logits(some: Images, *, augment: bool = False) -> Labelled:
        pixels = Pixels(some.pixels, recipe.dataset, device)
        views = augmented_views(len(pixels), seed, device) if augment else None
        return Labelled(logits(network, pixels, views), some.labels)

    validation, test = labelled_logits(images.validation), labelled_logits(images.test)
    # The paper's code calibrated the CIFAR-10 networks on augmented images.
    paired = recipe.dataset == "cifar10" and recipe.fraction is None and recipe.augment
    augmented = labelled_logits(images.validation, augment=True) if paired else None
    provenance = {
        "data": images.origin,
        **how,
        "parameters": models.n_parameters(network),
        "validation_error": _error(validation),
        "test_error": _error(test),
        "n_test": len(test.labels),
        "versions": {"nishimori": nishimori.__version__, "torch": torch.__version__, "python": platform.python_version()},
    }
    halved = images.n_classes > _FEW_CLASSES or recipe.fraction is not None
    keep = partial(_kept, halved=halved, dataset=recipe.dataset)
    return Network(recipe.name, keep(validation), keep(test), keep(augmented) if augmented else None, provenance)


def _kept(labelled: Labelled, *, halved: bool, dataset: str) -> Labelled:
    """Reduce logits to the rows and digits that are stored."""
    rows = labelled.logits, labelled.labels
    most = _TEST_ROWS.get(dataset, len(labelled.labels))
    if len(labelled.labels) > most:
        some = torch.randperm(len(labelled.labels), generator=torch.Generator().manual_seed(_SPLIT_SEED))[:most].numpy()
        rows = labelled.logits[some], labelled.labels[some]
    return Labelled(rows[0].astype(np.float16) if halved else _rounded(rows[0]), rows[1])


def _rounded(numbers: HostArray) -> HostArray:
    """The nearest float32 numbers with at most `_BITS` bits after the leading one."""
    step = np.uint32(1 << (23 - _BITS))
    bits = np.ascontiguousarray(numbers, dtype=np.float32).view(np.uint32)
    rounded: HostArray = ((bits + step // 2) // step * step).view(np.float32)
    return rounded


def _error(labelled: Labelled) -> float:
    return float((labelled.logits.argmax(1) != labelled.labels).mean())


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
