"""The paper's tables and figures, one file each, and the table of their names."""

from collections.abc import Mapping

from nishimori_paper._artefact import Artefact
from nishimori_paper.artefacts._bayes import Bayes
from nishimori_paper.artefacts._expectation_maximisation import ExpectationMaximisationArtefact
from nishimori_paper.artefacts._figure_coincidence import FigureCoincidence
from nishimori_paper.artefacts._figure_curves import FigureCurves
from nishimori_paper.artefacts._figure_density import FigureDensity
from nishimori_paper.artefacts._figure_ece import FigureEce
from nishimori_paper.artefacts._figure_reliability import FigureReliability
from nishimori_paper.artefacts._figure_shipped import FigureShipped
from nishimori_paper.artefacts._figure_temperatures import FigureTemperatures
from nishimori_paper.artefacts._figure_train_size import FigureTrainSize
from nishimori_paper.artefacts._figure_validation_size import FigureValidationSize
from nishimori_paper.artefacts._statements import Statements
from nishimori_paper.artefacts._table_baselines import TableBaselines
from nishimori_paper.artefacts._table_corrupted import TableCorrupted
from nishimori_paper.artefacts._table_real import TableReal
from nishimori_paper.artefacts._table_shipped import TableShipped

__all__ = ["ARTEFACTS"]

# In the paper's order.
ARTEFACTS: Mapping[str, Artefact] = {
    artefact.name: artefact
    for artefact in (
        *(TableReal(), FigureCurves(), FigureTrainSize(), TableCorrupted(), FigureReliability(), FigureValidationSize()),
        *(FigureTemperatures(), FigureEce(), FigureDensity()),
        *(TableBaselines(), TableShipped(), FigureShipped()),
        *(Bayes(), ExpectationMaximisationArtefact(), FigureCoincidence(), Statements()),
    )
}
