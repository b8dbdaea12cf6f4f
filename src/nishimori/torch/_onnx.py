"""`to_onnx`: a calibrated network as an ONNX file, whose output has a name that says what it is.

`torch.onnx.export` names outputs after the last operation, such as ``div`` for a division by T, and writes every tensor that
the network returns. Here the file has one output: the calibrated logits or their softmax.
"""

import os
import warnings
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from nishimori._support.disk import new_file
from nishimori._support.numbers import one_of
from nishimori._support.optional import require
from nishimori._support.warnings import notice
from nishimori.errors import InputError, InputWarning
from nishimori.torch._calibrated import Calibrated
from nishimori.torch._fold import check_calibrated_once, deviation, tolerance
from nishimori.torch._members import refuse_random_graph
from nishimori.torch._run import (
    check_classes,
    device_of,
    evaluating,
    logits_of,
    move_to_device,
    probabilities,
    refuse_number,
    short,
)
from nishimori.torch._signature import signature_of_model

Output = Literal["logits", "probabilities"]

_LARGEST = 1536 * 2**20  # PyTorch writes more weights to a second file, whatever it is asked for

# Warnings of PyTorch about its own code, and about two inputs that share the name of a dimension, which is what is wanted.
_INTERNAL = (".*LeafSpec.* is deprecated", "# The axis name: batch will not be used")


def to_onnx(
    calibrated: Calibrated,
    args: Any,
    path: str | os.PathLike[str],
    *,
    output: Output = "logits",
    dynamic_shapes: Any = None,
    overwrite: bool = False,
) -> None:
    """Write a calibrated network to an ONNX file with one output, called "logits" or "probabilities".

    The network runs once on ``args`` and is exported, in eval mode; afterwards every module has its previous mode. The file is
    run on ``args`` too, and is not kept if it gives other numbers. Needs ``pip install 'nishimori[onnx]'``.

    Parameters
    ----------
    calibrated : Calibrated
        The network; wrap another one with ``Calibrated(model)``.
    args
        Example inputs of the network. A tensor is its only argument, a tuple holds its positional arguments, a mapping its
        keyword arguments.
    path : path-like
        The file to write. Its name must end in .onnx.
    output : {"logits", "probabilities"}
        What the file returns: the calibrated logits as the network shapes them, or their softmax of shape (n, n_classes).
    dynamic_shapes : optional
        As for `torch.onnx.export`. By default the first dimension of every input is called "batch" and may have any size.
    overwrite : bool
        Whether to replace an existing file.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import Calibrated, to_onnx
    >>> calibrated = Calibrated(torch.nn.Linear(4, 3), temperature=2.0)
    >>> to_onnx(calibrated, torch.randn(5, 4), "calibrated.onnx", output="probabilities")  # doctest: +SKIP
    """
    require("onnxscript", extra="onnx", for_="nishimori.torch.to_onnx")
    _check(calibrated, output)
    if os.path.splitext(os.fspath(path))[1].lower() != ".onnx":
        raise InputError("path", "end in .onnx", got=repr(os.fspath(path)))
    inputs = move_to_device(args, device_of(calibrated))
    named = dict(inputs) if isinstance(inputs, Mapping) else {}
    positional = () if named else tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if dynamic_shapes is None:
        dynamic_shapes = _any_batch(named or positional)
    with new_file(path, overwrite=overwrite) as temporary, evaluating(calibrated), torch.no_grad(), warnings.catch_warnings():
        for message in _INTERNAL:
            warnings.filterwarnings("ignore", message)
        served = _Served(calibrated, output)
        expected = served(*positional, **named)  # whose errors say what to do; PyTorch's would begin with its own stages
        program: Any = torch.onnx.export(
            served,
            positional,
            temporary,
            kwargs=named or None,
            output_names=[output],
            dynamic_shapes=dynamic_shapes,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
        _check_written(program, positional, named, expected)


def _check_written(program: Any, positional: tuple[Any, ...], named: Mapping[str, Any], expected: Tensor) -> None:
    """Refuse a file that does not give what the network gives for the same inputs."""
    try:
        (written,) = program(*positional, **named)
    except Exception as error:  # of onnxruntime, which does not run every operation in every dtype
        notice(
            f"It was not checked that the file gives the numbers of the network, because onnxruntime does not run it here "
            f"({short(error)}).",
            InputWarning,
        )
        return
    after, before = torch.as_tensor(written).cpu(), expected.cpu()
    off, allowed = deviation(after, before), tolerance(expected)
    if not (off <= allowed or torch.equal(after, before)):  # also NaN
        raise InputError(
            "The network",
            "give the same numbers when it runs from an ONNX file",
            got=f"numbers that differ by {off:.2g} of the largest ({allowed:g} is allowed)",
            remedy="Nothing was written. The usual cause is that `forward` depends on values or shapes of its inputs, or draws "
            "random numbers.",
        )


class _Served(nn.Module):
    """A calibrated network that returns one tensor."""

    def __init__(self, calibrated: Calibrated, output: Output) -> None:
        super().__init__()
        self.model = calibrated
        self.output = output
        self.training = calibrated.training

    @signature_of_model
    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        logits = logits_of(
            self.model.model(*args, **kwargs),
            "Wrap the model in a module that returns the logits alone.",
            pick=self.model._pick,
        )
        if self.output == "logits":
            return self.model.mapped(logits).to(logits.dtype)
        check_classes(refuse_number(logits), self.model.n_classes, self.model.class_axis)
        return probabilities(self.model.mapped(logits), self.model.class_axis).to(logits.dtype)


def _check(calibrated: Any, output: Any) -> None:
    if not isinstance(calibrated, Calibrated):
        raise InputError(
            "calibrated",
            "be a Calibrated",
            got=f"a {type(calibrated).__name__}",
            remedy="Pass the result of `calibrate`, or wrap a network that needs no temperature: `Calibrated(model)`.",
        )
    one_of("output", output, Output)
    refuse_random_graph(calibrated)
    check_calibrated_once(calibrated)
    if calibrated.needs_groups:
        raise InputError(
            "calibrated",
            "not have one temperature per group, because an ONNX file cannot look up names of groups",
            remedy="Write one file per group: `to_onnx(Calibrated(model, T), args, path)` with the T of the group.",
        )
    size = sum(tensor.nbytes for tensor in (*calibrated.parameters(), *calibrated.buffers()))
    if size > _LARGEST:
        raise InputError(
            "calibrated",
            "have at most 1.5 GiB of weights",
            got=f"{size / 2**30:.1f} GiB, which PyTorch does not write to one file",
            remedy="Call `torch.onnx.export(calibrated.eval(), args, path, output_names=['logits'])`, which writes the "
            "weights to a second file.",
        )


def _any_batch(value: Any) -> Any:
    """The dynamic shapes of inputs whose first dimension has any size."""
    if isinstance(value, Tensor):
        return {0: "batch"} if value.ndim else {}
    if isinstance(value, Mapping):
        return {key: _any_batch(entry) for key, entry in value.items()}
    return type(value)(map(_any_batch, value)) if isinstance(value, tuple | list) else None
