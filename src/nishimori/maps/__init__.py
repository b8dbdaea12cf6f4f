"""Maps from logits to calibrated logits. A fitted calibrator has one as `map_`, and a file holds its parameters."""

from nishimori.maps.affine import Affine, LogAffine
from nishimori.maps.around import Shifted, Tempered
from nishimori.maps.class_curves import ClassCurves
from nishimori.maps.log_odds import LogOdds
from nishimori.maps.map import Map
from nishimori.maps.mixture import Mixture
from nishimori.maps.temperature import ClassTemperatures, GroupTemperatures, Temperature

__all__ = [
    "Affine",
    "ClassCurves",
    "ClassTemperatures",
    "GroupTemperatures",
    "LogAffine",
    "LogOdds",
    "Map",
    "Mixture",
    "Shifted",
    "Temperature",
    "Tempered",
]
