"""What functions return: classes to annotate with and to recognise. Functions make them."""

from nishimori._support.lazy import names_in_stub

__getattr__, __dir__, __all__ = names_in_stub(__name__, __file__)
