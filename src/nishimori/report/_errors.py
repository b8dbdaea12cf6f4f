"""The pass over the errors of a model: what the report shows of them takes one call of the kernel per batch."""

from dataclasses import dataclass

from nishimori._kernels.row_sums import row_sums
from nishimori._rows.batch import Batch
from nishimori._sums.gibbs import Gibbs
from nishimori._sums.passes import Sums
from nishimori.report._confusions import confusions_of
from nishimori.report._mistakes import mistakes_of
from nishimori.report._risk_coverage import risk_of


@dataclass(frozen=True)
class ErrorsPass:
    """Finds `Mistakes`, `Confusions`, and `Risk` before and after calibration with one temperature."""

    most_mistakes: int
    temperature: float
    n_classes: int

    def __call__(self, batch: Batch) -> Sums:
        betas = (1.0, 1 / self.temperature)
        known = row_sums(batch, betas, 0)
        before, after = (Gibbs(batch, beta, known) for beta in betas)
        return Sums(
            (
                mistakes_of(known, before, after, self.most_mistakes),
                confusions_of(known, before, self.n_classes),
                risk_of(known, before),
                risk_of(known, after),
            )
        )
