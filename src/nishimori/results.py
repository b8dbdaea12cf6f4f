"""The classes of results, for annotations and `isinstance`; functions create the objects."""

from nishimori._support.lazy import names_in_stub

__getattr__, __dir__, __all__ = names_in_stub(__name__, __file__)
