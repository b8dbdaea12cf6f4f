"""Labels that do not exclude each other: the calibrator of each label, and its metrics."""

from nishimori._support.lazy import names_in_stub

__getattr__, __dir__, __all__ = names_in_stub(__name__, __file__)
