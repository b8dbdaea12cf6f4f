"""A network of the paper, from the images to the logits on disk."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from nishimori._disk import check_folder, check_target, existing_file, new_file
from nishimori._numbers import is_whole
from nishimori._progress import Report, silent
from nishimori.data import Network, load, save
from nishimori.data._networks import check_ending
from nishimori.errors import InputError
from nishimori.paper import models
from nishimori.paper._measured import file_name
from nishimori.paper.training import _networks
from nishimori.paper.training._image_originals import ORIGINALS
from nishimori.paper.training._image_sets import image_set
from nishimori.paper.training._recipes import Recipe, recipe, usual
from nishimori.paper.training._recipes import names as recipe_names
from nishimori.paper.training._training import Settings, Training, part


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
    report: Report = silent,
) -> Network:
    """Train a network with the paper's recipe and write its logits (.npz) and weights (.pt) to ``folder``.

    After every epoch a checkpoint is kept there, and a run that was interrupted goes on from it when it is repeated.

    Parameters
    ----------
    dataset : {"svhn", "cifar10", "cifar100"}
        Which images.
    model : str
        One of `nishimori.paper.models.names`.
    folder : path
        Where to write; made if need be.
    data : path, optional
        A folder that holds the images; without it, the public originals are downloaded.
    fraction : float, optional
        Train on this part of all training and validation images; on all but the validation images by default.
    epochs : int, optional
        Instead of the recipe's.
    seed : int
        Of weights, order and augmentation.
    device : str, optional
        A PyTorch device; the GPU by default, if there is one.
    repeatable : bool
        The same bits every time on the same machine; a fifth slower for ResNet20 on an H200.
    overwrite : bool
        Start over and replace what is there.
    report : callable
        Told what is being done, how much of it is done, and how much there is.

    Returns
    -------
    Network
        Its logits, as `nishimori.data.load` reads them.
    """
    chosen = _recipe(dataset, model, fraction, epochs)
    settings = Settings.best(device, repeatable=repeatable)
    place = Path(folder)
    target = place / file_name(chosen.name)
    weights, checkpoint = target.with_suffix(".pt"), target.with_suffix(".checkpoint.pt")
    check_folder(place, for_="the results need")
    # A checkpoint is left by a run that was to write these files, and perhaps to replace them.
    replaces = overwrite or checkpoint.exists()
    if place.exists():
        for path in (target, weights):
            check_target(path, overwrite=replaces)
    images = image_set(chosen.dataset, data, report=report)
    part(images, chosen.fraction)  # too large a fraction is refused before anything is written
    place.mkdir(parents=True, exist_ok=True)
    if overwrite:
        checkpoint.unlink(missing_ok=True)

    def tell(run: Training) -> None:
        last = run.progress.epochs[-1]
        text = f"loss {last.loss:.3f}, accuracy {last.train_accuracy:.1%}, on validation {last.validation_accuracy:.1%}"
        report(f"{chosen.name}: {text}", last.number, chosen.epochs)

    whose = (
        "" if f"{dataset}/{model}" in recipe_names() else f", which is not in the paper, by the recipe of {usual(dataset).name}"
    )
    report(f"{chosen.name}{whose}: preparing", 0, chosen.epochs)
    done = _networks.train(chosen, images, seed=seed, settings=settings, checkpoint=checkpoint, after=tell)
    network = _networks.trained(done, images)
    with new_file(weights, overwrite=replaces) as temporary:
        torch.save({key: value.cpu() for key, value in done.network.state_dict().items()}, temporary)
    save(network, target, overwrite=replaces)
    checkpoint.unlink(missing_ok=True)
    return network


def _recipe(dataset: str, model: str, fraction: float | None, epochs: int | None) -> Recipe:
    """The paper's recipe with what the caller changed; wrong names are refused before any image is read."""
    models.check(model)
    if fraction is not None and not (isinstance(fraction, float) and 0 < fraction < 1):
        raise InputError(f"`fraction` must be a number between 0 and 1, got {fraction!r}.")
    chosen = replace(recipe(dataset, model), fraction=fraction)
    if epochs is None:
        return chosen
    if not is_whole(epochs) or epochs < 1:
        raise InputError(f"`epochs` must be an integer of 1 or more, got {epochs!r}.")
    return replace(chosen, epochs=epochs, warmup=min(chosen.warmup, epochs - 1))


def train_missing(
    names: Sequence[str],
    folder: Path,
    *,
    data: str | os.PathLike[str] | None,
    seed: int,
    device: str | None = None,
    report: Report = silent,
) -> None:
    """Train those of the named networks whose logits are not in ``folder`` yet."""
    for name in names:
        dataset, _, rest = name.partition("/")
        model, _, fraction = rest.partition("-fraction-")
        share = float(fraction) if fraction else None
        path = folder / file_name(name)
        if not path.exists():
            train(dataset, model, folder, data=data, fraction=share, seed=seed, device=device, report=report)
            continue
        about = load(path).provenance
        wanted = {"recipe": _recipe(dataset, model, share, None).settings(), "seed": seed}
        if other := [key for key, value in wanted.items() if about.get(key) != value]:
            raise InputError(
                f"{path} was trained with another {' and '.join(other)}. Remove it, or choose another folder with -o."
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
    report: Report = silent,
) -> Network:
    """Logits of a network whose weights are in a file, such as the authors', written to ``path``.

    Parameters
    ----------
    weights : path
        A PyTorch state dict.
    dataset, model : str
        What the network was trained on, and which it is.
    path : path
        Where to write; its name ends in ``.npz``.
    data, device, overwrite, report
        As for `train`.
    seed : int
        Of the augmentation of validation images.

    Returns
    -------
    Network
        The logits, as `nishimori.data.load` reads them.
    """
    source, target = existing_file(weights), Path(path)
    check_ending(path)
    check_target(target, overwrite=overwrite)
    chosen = _recipe(dataset, model, None, None)
    on = Settings.best(device).device
    network = _networks.loaded(source, chosen.model, ORIGINALS[dataset].n_classes)  # before any image is read
    images = image_set(dataset, data, report=report)
    found = _networks.with_weights(network, chosen, images, seed=seed, device=on, whose=f"read from {source.name}")
    save(found, target, overwrite=overwrite)
    return found
