"""Which module of PyTorch does what a map does, and which one a state dict belongs to."""

from collections.abc import Mapping

import torch
from torch import Tensor

from nishimori.errors import InputError
from nishimori.maps.affine import Affine
from nishimori.maps.group_temperatures import ClassTemperatures, GroupTemperatures
from nishimori.maps.log_affine import LogAffine
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map
from nishimori.maps.mixture import Mixture
from nishimori.torch._affine_module import AffineModule
from nishimori.torch._log_affine_module import LogAffineModule
from nishimori.torch._log_odds_module import LogOddsModule
from nishimori.torch._map_module import MapModule
from nishimori.torch._mixture_module import MixtureModule
from nishimori.torch._temperature_modules import ClassTemperaturesModule, GroupTemperaturesModule

_MODULES: dict[type[Map], type[MapModule]] = {
    ClassTemperatures: ClassTemperaturesModule,
    GroupTemperatures: GroupTemperaturesModule,
    Affine: AffineModule,
    LogOdds: LogOddsModule,
    Mixture: MixtureModule,
    LogAffine: LogAffineModule,
}


def module_for(map_: Map, device: torch.device | None) -> MapModule:
    """A map as a module, with its parameters on ``device``."""
    kind = _MODULES.get(type(map_))
    if kind is None:
        known = ", ".join(each.__name__ for each in _MODULES)
        raise InputError(
            f"The map must be one of Temperature, {known}, got a {type(map_).__name__}, which PyTorch modules cannot apply. "
            "Use the calibrator itself on the logits that `collect` returns."
        )
    return kind.of(map_, device)


def module_like(tensors: Mapping[str, Tensor], device: torch.device | None) -> MapModule | None:
    """An empty module for the parameters of a state dict; None if they are not those of a map."""
    empty = {
        name: torch.empty_like(each, dtype=torch.float32 if each.is_floating_point() else None, device=device)
        for name, each in tensors.items()
    }
    present = frozenset(tensors)
    for kind in _MODULES.values():
        if kind.names <= present <= kind.names | kind.optional:
            return kind(empty)
    return None
