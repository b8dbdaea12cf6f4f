"""The tables, figures and theory of arXiv:2303.02644, computed again and compared with the numbers that the paper prints.

Each table or figure is an *artefact* with a name. Artefacts need only the bundled logits. `train`, `logits` and `models` need
PyTorch. Names are imported when they are first used.

>>> import nishimori_paper as paper
>>> "figure-temperatures" in paper.names()
True
"""

from typing import Any

from nishimori._support.lazy import names_in_stub
from nishimori._support.optional import require

_find, __dir__, __all__ = names_in_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in ("logits", "models", "train"):
        require("torch", extra="train", for_=f"nishimori_paper.{name}", distribution="nishimori-paper")
    return _find(name)
