"""``nishimori paper train``, ``logits`` and ``recipes``: the paper's networks, from images to logits."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import nishimori_paper as paper
from nishimori.cli._help import FLAG, OUTPUT, JsonOption
from nishimori.cli._terminal import note, print_json
from nishimori_paper._names import NetworkName
from nishimori_paper.cli._rows import print_rows

if TYPE_CHECKING:
    from nishimori.data import Network

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder with the images; without it, the public originals are downloaded.",
        show_default=False,
        metavar="FOLDER",
    ),
]
SeedOption = Annotated[int, typer.Option(help="Random seed.", min=0, metavar="NUMBER")]
_Dataset = Annotated[str, typer.Option("--dataset", help="svhn, cifar10 or cifar100.", show_default=False, metavar="NAME")]
_Model = Annotated[
    str,
    typer.Option(
        "--model",
        help="resnet20, -32, -44, -56, -110, each also as -conv, densenet121, vgg19, repvgg-a2.",
        show_default=False,
        metavar="NAME",
    ),
]
DeviceOption = Annotated[
    str | None, typer.Option(help="PyTorch device; by default the GPU if there is one.", show_default=False, metavar="NAME")
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Start over and replace existing files.", metavar=FLAG, rich_help_panel=OUTPUT)
]


def train(
    dataset: _Dataset,
    model: _Model,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for logits and weights.", metavar="FOLDER")] = Path(
        "nishimori-networks"
    ),
    data: DataOption = None,
    fraction: Annotated[
        float | None,
        typer.Option(
            help="Share of training and validation images to train on, at most 0.9.", show_default=False, metavar="SHARE"
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Epochs; by default those of the recipe.", min=1, show_default=False, metavar="NUMBER")
    ] = None,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    repeatable: Annotated[
        bool, typer.Option("--repeatable", help="Get the same bits every time; a little slower.", metavar=FLAG)
    ] = False,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Train a network with the paper's recipe and store its logits.

    An interrupted run continues when it is repeated.
    """
    try:
        trained = paper.train(
            dataset,
            model,
            output,
            data=data,
            fraction=fraction,
            epochs=epochs,
            seed=seed,
            device=device,
            repeatable=repeatable,
            overwrite=force,
            progress=True,
        )
    except KeyboardInterrupt:
        if any(output.glob("*.checkpoint.pt")):
            again = "repeat the command without --force" if force else "repeat the command"
            note(f"Interrupted. The finished epochs are in {output}; {again} to continue.")
        else:
            note("Interrupted before the first epoch was finished. Repeat the command to start again.")
        raise typer.Exit(130) from None
    _show(trained, output / NetworkName.parse(trained.name).file, as_json=as_json)


def logits(
    weights: Annotated[Path, typer.Argument(help="A PyTorch state dict (.pt).", show_default=False, metavar="FILE")],
    dataset: _Dataset,
    model: _Model,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File for the logits (.npz).", show_default=False, metavar="FILE")
    ],
    data: DataOption = None,
    seed: SeedOption = 0,
    device: DeviceOption = None,
    as_json: JsonOption = False,
    force: ForceOption = False,
) -> None:
    """Compute the logits of a network from its stored weights."""
    written = paper.logits(weights, dataset, model, output, data=data, seed=seed, device=device, overwrite=force, progress=True)
    _show(written, output, as_json=as_json)


def recipes(as_json: JsonOption = False) -> None:
    """List how each network of the paper is trained."""
    from nishimori_paper.training._recipes import recipes as all_recipes  # noqa: PLC0415

    rows = [recipe.settings() for recipe in all_recipes()]
    if as_json:
        print_json({"recipes": rows})
    else:
        print_rows([{key: value for key, value in row.items() if key != "fraction"} for row in rows])


EXAMPLES: dict[Callable[..., None], str] = {
    train: "nishimori paper train --dataset cifar10 --model resnet20 -o networks",
    logits: "nishimori paper logits w.pt --dataset cifar10 --model resnet56 -o z.npz",
    recipes: "nishimori paper recipes",
}
"""The commands, each with an example."""


def _show(network: "Network", path: Path, *, as_json: bool) -> None:
    about = network.provenance
    if as_json:
        print_json({"name": network.name, "file": str(path), **about})
        return
    note(f"{network.name}: error {about['test_error']:.2%} on {about['n_test']} test images; wrote {path}")
