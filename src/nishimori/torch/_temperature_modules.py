"""Maps with a temperature per predicted class or per group, as modules of PyTorch."""

import json
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from nishimori._rows.batch import Groups
from nishimori._support import arrays
from nishimori.errors import InputError
from nishimori.maps.group_temperatures import ClassTemperatures, GroupTemperatures
from nishimori.torch._logits import last_size, wide_dtype
from nishimori.torch._map_module import MapModule, host, is_in_graph, single


class ClassTemperaturesModule(MapModule):
    """Division by the temperature of the predicted class."""

    names = frozenset({"temperatures"})

    @classmethod
    def of(cls, map_: ClassTemperatures, device: torch.device | None) -> Self:
        return cls(single({"temperatures": map_.temperatures}, device))

    @property
    def map(self) -> ClassTemperatures:
        return ClassTemperatures(host(self.get_buffer("temperatures")))

    @property
    def n_classes(self) -> int:
        return last_size(self.get_buffer("temperatures"))

    def described(self) -> str:
        return f"one temperature per predicted class for {self.n_classes} classes"

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:  # noqa: ARG002 - the same for all
        """The logits of each row, divided by the temperature of its largest one."""
        return self._by_row(logits, self._rows)

    def _rows(self, logits: Tensor) -> Tensor:
        return logits / self._at("temperatures", logits)[logits.argmax(dim=-1)][..., None]


class GroupTemperaturesModule(MapModule):
    """Division by the temperature of the group of each row.

    The names of the groups are a buffer too, as the bytes of a JSON list: every format of weights can hold it, and reading it
    runs no code.
    """

    names = frozenset({"groups", "temperatures", "common"})

    @classmethod
    def of(cls, map_: GroupTemperatures, device: torch.device | None) -> Self:
        text = torch.frombuffer(bytearray(json.dumps(map_.groups).encode()), dtype=torch.uint8).to(device)
        divisors = single({"temperatures": map_.temperatures, "common": map_.common}, device)
        return cls({"groups": text, **divisors})

    @property
    def map(self) -> GroupTemperatures:
        names = json.loads(bytes(self.get_buffer("groups").cpu().tolist()).decode())
        return GroupTemperatures(tuple(names), host(self.get_buffer("temperatures")), float(self.get_buffer("common")))

    def described(self) -> str:
        return "one temperature per group"

    def check(self, logits: Tensor) -> None:
        """Any number of classes will do."""
        if not logits.ndim:
            raise InputError("`model` must return logits of shape (n, n_classes) or (n,), got a single number.")

    def forward(self, logits: Tensor, groups: Any = None) -> Tensor:
        """The logits, divided by the temperature of the group of each entry of the first dimension, or of each position."""
        self.check(logits)
        wide = logits.to(wide_dtype(logits))
        divisors: Tensor = self._temperatures(wide, groups)
        return wide / divisors

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _temperatures(self, logits: Tensor, groups: Any) -> Tensor:
        """What each row is divided by. The names are looked up on the host, so this is not part of a compiled graph."""
        if is_in_graph():
            raise InputError(
                "`calibrated` must not have one temperature per group to be exported, because names of groups are looked up "
                "outside of the graph. Export one network per group: `Calibrated(model, T)` with the T of the group."
            )
        if groups is None:
            raise InputError(
                "`groups` must name the group of each sample, because each group has its own temperature. Pass them by name "
                "after the arguments of the network: `calibrated(x, groups=groups)`."
            )
        known, map_ = coded_groups(groups, logits), self.map
        map_.warn_of_others(known)
        places = {name: place for place, name in enumerate(map_.groups)}
        chosen = torch.as_tensor([places.get(name, len(places)) for name in known.names], dtype=torch.int64)
        at = chosen[torch.as_tensor(known.codes)].to(logits.device)
        found = torch.cat([self._at("temperatures", logits), self._at("common", logits)[None]])[at]
        shape = logits.shape[:-1] if len(at) > len(logits) else logits.shape[:1]
        return found.reshape(*shape, *[1] * (logits.ndim - len(shape)))

    def extra_repr(self) -> str:
        """The number of groups, for ``print``."""
        return f"n_groups={len(self.get_buffer('temperatures'))}"


def coded_groups(groups: Any, logits: Tensor) -> Groups:
    """The group of each entry of the first dimension of the logits or, if there are as many, of each position."""
    leading = tuple(logits.shape[:-1])
    try:
        each_position = len(leading) > 1 and tuple(np.shape(groups)) == leading
    except ValueError:  # rows of different lengths, which are refused below
        each_position = False
    flat = arrays.on_host(arrays.as_array(groups)).reshape(-1) if each_position else groups
    return Groups.coded(flat, len(flat) if each_position else len(logits))
