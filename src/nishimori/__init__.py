"""nishimori makes classifiers honest about their confidence.

The names in ``__init__.pyi`` are what people type; each is imported when it is first used, so that ``import nishimori`` costs
nothing. What functions return is in `nishimori.results`, the rarer calibrators are in `nishimori.calibrators`, maps in
`nishimori.maps`, errors in `nishimori.errors`.
"""

from nishimori._support.lazy import names_in_stub

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = names_in_stub(__name__, __file__)
