"""`Ensemble` and `MCDropout`: networks whose logits are the log of the mean softmax of several predictions.

Pooling comes first and calibration after it: `calibrate` finds one temperature for these logits, which belongs to the number of
members. A mean of softmaxes is no linear layer, so no temperature can be folded into it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from nishimori._rows.scores import Members
from nishimori._support.numbers import whole
from nishimori.errors import InputError
from nishimori.torch._run import (
    Pick,
    check_module,
    check_pick,
    classes_back,
    classes_last,
    evaluating,
    logits_of,
    refuse_number,
    scores_in,
    wide_dtype,
)
from nishimori.torch._signature import signature_of_model

_NO_LOGITS = "Say where the logits of a member are: `output=0`, a key, or a function of its output."

_FIT_ANEW = "T belongs to the number of members: calibrate this network, or load it into one with as many."

# Devices whose random numbers can be drawn again.
_SEEDED = ("cpu", "cuda", "xpu")

# Masks come from the generators of the whole process, so only one call at a time draws them.
_drawing = RLock()


class Averaged(nn.Module):
    """The average of several predictions. A state dict of another number of members is refused."""

    def __init__(self, n_members: int, output: Pick, class_axis: int) -> None:
        super().__init__()
        check_pick(output)
        self.n_members = n_members
        self.class_axis = class_axis
        self._pick = output

    @property
    def members(self) -> Members:
        """How many members are averaged; for NumPy they are in the first dimension."""
        return Members(self.n_members, 0)

    def average(self, outputs: Iterable[Any]) -> Tensor:
        """The log of the mean softmax of the members, in float32 at least; a class that some mask has the mean of the others.

        Where members return one score z per sample, which means the logits (0, z), it is such a score too.
        """
        total: Any = None
        for output in outputs:
            logits = refuse_number(logits_of(output, _NO_LOGITS, pick=self._pick))
            rows = classes_last(logits, self.class_axis).to(wide_dtype(logits))
            z = scores_in(rows)
            log_p = (rows if z is None else torch.stack([torch.zeros_like(z), z], dim=-1)).log_softmax(dim=-1)
            live = (log_p > -torch.inf).to(log_p.dtype)
            if total is None:
                shape, total, n_live = logits.shape, log_p, live
                continue
            if logits.shape != shape:
                got = f"shape {tuple(logits.shape)} after {tuple(shape)}"
                raise InputError("All members", "return logits of the same shape", got=got)
            total, n_live = torch.logaddexp(total, log_p), n_live + live
        mean = total - n_live.clamp(min=1).log()
        return classes_back(mean if z is None else (mean[..., 1] - mean[..., 0]).reshape(rows.shape), self.class_axis)

    def get_extra_state(self) -> Tensor:
        """What a state dict keeps besides the weights: the number of members."""
        return torch.tensor([self.n_members])

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse a state dict of another number of members."""
        size = int(state.reshape(-1)[0])
        if size != self.n_members:
            raise InputError("The state dict", f"be that of {self.n_members} members", got=f"{size} members", remedy=_FIT_ANEW)


class Ensemble(Averaged):
    """Several networks as one, which returns the log of their mean softmax.

    `calibrate` makes one of a list of networks. Make it yourself to load a state dict, or to collect its logits.

    Parameters
    ----------
    models : sequence of torch.nn.Module
        The members: different networks that take the same inputs. They are not copied.
    output : str, int or callable, optional
        Where the logits are in what a member returns, if not in a tensor, ``.logits`` or ``["logits"]``.
    class_axis : int
        Which dimension of the logits is that of the classes.

    Attributes
    ----------
    n_members : int
        The number of networks, which is part of the state dict: one of another number is refused.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import Ensemble
    >>> networks = [torch.nn.Linear(4, 3) for _ in range(5)]
    >>> x = torch.randn(2, 4)
    >>> mean = torch.stack([network(x).softmax(dim=1) for network in networks]).mean(dim=0)
    >>> torch.allclose(Ensemble(networks)(x), mean.log(), atol=1e-6)
    True
    """

    def __init__(self, models: Sequence[nn.Module], *, output: Pick = None, class_axis: int = -1) -> None:
        listed = list(models)
        super().__init__(len(listed), output, class_axis)
        for number, model in enumerate(listed):
            check_module(model, f"models[{number}]")
        if not listed or len(set(map(id, listed))) < len(listed):
            got = "the same one twice" if listed else "none"
            raise InputError("models", "be different networks, at least one", got=got)
        self.networks = nn.ModuleList(listed)
        self.training = self.networks.training = any(model.training for model in listed)  # theirs stay as they are

    @signature_of_model
    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """The log of the mean softmax of the members for these arguments."""
        return self.average(network(*args, **kwargs) for network in self.networks)


class MCDropout(Averaged):
    """A network under several dropout masks, which returns the log of their mean softmax.

    Its dropout modules are active in every call and all its other modules are in eval mode, whatever the mode is. Masks are
    drawn from a seed, and the random generators of PyTorch are as before afterwards. So a call with the same batch gives the
    same logits. The masks of a sample depend on its place in the batch. Calls from several threads run one after the other.

    Parameters
    ----------
    model : torch.nn.Module
        The network, with at least one module whose class is called Dropout, such as ``torch.nn.Dropout``, and p > 0. It is not
        copied. Dropout inside attention and recurrent layers stays off.
    samples : int
        How many masks are averaged.
    seed : int
        What the masks are drawn from; a state dict brings its own.
    output, class_axis
        As for `Ensemble`.

    Attributes
    ----------
    n_members : int
        The number of masks, which is part of the state dict: one of another number is refused.

    Examples
    --------
    >>> import torch
    >>> from nishimori.torch import MCDropout
    >>> network = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))
    >>> averaged = MCDropout(network, samples=10)
    >>> x = torch.randn(2, 4)
    >>> torch.equal(averaged(x), averaged(x))
    True
    """

    def __init__(
        self, model: nn.Module, samples: int = 20, *, seed: int = 0, output: Pick = None, class_axis: int = -1
    ) -> None:
        super().__init__(whole("samples", samples, 1), output, class_axis)
        check_module(model)
        self.seed = whole("seed", seed, 0)
        if not _dropout_in(model):
            raise InputError(
                "model",
                "have a dropout module with p > 0 where dropout masks are averaged",
                got=f"a {type(model).__name__} without one",
                remedy="Leave `samples` out. If dropout is called as a function, write a module whose `forward` averages over "
                "masks, and pass that as `model`.",
            )
        self.model = model
        self.training = model.training

    @signature_of_model
    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """The log of the mean softmax over the masks for these arguments."""
        with _drawing, evaluating(self.model), _active(_dropout_in(self.model)), _seeded(self.model, self.seed):
            return self.average(self.model(*args, **kwargs) for _ in range(self.n_members))

    def get_extra_state(self) -> Tensor:
        """What a state dict keeps besides the weights: the number of masks and their seed."""
        return torch.tensor([self.n_members, self.seed])

    def set_extra_state(self, state: Tensor) -> None:
        """Refuse a state dict of another number of masks, and take over its seed."""
        super().set_extra_state(state)
        self.seed = int(state.reshape(-1)[1])

    def extra_repr(self) -> str:
        """The number of masks and their seed, for ``print``."""
        return f"samples={self.n_members}, seed={self.seed}"


def averaged(model: Any, samples: int | None, output: Pick, class_axis: int) -> tuple[Any, Pick]:
    """The network of a list of networks, or of dropout masks, and where its logits are; other networks as they are."""
    if isinstance(model, list | tuple | nn.ModuleList):
        if samples is not None:
            raise InputError("samples", "be left out where `model` is a list of networks", got=samples)
        return Ensemble(list(model), output=output, class_axis=class_axis), None
    if samples is None:
        return model, output
    return MCDropout(model, samples, output=output, class_axis=class_axis), None


def members_of(model: Any) -> Members | None:
    """How many members a network averages; None for one that is not made here."""
    return model.members if isinstance(model, Averaged) else None


def refuse_folding(model: nn.Module) -> None:
    """Refuse a network that averages, whose logits no single layer computes."""
    part = next((module for module in model.modules() if isinstance(module, Averaged)), None)
    if part is not None:
        raise InputError(
            "The network",
            "have one last layer that computes the logits",
            got=f"the class {type(part).__name__}, which averages the softmaxes of {part.n_members} members",
            remedy="Serve the Calibrated itself, whose state dict holds the temperature.",
        )


def refuse_random_graph(model: nn.Module) -> None:
    """Refuse a network whose dropout masks are drawn in every call, where it is exported."""
    part = next((module for module in model.modules() if isinstance(module, MCDropout)), None)
    if part is not None:
        raise InputError(
            "The network",
            "be without random numbers to be exported",
            got=f"an MCDropout with {part.n_members} masks, which are drawn from a seed in every call",
            remedy="Serve it in PyTorch, or export an Ensemble.",
        )


def _dropout_in(model: nn.Module) -> list[nn.Module]:
    """The dropout modules that change something."""
    modules = (module for module in model.modules() if "Dropout" in type(module).__name__)
    return [module for module in modules if getattr(module, "p", None) != 0]


@contextmanager
def _active(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Training mode of these modules alone, inside the ``with`` block."""
    before = [module.training for module in modules]
    try:
        for module in modules:
            module.training = True
        yield
    finally:
        for module, training in zip(modules, before, strict=True):
            module.training = training


@contextmanager
def _seeded(model: nn.Module, seed: int) -> Iterator[None]:
    """Random numbers from a seed inside the ``with`` block; afterwards the generators are as before."""
    devices = {tensor.device for tensor in (*model.parameters(), *model.buffers())} - {torch.device("cpu")}
    kinds = {device.type for device in devices}
    if not kinds <= set(_SEEDED) or len(kinds) > 1:
        got = " and ".join(sorted(kinds))
        raise InputError("model", f"be on one kind of device, {', '.join(_SEEDED)}, to draw masks from a seed", got=got)
    kind = next(iter(kinds), "cuda")
    indices = sorted(device.index for device in devices)
    with torch.random.fork_rng(devices=indices, device_type=kind):
        torch.default_generator.manual_seed(seed)
        for index in indices:  # and no other device, whose generator is not restored
            getattr(torch, kind).default_generators[index].manual_seed(seed)
        yield
