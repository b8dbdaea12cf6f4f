"""All calibrator classes, including rarely used ones; `nishimori.calibrator` finds them by name."""

from nishimori._support.lazy import names_in_stub

__getattr__, __dir__, __all__ = names_in_stub(__name__, __file__)
