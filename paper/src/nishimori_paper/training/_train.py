"""`train` and `logits`: a network of the paper, from images to logits on disk."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from nishimori._support.disk import check_folder, check_target, existing_file, new_file
from nishimori._support.numbers import whole
from nishimori._support.progress import Report, show_progress
from nishimori.data import Network, check_ending, load, save
from nishimori.errors import InputError, setting
from nishimori_paper import models
from nishimori_paper._names import NetworkName
from nishimori_paper.training import _networks
from nishimori_paper.training._image_originals import ORIGINALS
from nishimori_paper.training._image_sets import image_set
from nishimori_paper.training._recipes import Recipe, is_in_paper, recipe, usual
from nishimori_paper.training._training import Settings, Training, part


def train(
    dataset: str,
    model: str,
    folder: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    fraction: float | None = None,
    epochs: int | None = None,
    seed: int = 0,
    device: str | None = None,
    repeatable: bool = False,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Network:
    """Train a network with the paper's recipe and write its logits (.npz) and weights (.pt) to ``folder``.

    A checkpoint is written after every epoch, and an interrupted run continues from it when it is repeated. The result is what
    `nishimori.data.load` reads from the file of logits.

    Parameters
    ----------
    dataset : {"svhn", "cifar10", "cifar100"}
        The images.
    model : str
        One of `nishimori_paper.models.names`.
    folder : path
        Where to write; it is created if needed.
    data : path, optional
        A folder with the images; without it, the public originals are downloaded.
    fraction : float, optional
        The share of all training and validation images to train on; by default all except the validation images.
    epochs : int, optional
        Number of epochs, instead of the recipe's.
    seed : int
        Random seed of weights, order and augmentation.
    device : str, optional
        A PyTorch device; by default the GPU if there is one.
    repeatable : bool
        Compute the same bits every time on the same machine; a fifth slower for ResNet20 on an H200.
    overwrite : bool
        Start over and replace existing files.
    progress : bool, optional
        None shows a bar on a terminal, True also writes a line per step elsewhere, False shows nothing.
    """
    chosen = _recipe(dataset, model, fraction, epochs)
    settings = Settings.best(device, repeatable=repeatable)
    with show_progress(progress) as report:
        return _train(chosen, Path(folder), data=data, seed=seed, settings=settings, overwrite=overwrite, report=report)


def _train(
    chosen: Recipe,
    folder: Path,
    *,
    data: str | os.PathLike[str] | None,
    seed: int,
    settings: Settings,
    overwrite: bool,
    report: Report,
) -> Network:
    """Train by a recipe and write the results."""
    target = folder / NetworkName.parse(chosen.name).file
    weights, checkpoint = target.with_suffix(".pt"), target.with_suffix(".checkpoint.pt")
    check_folder(folder, for_="the results need")
    # A run that left a checkpoint was allowed to write these files, so the run that continues it is allowed too.
    replaces = overwrite or checkpoint.exists()
    if folder.exists():
        for path in (target, weights):
            check_target(path, overwrite=replaces)
    images = image_set(chosen.dataset, data, report=report)
    part(images, chosen.fraction)  # too large a fraction is refused before anything is written
    folder.mkdir(parents=True, exist_ok=True)
    if overwrite:
        checkpoint.unlink(missing_ok=True)

    def report_epoch(run: Training) -> None:
        last = run.progress.epochs[-1]
        text = f"loss {last.loss:.3f}, accuracy {last.train_accuracy:.1%}, on validation {last.validation_accuracy:.1%}"
        report(f"{chosen.name}: {text}", last.number, chosen.epochs)

    report(f"{chosen.name}{_other_recipe(chosen)}: preparing", 0, chosen.epochs)
    done = _networks.train(chosen, images, seed=seed, settings=settings, checkpoint=checkpoint, after=report_epoch)
    network = _networks.trained(done, images)
    with new_file(weights, overwrite=replaces) as temporary:
        torch.save({key: value.cpu() for key, value in done.network.state_dict().items()}, temporary)
    save(network, target, overwrite=replaces)
    checkpoint.unlink(missing_ok=True)
    return network


def _other_recipe(chosen: Recipe) -> str:
    """A note for networks that the paper does not have."""
    if is_in_paper(chosen.dataset, chosen.model):
        return ""
    return f", which is not in the paper, with the recipe of {usual(chosen.dataset).name}"


def _recipe(dataset: str, model: str, fraction: float | None, epochs: int | None) -> Recipe:
    """The paper's recipe with the caller's changes; wrong names are refused before any image is read."""
    models.check(model)
    if fraction is not None and not (isinstance(fraction, float) and 0 < fraction < 1):
        raise InputError("fraction", "be a number between 0 and 1", got=repr(fraction))
    chosen = replace(recipe(dataset, model), fraction=fraction)
    if epochs is None:
        return chosen
    whole("epochs", epochs, 1)
    return replace(chosen, epochs=epochs, warmup=min(chosen.warmup, epochs - 1))


def train_missing(
    names: Sequence[str],
    folder: Path,
    *,
    data: str | os.PathLike[str] | None,
    seed: int,
    device: str | None,
    report: Report,
) -> None:
    """Train the named networks whose logits are not in ``folder`` yet."""
    for name in names:
        parsed = NetworkName.parse(name)
        chosen = _recipe(parsed.dataset, parsed.model, parsed.fraction, None)
        path = folder / parsed.file
        if not path.exists():
            settings = Settings.best(device)
            _train(chosen, folder, data=data, seed=seed, settings=settings, overwrite=False, report=report)
            continue
        about = load(path).provenance
        wanted = {"recipe": chosen.settings(), "seed": seed}
        if other := [key for key, value in wanted.items() if about.get(key) != value]:
            raise InputError(
                f"{path} was trained with another {' and '.join(other)}. Remove it, or pass another {setting('folder')}."
            )


def logits(
    weights: str | os.PathLike[str],
    dataset: str,
    model: str,
    path: str | os.PathLike[str],
    *,
    data: str | os.PathLike[str] | None = None,
    seed: int = 0,
    device: str | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
) -> Network:
    """Compute the logits of a network whose weights are in a file, such as the authors', and write them to ``path``.

    The result is what `nishimori.data.load` reads from ``path``.

    Parameters
    ----------
    weights : path
        A file with a PyTorch state dict.
    dataset, model : str
        The images that the network was trained on, and its model.
    path : path
        Where to write; a name that ends in ``.npz``.
    data, device, overwrite, progress
        As for `train`.
    seed : int
        Random seed of the augmentation of validation images.
    """
    source, target = existing_file(weights), Path(path)
    check_ending(path)
    check_target(target, overwrite=overwrite)
    chosen = _recipe(dataset, model, None, None)
    on = Settings.best(device).device
    network = _networks.loaded(source, chosen.model, ORIGINALS[dataset].n_classes)  # before any image is read
    with show_progress(progress) as report:
        images = image_set(dataset, data, report=report)
        network_file = _networks.with_weights(network, chosen, images, seed=seed, device=on, whose=f"read from {source.name}")
    save(network_file, target, overwrite=overwrite)
    return network_file
