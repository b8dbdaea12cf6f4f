"""The tables, figures and theory of arXiv:2303.02644, computed again and compared with the numbers that the paper prints.

Each table or figure is an *artefact* with a name. Artefacts need only the bundled logits. `train`, `logits` and `models` need
PyTorch. Names are imported when they are first used.

>>> import nishimori_paper as paper
>>> "figure-temperatures" in paper.names()
True
"""

from typing import TYPE_CHECKING, Any

from nishimori._support.lazy import names_of
from nishimori._support.optional import require

if TYPE_CHECKING:
    from nishimori_paper import models as models
    from nishimori_paper import theory as theory
    from nishimori_paper._artefact import Artefact as Artefact
    from nishimori_paper._artefact import Finding as Finding
    from nishimori_paper._artefact import Scale as Scale
    from nishimori_paper._claim import Claim as Claim
    from nishimori_paper._reproduction import artefact as artefact
    from nishimori_paper._reproduction import check as check
    from nishimori_paper._reproduction import names as names
    from nishimori_paper._reproduction import run as run
    from nishimori_paper._runs import Outcome as Outcome
    from nishimori_paper.training._train import logits as logits
    from nishimori_paper.training._train import train as train

_HOME = {
    "Artefact": "_artefact",
    "Claim": "_claim",
    "Finding": "_artefact",
    "Outcome": "_runs",
    "Scale": "_artefact",
    "artefact": "_reproduction",
    "check": "_reproduction",
    "logits": "training._train",
    "models": "",
    "names": "_reproduction",
    "run": "_reproduction",
    "theory": "",
    "train": "training._train",
}

__all__ = [*_HOME]  # noqa: PLE0604 - the table is the list
_find, __dir__ = names_of("nishimori_paper", _HOME, globals())


def __getattr__(name: str) -> Any:
    if name in ("logits", "models", "train"):
        require("torch", extra="train", for_=f"nishimori_paper.{name}", distribution="nishimori-paper")
    return _find(name)
