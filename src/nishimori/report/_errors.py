"""The pass over the errors of a model: what the report shows of them takes one call of the kernel per batch and map."""

from dataclasses import dataclass

from nishimori._kernels.kernel import row_sums
from nishimori._rows.batch import Batch
from nishimori._sums.passes import Sums
from nishimori._sums.predictions import Predictions, apply_map
from nishimori.maps.map import Map
from nishimori.report._confusions import confusions_of
from nishimori.report._mistakes import mistakes_of
from nishimori.report._risk_coverage import risk_of


@dataclass(frozen=True)
class ErrorsPass:
    """Finds `Mistakes`, `Confusions`, and `Risk` before and after calibration."""

    most_mistakes: int
    map: Map
    n_classes: int

    def __call__(self, batch: Batch) -> Sums:
        mapped, beta = apply_map(self.map, batch)
        sums = row_sums(batch, (1.0, beta), 0)
        before = Predictions(batch, 1.0, sums)
        after = Predictions(mapped, beta, sums if mapped is batch else row_sums(mapped, (beta,), 0))
        return Sums(
            (
                mistakes_of(before, after, self.most_mistakes),
                confusions_of(before, self.n_classes),
                risk_of(before),
                risk_of(after),
            )
        )
