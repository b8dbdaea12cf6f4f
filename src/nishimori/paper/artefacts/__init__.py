"""The paper's tables and figures, one file each, and the table of their names."""

from collections.abc import Mapping

from nishimori.paper._artefact import Artefact
from nishimori.paper.artefacts._bayes import Bayes
from nishimori.paper.artefacts._claims import Claims
from nishimori.paper.artefacts._expectation_maximisation import ExpectationMaximisationArtefact
from nishimori.paper.artefacts._figure_coincidence import FigureCoincidence
from nishimori.paper.artefacts._figure_curves import FigureCurves
from nishimori.paper.artefacts._figure_density import FigureDensity
from nishimori.paper.artefacts._figure_ece import FigureEce
from nishimori.paper.artefacts._figure_reliability import FigureReliability
from nishimori.paper.artefacts._figure_temperatures import FigureTemperatures
from nishimori.paper.artefacts._figure_train_size import FigureTrainSize
from nishimori.paper.artefacts._figure_validation_size import FigureValidationSize
from nishimori.paper.artefacts._table_corrupted import TableCorrupted
from nishimori.paper.artefacts._table_real import TableReal

__all__ = ["ARTEFACTS"]

# In the paper's order.
ARTEFACTS: Mapping[str, Artefact] = {
    each.name: each
    for each in (
        *(TableReal(), FigureCurves(), FigureTrainSize(), TableCorrupted(), FigureReliability(), FigureValidationSize()),
        *(FigureTemperatures(), FigureEce(), FigureDensity()),
        *(Bayes(), ExpectationMaximisationArtefact(), FigureCoincidence(), Claims()),
    )
}
