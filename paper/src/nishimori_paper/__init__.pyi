"""The public names, each written once: type checkers read this file, and names are imported from it."""

from nishimori_paper import models as models
from nishimori_paper import theory as theory
from nishimori_paper._artefact import Artefact as Artefact
from nishimori_paper._artefact import Finding as Finding
from nishimori_paper._artefact import Scale as Scale
from nishimori_paper._judged_statement import JudgedStatement as JudgedStatement
from nishimori_paper._reproduction import artefact as artefact
from nishimori_paper._reproduction import check as check
from nishimori_paper._reproduction import names as names
from nishimori_paper._reproduction import run as run
from nishimori_paper._runs import Outcome as Outcome
from nishimori_paper.training._train import logits as logits
from nishimori_paper.training._train import train as train
